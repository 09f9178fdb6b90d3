"""`AgenticRubricTrait`: a quality that an agent investigates."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from karenina_core.data.rubrics.base import register_trait_kind
from karenina_core.data.rubrics.scaled_trait import ScaledTrait
from karenina_core.models.from_files import FromFiles
from karenina_core.models.model import SECRECY


@register_trait_kind
class AgenticRubricTrait(ScaledTrait):
    """A quality that a judge agent scores after it examined the workspace, the trace, or both.

    `model_override` contains fields of a `ModelConfig`, which are checked before a run. It must not contain an API key,
    because files with traits are shared.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["agentic"] = "agentic"
    context_mode: Literal["workspace_only", "trace_and_workspace", "trace_only"] = Field(
        default="trace_and_workspace", description="What the agent may see."
    )
    materialize_trace: bool = Field(
        default=False, description="Write the trace to a file for the agent instead of the prompt."
    )
    persist_trace: bool = Field(default=False, description="Keep the file of the trace after the evaluation.")
    max_turns: int = Field(default=15, gt=0, description="Maximum assistant turns.")
    timeout_seconds: float = Field(default=120, gt=0, description="Seconds for the whole agent run.")
    model_override: dict[str, JsonValue] | None = Field(
        default=None,
        description="Another model for this trait.",
        json_schema_extra={"from_files": "models"},
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "." in self.name:
            raise ValueError(
                f"the name {self.name!r} contains a dot, which separates trait and field in results; remove it"
            )
        if self.materialize_trace and self.context_mode == "workspace_only":
            raise ValueError("materialize_trace needs a trace, which context_mode workspace_only excludes")
        override = self.model_override or {}
        if keys := [name for name, secrecy in SECRECY.items() if secrecy == "key" and override.get(name)]:
            raise ValueError(f"model_override.{keys[0]} is an API key: move it to the environment, as OPENAI_API_KEY")
        return self
