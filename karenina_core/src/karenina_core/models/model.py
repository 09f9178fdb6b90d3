"""`ModelConfig`: the configuration of a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, SecretStr

from karenina_core.models.settings_models import AllowedInFiles, StrictSettings, declared

ManualTraces = Path | dict[str, Any]
MAX_REPLY_BYTES: Final = 64_000_000
STREAM_TIMEOUT: Final = 1800.0
Secrecy = Literal["key", "whole", "by_name"]
"""Which part of a field is never written to files.

- `key`: the whole value, because it is an API key. The environment may provide it instead.
- `whole`: the whole value, because any part of it may be secret.
- `by_name`: the entries whose names suggest a secret, such as `api_key`.
"""

_NEVER: Final[dict[str, JsonValue]] = {"allowed_in_files": "never"}
_MASK: Final = "*" * 10
"""The text that pydantic writes in place of a secret."""


def _refuse_mask(value: Any) -> Any:
    """Return `value`, or raise `ValueError` if it is or contains a masked secret."""
    if masked := next((place for place, text in _strings(value) if _MASK in text), None):
        raise ValueError(
            f"{masked} is a masked secret ({_MASK}) from a configuration dump; remove it to take the key from the "
            "environment, or write the secret itself"
        )
    return value


def _strings(value: Any, place: str = "it") -> Iterator[tuple[str, str]]:
    """Yield every string in a JSON value with its location, such as `extra.headers.0`. `place` is the location of
    `value`. At the top level, it is `it`, which never appears in other locations.
    """
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(inner, f"{key}" if place == "it" else f"{place}.{key}")


class ModelConfig(StrictSettings):
    """The configuration of a model that answers or judges.

    `id` is a short name of your choice, unique among the answering models and among the judges. `interface` is the name
    of an adapter (see `karenina plugins`), and `model_name` is the provider's name for the model. `extra` contains the
    adapter's own settings. Secrets are never printed, logged or written to files.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(protected_namespaces=(), allow_inf_nan=False)

    id: str = Field(min_length=1, description="Your short name for the model, as shown in results.")
    interface: str = Field(min_length=1, description="The name of the adapter.", json_schema_extra=_NEVER)
    model_name: str = Field(min_length=1, description="The provider's name for the model.")
    model_provider: str | None = Field(
        default=None, description="The provider, for adapters that support several.", json_schema_extra=_NEVER
    )
    endpoint_base_url: str | None = Field(
        default=None, description="Base URL of the server, including /v1.", json_schema_extra=_NEVER
    )
    endpoint_api_key: Annotated[SecretStr, BeforeValidator(_refuse_mask)] | None = Field(
        default=None,
        description="API key; by default, read from the adapter's environment variable.",
        json_schema_extra={"secrecy": "key", "allowed_in_files": "never"},
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature, from 0 to 2; by default, the server's own."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum number of tokens in one reply.")
    system_prompt: str | None = Field(
        default=None, description="The first part of the system message, placed before the task's instructions."
    )
    mcp_urls_dict: dict[str, str] | None = Field(
        default=None,
        description="MCP servers, as a URL or a command line for each name.",
        json_schema_extra={"secrecy": "whole", "allowed_in_files": "never"},
    )
    mcp_tool_filter: list[str] | None = Field(default=None, description="If set, only these tools are offered.")
    mcp_tool_description_overrides: dict[str, str] | None = Field(
        default=None, description="Replacement tool descriptions, keyed by tool name."
    )
    mcp_server_options: Annotated[dict[str, dict[str, Any]], BeforeValidator(_refuse_mask)] = Field(
        default_factory=dict,
        repr=False,
        description="MCP server settings, keyed by server name.",
        json_schema_extra={"secrecy": "whole", "allowed_in_files": "never"},
    )
    stateless_tools: bool = Field(default=False, description="Whether the tools need no state from earlier turns.")
    request_timeout: float | None = Field(
        default=None, gt=0, description="Time limit for one request in seconds; by default, the run's limit."
    )
    max_reply_bytes: int | None = Field(
        default=None,
        gt=0,
        description="Maximum size of one reply in bytes after decompression; by default, the run's limit.",
        json_schema_extra=_NEVER,
    )
    stream_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Time limit for one whole streamed reply in seconds; by default, the run's limit.",
        json_schema_extra=_NEVER,
    )
    agent_timeout: float | None = Field(default=None, gt=0, description="Time limit for one agent run, in seconds.")
    agent_max_turns: int = Field(
        default=25, ge=1, description="Maximum turns of an answering agent; each reply of the model is one turn."
    )
    manual_traces: ManualTraces | None = Field(
        default=None,
        description="Recorded answers, as a file or as a table keyed by question id or text.",
        json_schema_extra={"allowed_in_files": "below"},
    )
    files_within: Path | None = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Folder that must contain the model's files, with links resolved; by default, any folder may.",
        json_schema_extra=_NEVER,
    )
    extra: Annotated[dict[str, Any], BeforeValidator(_refuse_mask)] = Field(
        default_factory=dict,
        repr=False,
        description="Adapter settings.",
        json_schema_extra={"secrecy": "by_name", "allowed_in_files": "never"},
    )

    @property
    def display_string(self) -> str:
        """The model's name in results, `interface:model_name`."""
        return f"{self.interface}:{self.model_name}"


SECRECY: Final[dict[str, Secrecy]] = {
    name: secrecy for name, info in ModelConfig.model_fields.items() if (secrecy := declared(info, "secrecy"))
}
"""The fields of a model that may contain secrets, with their declared `secrecy`."""
