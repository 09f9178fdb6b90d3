"""An SDK of OpenTelemetry that keeps spans in memory, set up for the whole process when it is first imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_KEPT = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(_KEPT))
trace.set_tracer_provider(_PROVIDER)


@dataclass(frozen=True)
class Telemetry:
    """The telemetry that was recorded since the last call of `take_telemetry`."""

    spans: Sequence[ReadableSpan]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(span.to_json() for span in self.spans)

    @property
    def traces(self) -> set[int]:
        """The traces that it belongs to."""
        return {span.context.trace_id for span in self.spans}


def take_telemetry() -> Telemetry:
    """Return the recorded telemetry and clear it."""
    found = _KEPT.get_finished_spans()
    _KEPT.clear()
    return Telemetry(found)
