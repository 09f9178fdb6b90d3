"""What can be set for the `claude_tool` interface, and where the server and the key come from."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import SplitResult

from pydantic import Field, field_validator

from karenina_core.models import adapters
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.from_files import FromFiles
from karenina_toolkit import endpoints

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

OFFICIAL_BASE_URL: Final = "https://api.anthropic.com"
DEFAULT_TIMEOUT = 300.0
DEFAULT_MAX_TOKENS = 8192
"""Tokens of one reply where the model sets no limit: the Messages API wants one with each request."""

_OWN_FIELDS = ("model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice")


class ClaudeExtra(endpoints.ToolLoopExtra):
    """`ModelConfig.extra` of the `claude_tool` interface. Values of `headers` are treated as secrets."""

    from_files: ClassVar[FromFiles] = "any"
    prompt_caching: Literal["off", "5m", "1h"] = Field(
        default="off",
        description="For how long the server keeps what requests begin with: tools, system prompt, an agent's past.",
    )
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields added to each request, such as thinking.",
        json_schema_extra={"from_files": "never"},
    )

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
    return adapters.extra_of(model, ClaudeExtra)


def base_url_of(model: ModelConfig) -> str:
    """The server's base URL, without the `/v1` that the SDK adds: the model's, else `ANTHROPIC_BASE_URL`'s, else
    Anthropic's own.
    """
    return _base(model.endpoint_base_url) if model.endpoint_base_url else environment_base_url()


def environment_base_url() -> str:
    """Where the user's environment points: `ANTHROPIC_BASE_URL`, else Anthropic's own service."""
    return _base(os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL_BASE_URL)


def find_api_key(model: ModelConfig) -> str | None:
    """The API key: the model's, else `ANTHROPIC_API_KEY`, else `ANTHROPIC_AUTH_TOKEN`; None where there is none.

    The keys of the environment go only where `may_receive_environment_secrets` says.
    """
    own = (OFFICIAL_BASE_URL, environment_base_url())
    return endpoints.find_api_key(model, base_url_of(model), own, ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])


def may_receive_environment_secrets(base_url: str) -> bool:
    """Whether secrets of the environment may be sent there.

    They go where the environment points to, to Anthropic's own service and to this machine: a configuration that came
    with a stranger's benchmark cannot have them sent elsewhere.
    """
    return endpoints.may_receive_secrets(base_url, (OFFICIAL_BASE_URL, environment_base_url()))


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
    url = endpoints.check_base_url(model, base_url_of(model), like="http://localhost:8000")
    if model.temperature is not None and model.temperature > 1:
        raise AdapterConfigError(
            f"model {model.id!r}, temperature: {model.temperature:g} is more than the Messages API takes; give 0 to 1"
        )
    needed = is_official(url) and not extra.has_header("authorization", "x-api-key")
    why = (
        f"{url.hostname} needs an API key; set ANTHROPIC_API_KEY or endpoint_api_key, "
        "or set endpoint_base_url to a server of your own"
    )
    endpoints.check_api_key(model, find_api_key(model), needed=why if needed else None)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
