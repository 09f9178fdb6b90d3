"""What can be set for the `claude_tool` interface, and where the server and the key come from."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from karenina_core.adapters import AdapterConfigError
from karenina_core.hosts import is_loopback

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig

OFFICIAL_BASE_URL = "https://api.anthropic.com"
DEFAULT_TIMEOUT = 300.0
DEFAULT_MAX_TOKENS = 8192
"""Tokens of one reply where the model sets no limit: the Messages API wants one with each request."""

_OWN_FIELDS = ("model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice")


class ClaudeExtra(BaseModel):
    """`ModelConfig.extra` of the `claude_tool` interface. Values of `headers` are treated as secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    structured: Literal["auto", "json_schema", "tool", "prompt"] = Field(
        default="auto", description="How a judge is asked for JSON; auto finds the best way that the server accepts."
    )
    prompt_caching: Literal["off", "5m", "1h"] = Field(
        default="off",
        description="For how long the server keeps what requests begin with: tools, system prompt, an agent's past.",
    )
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="HTTP headers added to each request.")
    body: dict[str, Any] = Field(default_factory=dict, description="Fields added to each request, such as thinking.")
    max_concurrency: int | None = Field(
        default=None, ge=1, description="Most requests under way at once; else the run finds out."
    )
    first_turn: Literal["free", "tool"] = Field(
        default="free", description="tool: an agent has to call a tool in its first turn, before it may answer."
    )

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _can_be_sent(name + value.get_secret_value()):
                raise ValueError(f"the header {name!r} holds a line break or other characters no header has")
        return headers

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        for name in _OWN_FIELDS:
            if name in body:
                raise ValueError(f"body.{name} is set by Karenina; remove it")
        config = body.get("output_config", {})
        if not isinstance(config, dict) or "format" in config:
            raise ValueError("body.output_config is an object without format, which is set by Karenina")
        return body


def extra_of(model: ModelConfig) -> ClaudeExtra:
    """The validated `extra` of `model`. Raises `AdapterConfigError`, which shows no value."""
    try:
        return ClaudeExtra.model_validate(model.extra)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(("extra", *map(str, first["loc"])))
        raise AdapterConfigError(f"model {model.id!r}, {place}: {first['msg']}") from None


def base_url_of(model: ModelConfig) -> str:
    """The server's base URL, without the `/v1` that the SDK adds: the model's, else `ANTHROPIC_BASE_URL`'s, else
    Anthropic's own.
    """
    return _base(model.endpoint_base_url) if model.endpoint_base_url else environment_base_url()


def environment_base_url() -> str:
    """Where the user's environment points: `ANTHROPIC_BASE_URL`, else Anthropic's own service."""
    return _base(os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL_BASE_URL)


def key_of(model: ModelConfig) -> str | None:
    """The API key: the model's, else `ANTHROPIC_API_KEY`, else `ANTHROPIC_AUTH_TOKEN`; None where there is none.

    The keys of the environment go only where `has_environments_trust` says.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    if not has_environments_trust(base_url_of(model)):
        return None
    return os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN") or None


def has_environments_trust(base_url: str) -> bool:
    """Whether secrets of the environment may be sent there.

    They go where the environment points to, to Anthropic's own service and to this machine: a configuration that came
    with a stranger's benchmark cannot have them sent elsewhere.
    """
    here, own = urlsplit(base_url), urlsplit(environment_base_url())
    if (here.scheme, here.netloc) == (own.scheme, own.netloc) or is_loopback(here.hostname or ""):
        return True
    return is_official(here) and here.scheme == "https"


def is_official(url: SplitResult) -> bool:
    """Whether this is Anthropic's own service, which refuses calls without a key."""
    return url.hostname == "api.anthropic.com"


def concurrency(model: ModelConfig) -> int | None:
    """How many requests may be under way at once."""
    return extra_of(model).max_concurrency


def unavailable() -> str | None:
    """Why the adapter cannot work here: the SDK is not installed. Imports nothing."""
    return None if find_spec("anthropic") else "the anthropic SDK is not installed: pip install 'anthropic>=2.11,<3'"


def check(model: ModelConfig) -> None:
    """Refuse what would fail every item: a bad URL, unknown settings, Anthropic's host without a key."""
    extra = extra_of(model)
    url = _checked_url(model)
    if model.temperature is not None and model.temperature > 1:
        raise AdapterConfigError(
            f"model {model.id!r}, temperature: {model.temperature:g} is more than the Messages API takes; give 0 to 1"
        )
    key = key_of(model)
    if key is not None and not _can_be_sent(key):
        raise AdapterConfigError(f"model {model.id!r}: the API key holds a line break or other characters no key has")
    own_key = {"authorization", "x-api-key"} & {name.lower() for name in extra.headers}
    if is_official(url) and key is None and not own_key:
        raise AdapterConfigError(
            f"model {model.id!r}: {url.hostname} needs an API key; set ANTHROPIC_API_KEY or endpoint_api_key, "
            "or set endpoint_base_url to a server of your own"
        )


def _checked_url(model: ModelConfig) -> SplitResult:
    where = f"model {model.id!r}, endpoint_base_url"
    try:
        url = urlsplit(base_url_of(model))
        _ = url.port
    except ValueError as error:
        raise AdapterConfigError(f"{where}: not a URL ({error}); it looks like http://localhost:8000") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AdapterConfigError(f"{where}: it must begin with http:// or https:// and name a host")
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(f"{where}: it holds a user name or password; put the key into endpoint_api_key")
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: it has a query, which cannot be sent; give the plain base URL")
    if url.path.endswith("/messages"):
        raise AdapterConfigError(f"{where}: give the base URL, not that of one method (without /v1/messages)")
    return url


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _can_be_sent(text: str) -> bool:
    return text.isascii() and text.isprintable()
