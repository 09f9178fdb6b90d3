"""Models served over HTTP: their settings, URLs and API keys, and the servers that may receive secrets."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit.attachments.support import MediaExtra
from karenina_toolkit.http.urls import complete_url, is_loopback, redact_url

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

_PORTS = {"http": 80, "https": 443}
_METHODS = ("/chat/completions", "/completions", "/responses", "/messages")


class ServerExtra(MediaExtra):
    """Settings for models served over HTTP. Base class for an adapter's `extra`.

    The values of `headers` are secrets, so errors do not show them.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(hide_input_in_errors=True)

    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="HTTP headers added to each request.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    max_concurrency: int | None = Field(
        default=None, ge=1, description="Maximum number of concurrent requests. If not set, the run adapts the number."
    )

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Return the headers unchanged. Raises `ValueError` if one contains forbidden characters."""
        for name, value in headers.items():
            if not _can_be_sent(name + value.get_secret_value()):
                raise ValueError(f"the header {name!r} contains a line break or another forbidden character")
        return headers

    def has_header(self, *names: str) -> bool:
        """Return whether any of the headers `names` is set. The names must be in lower case."""
        return any(header.lower() in names for header in self.headers)


class ToolLoopExtra(ServerExtra):
    """Settings for models whose adapter runs tools itself and can request JSON in several modes."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    structured: Literal["auto", "json_schema", "tool", "prompt"] = Field(
        default="auto",
        description="How JSON is requested from a judge. 'auto' uses the best mode that the server supports.",
    )
    first_turn: Literal["free", "tool"] = Field(
        default="free", description="With 'tool', an agent must call a tool in its first turn, before it may answer."
    )


def check_body(body: dict[str, Any], own_fields: Collection[str]) -> dict[str, Any]:
    """Return the fields that a model's configuration adds to each request, unchanged. Raises `ValueError` if the
    adapter sets one of them itself (`own_fields`).
    """
    for name in own_fields:
        if name in body:
            raise ValueError(f"body.{name} is set by Karenina; remove it")
    return body


def check_reply_count(name: str, fields: Mapping[str, Any]) -> None:
    """Raise `ValueError` if `fields`, which the setting `name` adds to each request, ask for several replies."""
    for count in ("n", "candidate_count"):
        if fields.get(count) not in (None, 1):
            raise ValueError(
                f"{name}.{count} requests several replies, of which only one would be used; remove it (to ask several "
                "times, use replicate_count)"
            )


def check_address(model: ModelConfig, base_url: str, *, like: str = "http://localhost:8000/v1") -> SplitResult:
    """Return the parts of a model's base URL. Raises `AdapterConfigError` if no request can be sent to it: it does not
    begin with http:// or https://, has no host, or its port is not a number up to 65535. The message shows no secrets,
    and may name `like` as an example.
    """
    where = _where(model)
    meant = complete_url(base_url)
    if meant is not None:
        raise AdapterConfigError(
            f"{where}: the URL must begin with http:// or https://; did you mean {redact_url(meant)!r}?"
        )
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError:  # its message may contain a part of a password
        raise AdapterConfigError(
            f"{where}: the URL is not valid, or its port is not a number; use a URL such as {like}"
        ) from None
    if url.scheme not in _PORTS or not url.hostname:
        raise AdapterConfigError(f"{where}: the URL must begin with http:// or https:// and contain a host")
    return url


def check_base_url(
    model: ModelConfig, base_url: str, *, like: str = "http://localhost:8000/v1", query: str = "use only the base URL"
) -> SplitResult:
    """Return the parts of a model's base URL, which must not end in a slash. Raises `AdapterConfigError` if it is not
    the base URL of an HTTP server, or contains a user name, password, query, fragment or the path of a single API
    method. The message shows no secrets, `like` as an example, and `query` as the cure for a query.
    """
    url, where = check_address(model, base_url, like=like), _where(model)
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(
            f"{where}: the URL contains a user name or password; remove the user name and password, and set the key "
            "in endpoint_api_key"
        )
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: the URL contains a query or fragment; {query}")
    if url.path.endswith(_METHODS):
        raise AdapterConfigError(f"{where}: the URL is that of a single API method; use the base URL, such as {like}")
    return url


def _where(model: ModelConfig) -> str:
    """Return the place of a model's base URL, for messages."""
    return f"model {model.id!r}, endpoint_base_url"


def may_receive_secrets(base_url: str | None, own: Iterable[str]) -> bool:
    """Return whether secrets from the user's environment may be sent to the server: only to localhost, to the servers
    in `own`, and without a base URL. Otherwise, someone else's benchmark could send them anywhere.

    `own` contains the base URL set in the environment and the provider's default, which SDKs use if there is no base
    URL.
    """
    if base_url is None:
        return True
    here = _server(base_url)
    return here is not None and (is_loopback(here[1]) or any(_server(url) == here for url in own))


def find_api_key(model: ModelConfig, base_url: str | None, own: Iterable[str], variables: Iterable[str]) -> str | None:
    """Return the model's own API key, or the first of the environment variables `variables` that is set and may be sent
    to the server. Returns None if there is no such key, or if the model's own key is empty.

    `own` is explained in `may_receive_secrets`.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    if not may_receive_secrets(base_url, own):
        return None
    return next((key for name in variables if (key := os.environ.get(name))), None)


def cure_for_key(model: ModelConfig, key: str | None, variables: Iterable[str], otherwise: str) -> str:
    """Return a suggested fix for the case that the server rejects the API key. `key` is the result of `find_api_key`
    for the same `variables`. If it is None, `otherwise` is returned.
    """
    if key is None:
        return otherwise
    if model.endpoint_api_key is not None:
        return "correct endpoint_api_key"
    return f"correct the key in {_variable_of(key, variables)}, or set endpoint_api_key"


def check_api_key(model: ModelConfig, key: str | None, variables: Iterable[str], *, needed: str | None = None) -> None:
    """Raise `AdapterConfigError` if `key`, the result of `find_api_key` for the same `variables`, cannot be sent in a
    header, or if it is None although it is `needed`, which is then the message (None: the server may not require a
    key).
    """
    if key is None:
        if needed is not None:
            raise AdapterConfigError(f"model {model.id!r}: {needed}")
    elif not _can_be_sent(key):
        source = "endpoint_api_key" if model.endpoint_api_key is not None else _variable_of(key, variables)
        raise AdapterConfigError(
            f"model {model.id!r}: the API key in {source} contains a line break or another forbidden "
            "character; copy the key again"
        )


def _variable_of(key: str, variables: Iterable[str]) -> str:
    """Return the name of the environment variable that contains the key, or "the environment"."""
    return next((name for name in variables if os.environ.get(name) == key), "the environment")


def _server(base_url: str) -> tuple[str, str, int | None] | None:
    """Return the scheme, host and port of a URL, or None if it is invalid."""
    try:
        url = urlsplit(base_url)
        return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme)
    except ValueError:
        return None


def _can_be_sent(text: str) -> bool:
    """Return whether `text` is printable ASCII, as required for headers."""
    return text.isascii() and text.isprintable()
