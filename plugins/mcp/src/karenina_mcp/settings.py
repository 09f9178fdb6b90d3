"""What can be set for MCP servers, and what the fields of a model say about them."""

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
from karenina_core.models.strict_settings import StrictSettings
from karenina_core.text import did_you_mean
from karenina_toolkit.urls import find_secret_parts, redact_url

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_HIDDEN: Final = "***"


class ServerOptions(StrictSettings):
    """`ModelConfig.mcp_server_options` of one server. Values of `headers` are treated as secrets."""

    model_config = ConfigDict(hide_input_in_errors=True)

    prefix: str = Field(
        default="", pattern=r"^[A-Za-z0-9_-]*$", description="Put before the names of the server's tools, such as git_."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="HTTP headers for a server with a URL; ${NAME} is a variable of the environment.",
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="Names of environment variables that a server with a command gets beside the usual ones.",
    )
    start_timeout: float = Field(default=60.0, gt=0, description="Seconds in which it has to start and name its tools.")
    call_timeout: float = Field(default=60.0, gt=0, description="Seconds for one call of a tool.")
    elicitation: Literal["decline", "defaults"] = Field(
        default="decline", description="What it hears when it asks the user something: no, or the defaults of its form."
    )


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a model: its name, where it is as the configuration says it, and its options."""

    name: str
    address: str
    options: ServerOptions

    @property
    def is_remote(self) -> bool:
        """Whether it is reached by URL; else a command starts it."""
        return _URL.match(self.address) is not None

    def url(self) -> str:
        """The URL, with the environment's values in it. Raises `ValueError`."""
        return expand_variables(self.address)

    def command(self) -> list[str]:
        """The words of the command line, with the environment's values in them. Raises `ValueError`.

        The program is a path: one that stands beside this Python is found too, whatever PATH says.
        """
        words = [expand_variables(word) for word in shlex.split(self.address)]
        if not words:
            raise ValueError("it is empty; give a URL or a command line")
        return [find_program(words[0]), *words[1:]]

    def headers(self) -> dict[str, str]:
        """The headers, with the environment's values in them. Raises `ValueError`."""
        return {name: expand_variables(value.get_secret_value()) for name, value in self.options.headers.items()}

    def passed_on(self) -> dict[str, str]:
        """The named variables with their values. Raises `ValueError` for one that is not set."""
        return {name: expand_variables(f"${{{name}}}") for name in self.options.environment}

    def secrets(self) -> set[str]:
        """What must stand in no message: the values of headers, and of variables that are named."""
        try:
            found = {*self.headers().values(), *self.passed_on().values()}
        except ValueError:
            return set()
        named = _VARIABLE.findall(self.address)
        found |= {value.split()[-1] for value in found if value.split()}
        found |= {*find_secret_parts(self.address)} if self.is_remote else set()
        return {value for value in (*found, *(os.environ.get(name, "") for name in named)) if len(value) > 3}

    def __str__(self) -> str:
        return f"the MCP server {self.name!r} ({self._shown()})"

    def _shown(self) -> str:
        if self.is_remote:
            return redact_url(self.address)
        return shlex.join(_without_secrets(shlex.split(self.address)))


def has_servers(model: ModelConfig) -> bool:
    """Whether the model names servers."""
    return bool(model.mcp_urls_dict)


def read_servers(model: ModelConfig) -> list[Server]:
    """The servers of the model, each known to be well-formed. Raises `AdapterConfigError` with all problems."""
    found: list[Server] = []
    problems: list[str] = []
    places = model.mcp_urls_dict or {}
    for name, address in places.items():
        try:
            options = ServerOptions.model_validate(model.mcp_server_options.get(name, {}))
        except ValidationError as error:
            problems += [_said(name, problem["loc"], problem["msg"]) for problem in error.errors(include_input=False)]
            continue
        found.append(Server(name, address.strip(), options))
        problems += _server_problems(found[-1])
    problems += [
        f"mcp_server_options are for {name!r}, and mcp_urls_dict has no such server{did_you_mean(name, places)}"
        for name in model.mcp_server_options
        if name not in places
    ]
    problems += _name_problems(model)
    if problems:
        raise AdapterConfigError("; ".join(problems))
    return found


def expand_variables(text: str) -> str:
    """`text` with `${NAME}` replaced by the variable of the environment. Raises `ValueError` where it is not set."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return found

    return _VARIABLE.sub(value, text)


def find_program(program: str) -> str:
    """The path of a program. Raises `ValueError` where there is none."""
    found = shutil.which(program) or shutil.which(program, path=sysconfig.get_path("scripts"))
    if found is None:
        raise ValueError(f"there is no program {program!r}: install it, or give its whole path")
    return str(Path(found).absolute())


def _server_problems(server: Server) -> Iterator[str]:
    where = f"mcp_urls_dict, {server.name!r}"
    try:
        if server.is_remote:
            yield from _url_problems(server)
            server.headers()
        else:
            server.command()
            server.passed_on()
    except ValueError as error:
        yield f"{where}: {error}"
    if server.is_remote and server.options.environment:
        yield f"{where}: it has a URL, and environment is for servers that a command starts; use headers"
    if not server.is_remote and server.options.headers:
        yield f"{where}: a command starts it, and headers are for servers with a URL; use environment"


def _url_problems(server: Server) -> Iterator[str]:
    where = f"mcp_urls_dict, {server.name!r}"
    url = urlsplit(server.url())
    if url.scheme not in ("http", "https") or not url.hostname:
        yield f"{where}: a URL begins with http:// or https:// and names a host"
    if url.username is not None or url.password is not None:
        yield f"{where}: the URL holds a user name or password; put an Authorization header into mcp_server_options"
    for name, value in server.headers().items():
        if not (name + value).isprintable() or not (name + value).isascii():
            yield f"{where}: the header {name!r} holds a line break or another character that no header has"


def _name_problems(model: ModelConfig) -> Iterator[str]:
    chosen = model.mcp_tool_filter
    if chosen is not None and not chosen:
        yield "mcp_tool_filter is empty, so that no tool would be offered; name some, or remove it"
    overrides: Mapping[str, str] = model.mcp_tool_description_overrides or {}
    for field, names in (("mcp_tool_filter", chosen or ()), ("mcp_tool_description_overrides", overrides)):
        if any(not name.strip() for name in names):
            yield f"{field} holds a name that is empty"
    yield from (
        f"mcp_tool_description_overrides: the text for {name!r} is empty"
        for name in overrides
        if not overrides[name].strip()
    )


def _said(server: str, place: tuple[int | str, ...], message: str) -> str:
    field = ".".join(str(part) for part in place)
    return f"mcp_server_options.{server}.{field}: {message}"


def _without_secrets(words: list[str]) -> Iterator[str]:
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            yield word if _VARIABLE.fullmatch(word) else _HIDDEN
            hide_next = False
            continue
        telling = bool(_SECRET_NAME.search(name)) and (word.startswith("-") or bool(equals))
        yield f"{name}={_HIDDEN}" if telling and equals and not _VARIABLE.fullmatch(value) else word
        hide_next = telling and not equals
