"""`ModelConfig`: which model, through which adapter, with which parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, SecretStr

from karenina_core.models.from_files import FromFiles
from karenina_core.models.masked_secrets import refuse_mask
from karenina_core.models.strict_settings import StrictSettings

ManualTraces = Path | dict[str, Any]
MAX_REPLY_BYTES: Final = 64_000_000
STREAM_TIMEOUT: Final = 1800.0
Secrecy = Literal["key", "whole", "by_name"]
"""What of a field no file may hold: it all, because it is a key (which the environment may have, too) or because a
secret may stand anywhere in it (`whole`); or what is called like a secret in it (`by_name`)."""


class ModelConfig(StrictSettings):
    """A model that answers or judges.

    `id` is the user's own short name for it, unique among the models of one role; `interface` names the adapter
    (`karenina plugins` lists them); `model_name` is what the provider calls it. `extra` holds what one adapter alone
    understands and validates. Secrets are never printed, logged or written.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(protected_namespaces=())

    id: str = Field(min_length=1, description="Your short name for the model; results carry it.")
    interface: str = Field(
        min_length=1,
        description="The adapter that serves it.",
        json_schema_extra={"from_files": "never"},
    )
    model_name: str = Field(min_length=1, description="The provider's name for it.")
    model_provider: str | None = Field(
        default=None,
        description="The provider, for adapters that route to several.",
        json_schema_extra={"from_files": "never"},
    )
    endpoint_base_url: str | None = Field(
        default=None,
        description="Base URL of the server, with its /v1.",
        json_schema_extra={"from_files": "never"},
    )
    endpoint_api_key: Annotated[SecretStr, BeforeValidator(refuse_mask)] | None = Field(
        default=None,
        description="API key; else the adapter's environment variable.",
        json_schema_extra={"secrecy": "key", "from_files": "never"},
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature; the server's default where absent."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens of one reply.")
    system_prompt: str | None = Field(default=None, description="First part of its system message, before a task's.")
    mcp_urls_dict: dict[str, str] | None = Field(
        default=None,
        description="MCP servers by name: a URL or a command line.",
        json_schema_extra={"secrecy": "whole", "from_files": "never"},
    )
    mcp_tool_filter: list[str] | None = Field(default=None, description="Only these tools are offered.")
    mcp_tool_description_overrides: dict[str, str] | None = Field(
        default=None, description="Other descriptions for tools."
    )
    mcp_server_options: Annotated[dict[str, dict[str, Any]], BeforeValidator(refuse_mask)] = Field(
        default_factory=dict,
        repr=False,
        description="Settings of single MCP servers, by the server's name.",
        json_schema_extra={"secrecy": "whole", "from_files": "never"},
    )
    request_timeout: float | None = Field(default=None, gt=0, description="Seconds for one request; else the run's.")
    max_reply_bytes: int | None = Field(
        default=None,
        gt=0,
        description="Most bytes of one reply after unpacking; else the run's.",
        json_schema_extra={"from_files": "never"},
    )
    stream_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for one streamed reply in all; else the run's.",
        json_schema_extra={"from_files": "never"},
    )
    agent_timeout: float | None = Field(default=None, gt=0, description="Seconds of an agent's requests and tools.")
    agent_max_turns: int = Field(
        default=25,
        ge=1,
        description="Most turns of an agent that answers: replies of the model, calls of tools or not.",
    )
    manual_traces: ManualTraces | None = Field(
        default=None,
        description="Recorded answers: a file, or recordings by question id or text.",
        json_schema_extra={"from_files": "below"},
    )
    extra: Annotated[dict[str, Any], BeforeValidator(refuse_mask)] = Field(
        default_factory=dict,
        repr=False,
        description="Settings of this one adapter.",
        json_schema_extra={"secrecy": "by_name", "from_files": "never"},
    )

    @property
    def display_string(self) -> str:
        """`interface:model_name`, as results print it."""
        return f"{self.interface}:{self.model_name}"


def _secrecy() -> dict[str, Secrecy]:
    marks = {name: info.json_schema_extra for name, info in ModelConfig.model_fields.items()}
    return {
        name: cast("Secrecy", mark["secrecy"])
        for name, mark in marks.items()
        if isinstance(mark, dict) and "secrecy" in mark
    }


SECRECY: Final = _secrecy()
"""The fields of a model that are or may hold secrets, as they say themselves."""
