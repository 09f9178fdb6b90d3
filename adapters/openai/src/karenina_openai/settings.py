"""What can be set for the `openai` interface, and where the server and the key come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from karenina_core.adapters import AdapterConfigError
from karenina_core.hosts import is_loopback

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig

OFFICIAL_BASE_URL = "https://api.openai.com/v1"
DEFAULT_TIMEOUT = 120.0
_OWN_FIELDS = ("messages", "stream", "stream_options", "response_format", "tools", "tool_choice")


class OpenAIExtra(BaseModel):
    """`ModelConfig.extra` of the `openai` interface. Values of `headers` and `query` are treated as secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    structured: Literal["auto", "json_schema", "tool", "prompt"] = Field(
        default="auto", description="How a judge is asked for JSON; auto finds the best way that the server accepts."
    )
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="HTTP headers added to each request.")
    query: dict[str, SecretStr] = Field(default_factory=dict, description="Query parameters added to each request.")
    body: dict[str, Any] = Field(default_factory=dict, description="Fields added to each request, such as seed.")
    max_concurrency: int | None = Field(
        default=None, ge=1, description="Most requests under way at once; else the run finds out."
    )
    first_turn: Literal["free", "tool"] = Field(
        default="free", description="tool: an agent has to call a tool in its first turn, before it may answer."
    )
    stream: bool = Field(
        default=False,
        description="Replies are streamed, and request_timeout is the longest silence in one, not the longest reply.",
    )
    first_token_timeout: float | None = Field(
        default=None,
        gt=0,
        description="With stream: seconds until the model begins to answer; request_timeout where absent.",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None, description="What the server calls the limit of tokens; found out where absent."
    )

    @model_validator(mode="after")
    def _only_streams_begin(self) -> Self:
        if self.first_token_timeout is not None and not self.stream:
            raise ValueError("first_token_timeout is for streamed replies; set stream to true as well")
        return self

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if any(mark in name + value.get_secret_value() for mark in "\r\n\0"):
                raise ValueError(f"the header {name!r} holds a line break")
        return headers

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        for name in _OWN_FIELDS:
            if name in body:
                raise ValueError(f"body.{name} is set by Karenina; remove it")
        return body


def extra_of(model: ModelConfig) -> OpenAIExtra:
    """The validated `extra` of `model`. Raises `AdapterConfigError`, which shows no value."""
    try:
        return OpenAIExtra.model_validate(model.extra)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(("extra", *map(str, first["loc"])))
        raise AdapterConfigError(f"model {model.id!r}, {place}: {first['msg']}") from None


def base_url_of(model: ModelConfig) -> str:
    """The server's base URL without a closing slash: the model's, else `OPENAI_BASE_URL`, else OpenAI's own."""
    return (model.endpoint_base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_BASE_URL).rstrip("/")


def key_of(model: ModelConfig) -> str | None:
    """The API key: the model's, else `OPENAI_API_KEY`; None where there is none.

    The key of the environment goes only where the user's environment points to (`OPENAI_BASE_URL`, else OpenAI's own
    host) and to this machine: a configuration that came with a stranger's benchmark cannot have it sent elsewhere.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    here = urlsplit(base_url_of(model))
    own = urlsplit(os.environ.get("OPENAI_BASE_URL") or OFFICIAL_BASE_URL)
    trusted = (here.scheme, here.netloc) == (own.scheme, own.netloc) or is_loopback(here.hostname or "")
    if not trusted and not (is_official(here) and here.scheme == "https"):
        return None
    return os.environ.get("OPENAI_API_KEY") or None


def is_official(url: SplitResult) -> bool:
    """Whether this is OpenAI's own service, which refuses calls without a key and is strict about schemas."""
    return url.hostname == "api.openai.com"


def concurrency(model: ModelConfig) -> int | None:
    """How many requests may be under way at once."""
    return extra_of(model).max_concurrency


def check(model: ModelConfig) -> None:
    """Refuse what would fail every item: a bad URL, unknown settings, OpenAI's own host without a key."""
    extra = extra_of(model)
    base_url = base_url_of(model)
    where = f"model {model.id!r}, endpoint_base_url"
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError as error:
        raise AdapterConfigError(f"{where}: not a URL ({error}); it looks like http://localhost:8000/v1") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AdapterConfigError(f"{where}: it must begin with http:// or https:// and name a host")
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(f"{where}: it holds a user name or password; put the key into endpoint_api_key")
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: it has a query; put the parameters into extra.query")
    if url.path.endswith(("/chat/completions", "/completions", "/responses")):
        raise AdapterConfigError(f"{where}: give the base URL (it ends with /v1), not that of one method")
    key = key_of(model)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise AdapterConfigError(f"model {model.id!r}: the API key holds a line break or other characters no key has")
    own_key = {"authorization", "api-key"} & {name.lower() for name in extra.headers}
    if is_official(url) and key is None and not own_key:
        raise AdapterConfigError(
            f"model {model.id!r}: {url.hostname} needs an API key; set OPENAI_API_KEY or endpoint_api_key, "
            "or set endpoint_base_url to a server of your own"
        )
