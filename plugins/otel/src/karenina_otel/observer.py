"""An observer that records a span for the run and for each answer, item, stage and call.

It also records an event for each evaluation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextvars import Token
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode

from karenina_core import hookimpl
from karenina_core.text import replace_surrogates
from karenina_otel import conventions as names
from karenina_otel.attributes import end_attributes, evaluations, start_attributes
from karenina_otel.conventions import Value, clean_attributes
from karenina_otel.telemetry import Telemetry, open_telemetry

if TYPE_CHECKING:
    from karenina_core import VerificationResult
    from karenina_core.data.result import ItemId
    from karenina_core.data.sections import StageRecord
    from karenina_core.stages.context import Item
    from karenina_engine.calls.call import CallOutcome
    from karenina_engine.progress import observers
    from karenina_otel.settings import OtelSettings

_SCOPE: Final = otel_context.create_key("karenina-scope")


@dataclass(eq=False)
class _Scope:
    """An answer or item in progress.

    `evaluated` is the span of the answering model's last call that got a reply. Evaluations refer to it. `last` is the
    time when the latest stage ended, in nanoseconds since 1970.
    """

    span: Span
    item: Item
    answer: _Scope | None = None
    evaluated: SpanContext | None = None
    last: int | None = None


@dataclass(eq=False)
class _OpenSpan:
    """An open span. It keeps a reference to `event`, so that the event's `id()` stays unique."""

    event: object
    span: Span
    token: Token[Context] | None = None


@dataclass(eq=False)
class RunObserver:
    """Sends a run's spans and events to OpenTelemetry. Each run needs its own observer."""

    settings: OtelSettings
    open_telemetry: Callable[[], Telemetry] = open_telemetry
    _telemetry: Telemetry | None = None
    _run: Span = field(default=trace.INVALID_SPAN)
    _began: int = 0
    _name: str | None = None
    _has_judges: bool = True
    _answers: dict[int, tuple[_Scope, _OpenSpan]] = field(default_factory=dict)
    _items: dict[ItemId, _Scope] = field(default_factory=dict)
    _open: dict[int, _OpenSpan] = field(default_factory=dict)

    # ---- the run

    @hookimpl
    def karenina_run_started(self, event: observers.RunStarted) -> None:
        """Open the telemetry, and start the run's span as a child of the program's current span. If an exporter cannot
        be created, the exception propagates.
        """
        self._telemetry = self.open_telemetry()
        self._began = time.time_ns()
        core = event.config.core
        self._name = core.run_name
        self._has_judges = bool(core.parsing_models)
        attributes: dict[str, Value | None] = {
            names.RUN_NAME: core.run_name,
            "karenina.run.items": event.items,
            "karenina.evaluation_mode": core.evaluation_mode,
        }
        self._run = self._telemetry.tracer.start_span("karenina run", attributes=clean_attributes(attributes))

    @hookimpl
    def karenina_run_finished(self, event: observers.RunFinished) -> None:
        """End the run's span, which gets the run's rates, and all open spans as interrupted, and close the telemetry.
        This waits at most a few seconds for the remaining data to be sent.
        """
        if self._telemetry is None:
            return
        for left in [*self._open.values(), *(opened for _, opened in self._answers.values())]:
            left.span.set_attribute(names.INTERRUPTED, True)
            left.span.end()
        for scope in self._items.values():
            scope.span.set_attribute(names.INTERRUPTED, True)
            scope.span.end()
        self._open.clear()
        self._answers.clear()
        self._items.clear()
        summary, rate = event.summary, event.summary.pass_rate
        attributes: dict[str, Value | None] = {
            "karenina.run.finished_items": summary.items,
            "karenina.run.judged": summary.judged,
            "karenina.run.not_judged": summary.not_judged,
            "karenina.run.scored": summary.scored,
            "karenina.run.pass_rate": rate.value if rate is not None else None,
            "karenina.run.undecided": summary.undecided or None,
            "karenina.run.pass_rate_if_undecided_wrong": (
                rate.if_undecided_wrong if rate is not None and rate.undecided else None
            ),
            "karenina.run.pass_rates": json.dumps({group.name: group.pass_rate.value for group in summary.groups})
            if rate is None
            else None,
            names.INTERRUPTED: event.interrupted,
            "karenina.run.stopped": event.stopped,
        }
        self._run.set_attributes(clean_attributes(attributes))
        self._run.end()
        self._telemetry.close()

    # ---- answers and items

    @hookimpl
    def karenina_answer_started(self, event: observers.AnswerStarted) -> None:
        """Start an answer's span as a child of the run's span or, with `otel_trace_per_answer`, in a trace of its own
        that links to the run. Calls and stages in this context become its children.
        """
        if self._telemetry is None:
            return
        links = None
        parent = trace.set_span_in_context(self._run, Context())
        if self.settings.otel_trace_per_answer:
            links = [Link(self._run.get_span_context())]
            parent = Context()
        attributes = self._item_attributes(event.item)
        if self.settings.otel_content:
            attributes |= clean_attributes({"karenina.question.text": event.item.question.question})
        span = self._telemetry.tracer.start_span("karenina answer", parent, attributes=attributes, links=links)
        scope = _Scope(span, event.item)
        token = otel_context.attach(otel_context.set_value(_SCOPE, scope, trace.set_span_in_context(span, parent)))
        self._answers[id(event)] = scope, _OpenSpan(event, span, token)

    @hookimpl
    def karenina_answer_finished(self, event: observers.AnswerStarted) -> None:
        """End an answer's span."""
        entry = self._answers.pop(id(event), None)
        if entry is not None:
            self._leave(entry[1])

    @hookimpl
    def karenina_item_started(self, event: observers.ItemStarted) -> None:
        """Start an item's span, which stays current for the rest of the task that runs the item."""
        if self._telemetry is None:
            return
        answer = _current_scope()
        span = self._telemetry.tracer.start_span("karenina item", attributes=self._item_attributes(event.item))
        scope = _Scope(span, event.item, answer)
        self._items[event.item.key] = scope
        otel_context.attach(otel_context.set_value(_SCOPE, scope, trace.set_span_in_context(span)))

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        """End an item's span and send its evaluations. Results that an earlier run stored are skipped. If the item ran
        in another process, its span is only created now.
        """
        if self._telemetry is None:
            return
        ended = _nanoseconds(result.metadata.timestamp)
        scope = self._items.pop(result.item, None)
        if scope is not None:
            span, evaluated, ended = scope.span, scope.answer and scope.answer.evaluated, scope.last or ended
        elif ended >= self._began:
            parent = trace.set_span_in_context(self._run, Context())
            took = result.metadata.execution_time + sum(stage.waited for stage in result.stages)
            began = ended - int(took * 1e9)
            span, evaluated = self._telemetry.tracer.start_span("karenina item", parent, start_time=began), None
        else:
            return
        attributes = self._result_attributes(result)
        span.set_attributes(attributes | self._verdict_attributes(result))
        if not result.outcome.judged:
            span.set_status(Status(StatusCode.ERROR, self._content(result.metadata.error) or result.outcome.value))
        where = trace.set_span_in_context(NonRecordingSpan(evaluated or span.get_span_context()), Context())
        for evaluation in evaluations(result, content=self.settings.otel_content):
            details = evaluation.attributes()
            if self.settings.otel_span_events:
                span.add_event(names.EVALUATION, details, timestamp=ended)
            self._telemetry.events.emit(
                LogRecord(
                    timestamp=ended,
                    context=where,
                    severity_number=SeverityNumber.INFO,
                    event_name=names.EVALUATION,
                    attributes=attributes | details,
                )
            )
        span.end(ended)

    # ---- stages and calls

    @hookimpl
    def karenina_stage_started(self, event: observers.StageStarted) -> None:
        """Start a stage's span."""
        if self._telemetry is None:
            return
        span = self._telemetry.tracer.start_span(
            f"stage {event.stage}", attributes=clean_attributes({names.STAGE: event.stage})
        )
        self._enter(event, span)

    @hookimpl
    def karenina_stage_finished(self, event: observers.StageStarted, record: StageRecord) -> None:
        """End a stage's span, adding the number of its calls. If the stage failed, the span's status is an error."""
        opened = self._open.pop(id(event), None)
        if opened is None:
            return
        attributes: dict[str, Value | None] = {
            "karenina.slot": record.slot,
            "karenina.stage.distribution": f"{record.distribution} {record.version}",
            "karenina.stage.calls": record.calls,
            "karenina.stage.failed_calls": record.failed_calls or None,
        }
        opened.span.set_attributes(clean_attributes(attributes))
        if record.status == "failed":
            opened.span.set_status(Status(StatusCode.ERROR, self._content(record.error)))
        now = time.time_ns()
        self._leave(opened, now)
        scope = _current_scope()
        if scope is not None:
            scope.last = now

    @hookimpl
    def karenina_call_started(self, event: observers.CallStarted) -> None:
        """Start a call's span. Recorded answers have no span, because no model is called."""
        spec = event.call.endpoint.spec
        if self._telemetry is None or (spec is not None and spec.recorded):
            return
        name, attributes = start_attributes(event.call, content=self.settings.otel_content)
        kind = SpanKind.INTERNAL if event.call.endpoint.port == "agent" else SpanKind.CLIENT
        self._enter(event, self._telemetry.tracer.start_span(name, kind=kind, attributes=attributes))

    @hookimpl
    def karenina_call_finished(self, event: observers.CallStarted, made: CallOutcome) -> None:
        """End a call's span. If it is the answering model's last reply so far, the answer's evaluations will refer to
        it.
        """
        opened = self._open.pop(id(event), None)
        if opened is None:
            return
        opened.span.set_attributes(end_attributes(event.call, made, content=self.settings.otel_content))
        if made.error is not None:
            opened.span.set_status(Status(StatusCode.ERROR, self._content(str(made.error))))
        self._leave(opened)
        scope = _current_scope()
        if made.reply is None or scope is None or scope.answer is not None:
            return
        if event.call.is_model_call and event.call.endpoint.model.id == scope.item.answering_model.id:
            scope.evaluated = opened.span.get_span_context()

    # ---- internals

    def _enter(self, event: object, span: Span) -> None:
        """Make an event's span the current one, and keep it in `_open` until the event ends."""
        self._open[id(event)] = _OpenSpan(event, span, otel_context.attach(trace.set_span_in_context(span)))

    def _leave(self, opened: _OpenSpan, now: int | None = None) -> None:
        """End a span at `now`, in nanoseconds since 1970, and make its parent the current span."""
        opened.span.end(now)
        if opened.token is not None:
            otel_context.detach(opened.token)

    def _content(self, message: str | None) -> str | None:
        """Return `message`, which may quote an answer. Return None if it is empty or `otel_content` is disabled."""
        return replace_surrogates(message) if message and self.settings.otel_content else None

    def _item_attributes(self, item: Item) -> dict[str, Value]:
        """Return the attributes that identify an item or answer at its start. Those of an answer name no judge."""
        judge = item.parsing_model
        return clean_attributes(
            {
                names.RUN_NAME: self._name,
                names.QUESTION: item.question.id,
                names.ANSWERING: item.answering_model.id,
                names.JUDGE: judge.id if judge is not None else None,
                names.REPLICATE: item.replicate,
            }
        )

    def _result_attributes(self, result: VerificationResult) -> dict[str, Value]:
        """Return the attributes that identify an item. Without judges, the attribute for the judge is omitted."""
        question, answering, judge, replicate = result.item
        return clean_attributes(
            {
                names.RUN_NAME: self._name,
                names.QUESTION: question,
                names.ANSWERING: answering,
                names.JUDGE: judge if self._has_judges else None,
                names.REPLICATE: replicate,
            }
        )

    def _verdict_attributes(self, result: VerificationResult) -> dict[str, Value]:
        """Return the attributes that describe a verdict. If `otel_content` is set, they include the answer and the
        question's `raw_answer`.
        """
        granular = result.template.verify_granular_result
        verdict: dict[str, Value | None] = {
            names.OUTCOME: result.outcome.value,
            "karenina.verify_result": result.template.verify_result,
            "karenina.granular_score": float(granular) if isinstance(granular, (int, float)) else None,
            names.ERROR_TYPE: None if result.outcome.judged else result.outcome.value,
        }
        if self.settings.otel_content:
            verdict["karenina.answer"] = result.template.raw_llm_response
            verdict["karenina.raw_answer"] = result.metadata.raw_answer
        return clean_attributes(verdict)


def _current_scope() -> _Scope | None:
    """Return the answer or item that the current task is running, or None."""
    scope = otel_context.get_value(_SCOPE)
    return scope if isinstance(scope, _Scope) else None


def _nanoseconds(timestamp: str) -> int:
    """Convert an ISO 8601 time to nanoseconds since 1970. If it is invalid, return the current time."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1e9)
    except ValueError:
        return time.time_ns()
