"""Models behind an HTTP server: what can be set for them, where it is, and what may be sent there. For adapters."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.from_files import FromFiles
from karenina_core.models.strict_settings import StrictSettings
from karenina_toolkit.urls import complete_url, is_loopback, redact_url

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

_PORTS = {"http": 80, "https": 443}
_METHODS = ("/chat/completions", "/completions", "/responses", "/messages")


class ServerExtra(StrictSettings):
    """What can be set for any model behind an HTTP server: the base of an adapter's `extra`.

    Values of `headers` are treated as secrets, and no error shows what was given.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(hide_input_in_errors=True)

    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="HTTP headers added to each request.",
        json_schema_extra={"from_files": "never"},
    )
    max_concurrency: int | None = Field(
        default=None, ge=1, description="Most requests under way at once; else the run finds out."
    )

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _can_be_sent(name + value.get_secret_value()):
                raise ValueError(f"the header {name!r} holds a line break or other characters no header has")
        return headers

    def has_header(self, *names: str) -> bool:
        """Whether one of these headers is set, which are given in lower case."""
        return any(header.lower() in names for header in self.headers)


class ToolLoopExtra(ServerExtra):
    """What can be set for a model whose agents' tools are run here, and that is asked for JSON in several ways."""

    from_files: ClassVar[FromFiles] = "any"
    structured: Literal["auto", "json_schema", "tool", "prompt"] = Field(
        default="auto", description="How a judge is asked for JSON; auto finds the best way that the server accepts."
    )
    first_turn: Literal["free", "tool"] = Field(
        default="free", description="tool: an agent has to call a tool in its first turn, before it may answer."
    )


def check_base_url(
    model: ModelConfig, base_url: str, *, like: str = "http://localhost:8000/v1", query: str = "give the base URL alone"
) -> SplitResult:
    """The parts of a model's base URL, which ends with no slash. Raises `AdapterConfigError`, which shows no secret.

    `like` is an example of a right one, and `query` says what to do about a query in it.
    """
    where = f"model {model.id!r}, endpoint_base_url"
    meant = complete_url(base_url)
    if meant is not None:
        raise AdapterConfigError(f"{where}: it has no http:// or https://; did you mean {redact_url(meant)!r}?")
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError:  # whose message may hold a part of a password
        raise AdapterConfigError(f"{where}: not a URL, or its port is not a number; it looks like {like}") from None
    if url.scheme not in _PORTS or not url.hostname:
        raise AdapterConfigError(f"{where}: it must begin with http:// or https:// and name a host")
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(f"{where}: it holds a user name or password; put the key into endpoint_api_key")
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: it has a query; {query}")
    if url.path.endswith(_METHODS):
        raise AdapterConfigError(f"{where}: give the base URL, such as {like}, not that of one method")
    return url


def may_receive_secrets(base_url: str | None, own: Iterable[str]) -> bool:
    """Whether secrets of the user's environment may be sent to the server.

    They go to this machine and to the servers of the base URLs `own`: where the environment points to, and the
    provider itself. A configuration that came with a stranger's benchmark cannot have them sent elsewhere. Without a
    base URL it is the SDK that knows where the provider is.
    """
    if base_url is None:
        return True
    here = _server(base_url)
    return here is not None and (is_loopback(here[1]) or any(_server(one) == here for one in own))


def find_api_key(model: ModelConfig, base_url: str | None, own: Iterable[str], variables: Iterable[str]) -> str | None:
    """The API key: the model's, else that of the first environment variable of `variables` that is set.

    Return None if there is none, or if `may_receive_secrets` does not allow to send that of the environment.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    if not may_receive_secrets(base_url, own):
        return None
    return next((key for name in variables if (key := os.environ.get(name))), None)


def check_api_key(model: ModelConfig, key: str | None, *, needed: str | None = None) -> None:
    """Refuse a key that cannot be sent; and that there is none, where it is `needed`, which says why.

    Raises `AdapterConfigError`.
    """
    if key is None:
        if needed is not None:
            raise AdapterConfigError(f"model {model.id!r}: {needed}")
    elif not _can_be_sent(key):
        raise AdapterConfigError(f"model {model.id!r}: the API key holds a line break or other characters no key has")


def _server(base_url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port; None for what is not a URL."""
    try:
        url = urlsplit(base_url)
        return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme)
    except ValueError:
        return None


def _can_be_sent(text: str) -> bool:
    return text.isascii() and text.isprintable()
