"""The settings for MCP servers, and the servers configured for a model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, ValidationError

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.settings_models import StrictSettings
from karenina_core.text import did_you_mean
from karenina_toolkit.http.urls import find_secret_parts, redact_url

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_HIDDEN: Final = "***"


class ServerOptions(StrictSettings):
    """The options for a single server, from `ModelConfig.mcp_server_options`. The values of headers are secret."""

    model_config = ConfigDict(hide_input_in_errors=True)

    prefix: str = Field(
        default="", pattern=r"^[A-Za-z0-9_-]*$", description="Prefix for the names of the server's tools, such as git_."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="HTTP headers for a server with a URL; ${NAME} is replaced by the value of an environment "
        "variable.",
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="Names of additional environment variables for a server started by a command.",
    )
    network: bool = Field(
        default=False,
        description="Whether a server started by a command may use the network in a sandbox (--sandbox), such as one "
        "that searches the web.",
    )
    start_timeout: float = Field(default=60.0, gt=0, description="Seconds for the server to start and list its tools.")
    call_timeout: float = Field(default=60.0, gt=0, description="Seconds for one tool call.")
    elicitation: Literal["decline", "defaults"] = Field(
        default="decline",
        description="The reply when the server requests user input: decline, or the default values of the server's "
        "form.",
    )


@dataclass(frozen=True, slots=True)
class Server:
    """An MCP server used by a model: its name, its address (a URL or a command line), and its options."""

    name: str
    address: str
    options: ServerOptions

    @property
    def is_remote(self) -> bool:
        """Whether the address is a URL rather than a command line."""
        return _URL.match(self.address) is not None

    def url(self) -> str:
        """Return the URL with environment variables expanded. Raises `ValueError` if a variable is unset or empty."""
        return expand_variables(self.address)

    def command(self) -> list[str]:
        """Return the command line's words, with environment variables expanded and the program's absolute path. Raises
        `ValueError` if there is no such program or variable, or if the command line is badly quoted.

        The program is searched for in PATH, then next to this Python. An empty command line or variable is an error,
        too.
        """
        words = [expand_variables(word) for word in shlex.split(self.address)]
        if not words:
            raise ValueError("the value is empty; set it to a URL or a command line")
        return [find_program(words[0]), *words[1:]]

    def headers(self) -> dict[str, str]:
        """Return the headers, with variables expanded. Raises `ValueError` if a variable is unset or empty."""
        return {name: expand_variables(value.get_secret_value()) for name, value in self.options.headers.items()}

    def passed_variables(self) -> dict[str, str]:
        """Return the variables listed in `environment`. Raises `ValueError` if a variable is unset or empty."""
        return {name: expand_variables(f"${{{name}}}") for name in self.options.environment}

    def secrets(self) -> set[str]:
        """Return the strings that messages must not show: header values, variables, and secrets in the URL. Strings of
        up to 3 characters are omitted. If a variable is unset or empty, the set is empty.
        """
        try:
            values = {*self.headers().values(), *self.passed_variables().values()}
        except ValueError:
            return set()
        named = _VARIABLE.findall(self.address)
        values |= {value.split()[-1] for value in values if value.split()}
        values |= {*find_secret_parts(self.address)} if self.is_remote else set()
        return {value for value in (*values, *(os.environ.get(name, "") for name in named)) if len(value) > 3}

    def __str__(self) -> str:
        return f"the MCP server {self.name!r} ({self._shown()})"

    def _shown(self) -> str:
        """Return the address without secrets, for use in messages."""
        if self.is_remote:
            return redact_url(self.address)
        return shlex.join(_without_secrets(shlex.split(self.address)))


def has_servers(model: ModelConfig) -> bool:
    """Return whether the model has MCP servers."""
    return bool(model.mcp_urls_dict)


def read_servers(model: ModelConfig) -> list[Server]:
    """Return the MCP servers that a model is configured with. Raises `AdapterConfigError` with all problems."""
    servers: list[Server] = []
    problems: list[str] = []
    places = model.mcp_urls_dict or {}
    for name, address in places.items():
        try:
            options = ServerOptions.model_validate(model.mcp_server_options.get(name, {}))
        except ValidationError as error:
            problems += [
                _option_problem(name, problem["loc"], problem["msg"]) for problem in error.errors(include_input=False)
            ]
            continue
        servers.append(Server(name, address.strip(), options))
        problems += _server_problems(servers[-1])
    problems += [
        f"mcp_server_options has options for {name!r}, but mcp_urls_dict has no such server{did_you_mean(name, places)}"
        for name in model.mcp_server_options
        if name not in places
    ]
    problems += _name_problems(model)
    if problems:
        raise AdapterConfigError("; ".join(problems))
    return servers


def expand_variables(text: str) -> str:
    """Return `text` with the value of an environment variable in place of each `${NAME}`. Raises `ValueError` if one is
    unset or empty.
    """

    def value(match: re.Match[str]) -> str:
        setting = os.environ.get(match[1])
        if not setting:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return setting

    return _VARIABLE.sub(value, text)


def find_program(program: str) -> str:
    """Return the path of a program in PATH or next to this Python. Raises `ValueError` if it is not found."""
    path = shutil.which(program) or shutil.which(program, path=sysconfig.get_path("scripts"))
    if path is None:
        raise ValueError(f"the program {program!r} was not found; install the program, or set its full path")
    return str(Path(path).absolute())


def _server_problems(server: Server) -> Iterator[str]:
    """Yield a message for each problem with a server's URL or command, and for options that do not apply to it."""
    where = f"mcp_urls_dict, {server.name!r}"
    try:
        if server.is_remote:
            yield from _url_problems(server)
            server.headers()
        else:
            server.command()
            server.passed_variables()
    except ValueError as error:
        yield f"{where}: {error}"
    if server.is_remote and server.options.environment:
        yield (
            f"{where}: environment applies only to servers started by a command, but this server has a URL; use headers"
        )
    if server.is_remote and server.options.network:
        yield f"{where}: network applies only to servers started by a command, but this server has a URL; remove it"
    if not server.is_remote and server.options.headers:
        yield (
            f"{where}: headers apply only to servers with a URL, but this server is started by a command; use "
            "environment"
        )


def _url_problems(server: Server) -> Iterator[str]:
    """Yield a message for each problem with a server's URL and headers. Raises `ValueError` if the URL is invalid or an
    environment variable is unset or empty.
    """
    where = f"mcp_urls_dict, {server.name!r}"
    url = urlsplit(server.url())
    if url.scheme not in ("http", "https") or not url.hostname:
        yield f"{where}: the URL must begin with http:// or https:// and contain a host"
    if url.username is not None or url.password is not None:
        yield (
            f"{where}: the URL contains a user name or password; use an Authorization header in mcp_server_options "
            "instead"
        )
    for name, value in server.headers().items():
        if not (name + value).isprintable() or not (name + value).isascii():
            yield f"{where}: the header {name!r} contains a line break or another forbidden character"


def _name_problems(model: ModelConfig) -> Iterator[str]:
    """Yield a message for each problem with the tool filter and descriptions. The tools need not be known yet."""
    chosen = model.mcp_tool_filter
    if chosen is not None and not chosen:
        yield "mcp_tool_filter is empty, so the model would get no tools; name some tools, or remove mcp_tool_filter"
    overrides: Mapping[str, str] = model.mcp_tool_description_overrides or {}
    for field, names in (("mcp_tool_filter", chosen or ()), ("mcp_tool_description_overrides", overrides)):
        if any(not name.strip() for name in names):
            yield f"{field} contains an empty name"
    yield from (
        f"mcp_tool_description_overrides: the text for {name!r} is empty"
        for name in overrides
        if not overrides[name].strip()
    )


def _option_problem(server: str, place: tuple[int | str, ...], message: str) -> str:
    """Return an error message for an invalid option of a server. `place` is the path of the field in the options."""
    field = ".".join(str(part) for part in place)
    return f"mcp_server_options.{server}.{field}: {message}"


def _without_secrets(words: list[str]) -> Iterator[str]:
    """Yield the words of a command line. Values of options and variables are hidden if they look secret. A value looks
    secret if the name contains a word such as "key" or "token". References to variables are kept.
    """
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            yield word if _VARIABLE.fullmatch(word) else _HIDDEN
            hide_next = False
            continue
        is_secret = bool(_SECRET_NAME.search(name)) and (word.startswith("-") or bool(equals))
        yield f"{name}={_HIDDEN}" if is_secret and equals and not _VARIABLE.fullmatch(value) else word
        hide_next = is_secret and not equals
