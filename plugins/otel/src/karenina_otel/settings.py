"""The OpenTelemetry settings."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from karenina_core.models.settings_models import AllowedInFiles

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}


class OtelSettings(BaseModel):
    """The tracing settings. The destination is configured by the environment variables `OTEL_*`."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    model_config = ConfigDict(frozen=True)

    otel: bool = Field(
        default=False,
        description="Send spans and evaluation events to OpenTelemetry, as configured by the variables OTEL_*.",
        json_schema_extra=_NO_CHANGE,
    )
    otel_content: bool = Field(
        default=False,
        description="Send prompts, answers, reasons, error messages and ground truths too.",
        json_schema_extra=_NO_CHANGE,
    )
    otel_span_events: bool = Field(
        default=True,
        description="Add each evaluation to the item's span too, for backends that accept no log records.",
        json_schema_extra=_NO_CHANGE,
    )
    otel_trace_per_answer: bool = Field(
        default=False,
        description="Make each answer a trace of its own, linked to the run's: for large runs, and for sampling.",
        json_schema_extra=_NO_CHANGE,
    )
