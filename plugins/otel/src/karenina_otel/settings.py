"""The OpenTelemetry settings."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from karenina_core.models.settings_models import AllowedInFiles

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}


def _switch(default: bool, description: str) -> Any:
    """Return the field for a setting that does not change any results."""
    return Field(default=default, description=description, json_schema_extra=_NO_CHANGE)


class OtelSettings(BaseModel, defer_build=True):
    """The settings for tracing. The `OTEL_*` environment variables configure the destination."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    model_config = ConfigDict(frozen=True)

    otel: bool = _switch(
        False, "Send spans and evaluation events to OpenTelemetry, as configured by the OTEL_* variables."
    )
    otel_content: bool = _switch(False, "Also send prompts, answers, reasons, error messages and ground truths.")
    otel_span_events: bool = _switch(
        True, "Also add each evaluation to the item's span, for backends that do not accept log records."
    )
    otel_trace_per_answer: bool = _switch(
        False, "Make each answer a separate trace, linked to the trace of the run, for large runs and for sampling."
    )
