"""The settings for `openai`, and the sources of its base URL and key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from karenina_core.models.attachments import MediaLimit
from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit import adapter_settings
from karenina_toolkit.attachments.media_types import MEDIA_TYPES
from karenina_toolkit.attachments.support import usual_limits
from karenina_toolkit.http import endpoints
from karenina_toolkit.structured.schema_forms import is_official

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

OFFICIAL_BASE_URL: Final = "https://api.openai.com/v1"
KEY_VARIABLES: Final = ("OPENAI_API_KEY",)
DEFAULT_TIMEOUT = 120.0
_OWN_FIELDS = ("messages", "stream", "stream_options", "response_format", "tools", "tool_choice")


class OpenAIExtra(endpoints.ToolLoopExtra):
    """`ModelConfig.extra` for `openai`. The values in `headers` and `query` are secrets."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    query: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Query parameters added to each request.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields added to each request, such as seed.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    stream: bool = Field(
        default=False,
        description="Stream replies; request_timeout then limits the time without data, not the whole reply.",
    )
    first_token_timeout: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="With stream: seconds until the model starts to answer; request_timeout if not set.",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None, description="The server's name for the token limit; detected if not set."
    )
    option_logprobs: bool = Field(
        default=False,
        description="Request token probabilities when the model chooses among options, for the second look of small "
        "judges; not every server provides these probabilities.",
    )

    @model_validator(mode="after")
    def _only_streams_begin(self) -> Self:
        """Raise `ValueError` if there is a time limit for the first token but streaming is off."""
        if self.first_token_timeout is not None and not self.stream:
            raise ValueError("first_token_timeout applies only to streamed replies; set stream to true as well")
        return self

    @field_validator("headers")
    @classmethod
    def _without_length(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Return the headers. Raises `ValueError` if one determines the length of the body, which Karenina sets."""
        for name in headers:
            if name.lower() in ("content-length", "transfer-encoding"):
                raise ValueError(f"headers.{name} is set by Karenina; remove the header")
        return headers

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Raise `ValueError` for fields that Karenina sets itself, and for a request for several replies."""
        endpoints.check_reply_count("body", body)
        return endpoints.check_body(body, _OWN_FIELDS)


def extra_of(model: ModelConfig) -> OpenAIExtra:
    """Return a model's validated `extra`. Raises `AdapterConfigError` without its values if it is invalid."""
    return adapter_settings.extra_of(model, OpenAIExtra)


def base_url_of(model: ModelConfig) -> str:
    """Return the server's base URL: the model's own, or that in `OPENAI_BASE_URL`, or OpenAI's.

    It ends without a slash.
    """
    return (model.endpoint_base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_BASE_URL).rstrip("/")


def find_api_key(model: ModelConfig) -> str | None:
    """Return the model's own API key or else, if it may be sent to the model's server, the one in `OPENAI_API_KEY`, if
    any.

    A key from the environment is sent only to OpenAI, to the server in `OPENAI_BASE_URL`, and to localhost. Otherwise,
    someone else's benchmark could send it anywhere.
    """
    own = (OFFICIAL_BASE_URL, os.environ.get("OPENAI_BASE_URL") or OFFICIAL_BASE_URL)
    return endpoints.find_api_key(model, base_url_of(model), own, KEY_VARIABLES)


def concurrency(model: ModelConfig) -> int | None:
    """Return the maximum number of concurrent requests, or None if it is not set."""
    return extra_of(model).max_concurrency


SOUND_FORMATS: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""The names of chat completions for the formats of sound."""


def media(model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the media types of attachments that chat completions can carry, each with its limits.

    OpenAI accepts 50 MB in a request (https://platform.openai.com/docs/guides/images-vision, November 2026), which is
    more than the limit for one attachment. Other servers have limits of their own, which are unknown.
    """
    return usual_limits(model, MEDIA_TYPES, extra_of(model))


def check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` for an invalid URL or setting, or if the key for OpenAI is missing."""
    extra = extra_of(model)
    url = endpoints.check_base_url(model, base_url_of(model), query="put the parameters into extra.query")
    needed = is_official(url) and not extra.has_header("authorization", "api-key")
    why = (
        f"{url.hostname} needs an API key; set OPENAI_API_KEY or endpoint_api_key, or set endpoint_base_url to a "
        "server of your own"
    )
    endpoints.check_api_key(model, find_api_key(model), KEY_VARIABLES, needed=why if needed else None)
