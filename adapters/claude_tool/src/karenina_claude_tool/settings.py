"""The settings for `claude_tool`, and the sources of its base URL and key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import SplitResult

from pydantic import Field, field_validator

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.attachments import MediaLimit
from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit import adapter_settings
from karenina_toolkit.attachments.support import image_and_pdf_limits
from karenina_toolkit.http import endpoints

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

OFFICIAL_BASE_URL: Final = "https://api.anthropic.com"
KEY_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
DEFAULT_TIMEOUT = 300.0
DEFAULT_MAX_TOKENS = 8192
"""The default limit on a reply's tokens. The Messages API requires a limit."""

_OWN_FIELDS = ("model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice")


class ClaudeExtra(endpoints.ToolLoopExtra):
    """`ModelConfig.extra` for `claude_tool`. Header values are secrets."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    prompt_caching: Literal["off", "5m", "1h"] = Field(
        default="off",
        description="How long the server caches the beginning of requests: tools, system prompt and an agent's "
        "earlier turns.",
    )
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields added to each request, such as thinking.",
        json_schema_extra={"allowed_in_files": "never"},
    )

    @field_validator("body")
    @classmethod
    def _without_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body. Raises `ValueError` if it has fields that Karenina sets itself."""
        config = body.get("output_config", {})
        if not isinstance(config, dict) or "format" in config:
            raise ValueError("body.output_config must be an object without format, which is set by Karenina")
        return endpoints.check_body(body, _OWN_FIELDS)


def extra_of(model: ModelConfig) -> ClaudeExtra:
    """Return a model's validated `extra`. Raises `AdapterConfigError` without its values if it is invalid."""
    return adapter_settings.extra_of(model, ClaudeExtra)


def base_url_of(model: ModelConfig) -> str:
    """Return the server's base URL without `/v1`: the model's own, or that in `ANTHROPIC_BASE_URL`, or Anthropic's.

    The SDK adds `/v1`.
    """
    return _base(model.endpoint_base_url) if model.endpoint_base_url else environment_base_url()


def environment_base_url() -> str:
    """Return the base URL in `ANTHROPIC_BASE_URL` without `/v1`, or else Anthropic's own."""
    return _base(os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL_BASE_URL)


def find_api_key(model: ModelConfig) -> str | None:
    """Return the model's own API key, or else one from the environment if it may be sent to the server, or None.

    The environment variables are `ANTHROPIC_API_KEY` and `ANTHROPIC_AUTH_TOKEN`; see `may_receive_environment_secrets`.
    """
    own = (OFFICIAL_BASE_URL, environment_base_url())
    return endpoints.find_api_key(model, base_url_of(model), own, KEY_VARIABLES)


def may_receive_environment_secrets(base_url: str) -> bool:
    """Return whether environment secrets may be sent to this server: Anthropic, localhost, or that in
    `ANTHROPIC_BASE_URL`.

    Otherwise, someone else's benchmark could send them anywhere.
    """
    return endpoints.may_receive_secrets(base_url, (OFFICIAL_BASE_URL, environment_base_url()))


def is_official(url: SplitResult) -> bool:
    """Return whether `url` is Anthropic's own service, which needs a key."""
    return url.hostname == "api.anthropic.com"


def concurrency(model: ModelConfig) -> int | None:
    """Return the maximum number of concurrent requests, or None if it is not set."""
    return extra_of(model).max_concurrency


def unavailable() -> str | None:
    """Return a message if the SDK is not installed, otherwise None. The SDK is not imported."""
    return None if find_spec("anthropic") else "the anthropic SDK is not installed: pip install 'anthropic>=2.11,<3'"


def media(model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the media types of attachments that the Messages API can carry, each with its limits.

    It accepts images of up to 5 MB in base64, which are 3.9 MB in a file
    (https://platform.claude.com/docs/en/build-with-claude/vision, November 2026).
    """
    return image_and_pdf_limits(model, extra_of(model))


def check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` for an invalid URL, temperature or setting, or a missing key."""
    extra = extra_of(model)
    url = endpoints.check_base_url(model, base_url_of(model), like="http://localhost:8000")
    if model.temperature is not None and model.temperature > 1:
        raise AdapterConfigError(
            f"model {model.id!r}, temperature: {model.temperature:g} exceeds the maximum of the Messages API; use a "
            "value from 0 to 1"
        )
    needed = is_official(url) and not extra.has_header("authorization", "x-api-key")
    why = (
        f"{url.hostname} needs an API key; set ANTHROPIC_API_KEY or endpoint_api_key, "
        "or set endpoint_base_url to a server of your own"
    )
    endpoints.check_api_key(model, find_api_key(model), KEY_VARIABLES, needed=why if needed else None)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
