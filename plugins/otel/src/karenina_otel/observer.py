"""What is told of one run: a span for the run, each answer, item, stage and call, and an event for each evaluation."""

from __future__ import annotations

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
from karenina_otel import conventions as named
from karenina_otel.calls import asked, became
from karenina_otel.conventions import Value, plain
from karenina_otel.evaluations import evaluations
from karenina_otel.outlet import Outlet, open_outlet

if TYPE_CHECKING:
    from karenina_core import VerificationResult
    from karenina_core.data.sections import StageRecord
    from karenina_core.stages.context import Item
    from karenina_engine.calls.call import CallOutcome
    from karenina_engine.scheduling.events import (
        AnswerStarted,
        CallStarted,
        ItemStarted,
        RunFinished,
        RunStarted,
        StageStarted,
    )
    from karenina_otel.settings import OtelSettings

_SCOPE: Final = otel_context.create_key("karenina-scope")


@dataclass(eq=False)
class _Scope:
    """An answer, or an item of it, while it lasts. `last` is when its last stage ended, in nanoseconds."""

    span: Span
    item: Item
    answer: _Scope | None = None
    evaluated: SpanContext | None = None
    last: int | None = None


@dataclass(eq=False)
class _Open:
    """What has begun and not ended. `event` is held so that its identity stays its own."""

    event: object
    span: Span
    token: Token[Context] | None = None


@dataclass(eq=False)
class RunObserver:
    """Tells OpenTelemetry of one run. Each run has one of its own, told of that run alone."""

    settings: OtelSettings
    open_outlet: Callable[[], Outlet] = open_outlet
    _outlet: Outlet | None = None
    _run: Span = field(default=trace.INVALID_SPAN)
    _began: int = 0
    _name: str | None = None
    _has_judges: bool = True
    _answers: dict[int, tuple[_Scope, _Open]] = field(default_factory=dict)
    _items: dict[tuple[str, str, str, int], _Scope] = field(default_factory=dict)
    _open: dict[int, _Open] = field(default_factory=dict)

    # ---- the run

    @hookimpl
    def karenina_run_started(self, event: RunStarted) -> None:
        """Begin the span of the run, under that of the program that runs it."""
        self._outlet = self.open_outlet()
        self._began = time.time_ns()
        core = event.config.core
        self._name = core.run_name
        self._has_judges = bool(core.parsing_models)
        attributes: dict[str, Value | None] = {
            named.RUN_NAME: core.run_name,
            "karenina.run.items": event.items,
            "karenina.evaluation_mode": core.evaluation_mode,
        }
        self._run = self._outlet.tracer.start_span("karenina run", attributes=plain(attributes))

    @hookimpl
    def karenina_run_finished(self, event: RunFinished) -> None:
        """End all that is open, and send what is left."""
        if self._outlet is None:
            return
        for left in [*self._open.values(), *(opened for _, opened in self._answers.values())]:
            left.span.set_attribute(named.INTERRUPTED, True)
            left.span.end()
        for scope in self._items.values():
            scope.span.set_attribute(named.INTERRUPTED, True)
            scope.span.end()
        self._open.clear()
        self._answers.clear()
        self._items.clear()
        summary = event.summary
        attributes: dict[str, Value | None] = {
            "karenina.run.finished_items": summary.items,
            "karenina.run.judged": summary.judged,
            "karenina.run.not_judged": summary.not_judged,
            "karenina.run.scored": summary.scored,
            "karenina.run.pass_rate": summary.pass_rate.value,
            named.INTERRUPTED: event.interrupted,
            "karenina.run.stopped": event.stopped,
        }
        self._run.set_attributes(plain(attributes))
        self._run.end()
        self._outlet.close()

    # ---- answers and items

    @hookimpl
    def karenina_answer_started(self, event: AnswerStarted) -> None:
        """Begin the span of an answer."""
        if self._outlet is None:
            return
        links = None
        parent = trace.set_span_in_context(self._run, Context())
        if self.settings.otel_trace_per_answer:
            links = [Link(self._run.get_span_context())]
            parent = Context()
        attributes = self._of(event.item)
        if self.settings.otel_content:
            attributes |= plain({"karenina.question.text": event.item.question.question})
        span = self._outlet.tracer.start_span("karenina answer", parent, attributes=attributes, links=links)
        scope = _Scope(span, event.item)
        token = otel_context.attach(otel_context.set_value(_SCOPE, scope, trace.set_span_in_context(span, parent)))
        self._answers[id(event)] = scope, _Open(event, span, token)

    @hookimpl
    def karenina_answer_finished(self, event: AnswerStarted) -> None:
        """End the span of an answer."""
        found = self._answers.pop(id(event), None)
        if found is not None:
            self._leave(found[1])

    @hookimpl
    def karenina_item_started(self, event: ItemStarted) -> None:
        """Begin the span of an item, for the rest of the task that works on it."""
        if self._outlet is None:
            return
        answer = _scope()
        span = self._outlet.tracer.start_span("karenina item", attributes=self._of(event.item))
        scope = _Scope(span, event.item, answer)
        self._items[event.item.key] = scope
        otel_context.attach(otel_context.set_value(_SCOPE, scope, trace.set_span_in_context(span)))

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        """End the span of an item, and tell its evaluations.

        One that was worked on in another process gets its span now; of one that an earlier run has worked on, and told
        of, nothing is told.
        """
        if self._outlet is None:
            return
        ended = _nanoseconds(result.metadata.timestamp)
        scope = self._items.pop(result.item, None)
        if scope is not None:
            span, evaluated, ended = scope.span, scope.answer and scope.answer.evaluated, scope.last or ended
        elif ended >= self._began:
            parent = trace.set_span_in_context(self._run, Context())
            began = ended - int(result.metadata.execution_time * 1e9)
            span, evaluated = self._outlet.tracer.start_span("karenina item", parent, start_time=began), None
        else:
            return
        attributes = self._of_result(result)
        span.set_attributes(attributes | self._verdict(result))
        if not result.outcome.judged:
            span.set_status(Status(StatusCode.ERROR, self._told(result.metadata.error) or result.outcome.value))
        where = trace.set_span_in_context(NonRecordingSpan(evaluated or span.get_span_context()), Context())
        for one in evaluations(result, content=self.settings.otel_content):
            found = one.attributes()
            if self.settings.otel_span_events:
                span.add_event(named.EVALUATION, found, timestamp=ended)
            self._outlet.events.emit(
                LogRecord(
                    timestamp=ended,
                    context=where,
                    severity_number=SeverityNumber.INFO,
                    event_name=named.EVALUATION,
                    attributes=attributes | found,
                )
            )
        span.end(ended)

    # ---- stages and calls

    @hookimpl
    def karenina_stage_started(self, event: StageStarted) -> None:
        """Begin the span of a stage."""
        if self._outlet is None:
            return
        span = self._outlet.tracer.start_span(f"stage {event.stage}", attributes=plain({named.STAGE: event.stage}))
        self._enter(event, span)

    @hookimpl
    def karenina_stage_finished(self, event: StageStarted, record: StageRecord) -> None:
        """End the span of a stage."""
        opened = self._open.pop(id(event), None)
        if opened is None:
            return
        attributes: dict[str, Value | None] = {
            "karenina.slot": record.slot,
            "karenina.stage.distribution": f"{record.distribution} {record.version}",
            "karenina.stage.calls": record.calls,
            "karenina.stage.failed_calls": record.failed_calls or None,
        }
        opened.span.set_attributes(plain(attributes))
        if record.status == "failed":
            opened.span.set_status(Status(StatusCode.ERROR, self._told(record.error)))
        now = time.time_ns()
        self._leave(opened, now)
        scope = _scope()
        if scope is not None:
            scope.last = now

    @hookimpl
    def karenina_call_started(self, event: CallStarted) -> None:
        """Begin the span of a call. Recorded answers are looked up, and no model is called for them."""
        spec = event.call.endpoint.spec
        if self._outlet is None or (spec is not None and spec.recorded):
            return
        name, attributes = asked(event.call, content=self.settings.otel_content)
        kind = SpanKind.INTERNAL if event.call.endpoint.port == "agent" else SpanKind.CLIENT
        self._enter(event, self._outlet.tracer.start_span(name, kind=kind, attributes=attributes))

    @hookimpl
    def karenina_call_finished(self, event: CallStarted, made: CallOutcome) -> None:
        """End the span of a call. The last one that brought an answer is what the answer's evaluations are about."""
        opened = self._open.pop(id(event), None)
        if opened is None:
            return
        opened.span.set_attributes(became(event.call, made, content=self.settings.otel_content))
        if made.error is not None:
            opened.span.set_status(Status(StatusCode.ERROR, self._told(str(made.error))))
        self._leave(opened)
        scope = _scope()
        if made.reply is None or scope is None or scope.answer is not None:
            return
        if event.call.is_model_call and event.call.endpoint.model.id == scope.item.answering_model.id:
            scope.evaluated = opened.span.get_span_context()

    # ---- inside

    def _enter(self, event: object, span: Span) -> None:
        self._open[id(event)] = _Open(event, span, otel_context.attach(trace.set_span_in_context(span)))

    def _leave(self, opened: _Open, now: int | None = None) -> None:
        opened.span.end(now)
        if opened.token is not None:
            otel_context.detach(opened.token)

    def _told(self, message: str | None) -> str | None:
        """A message that may quote an answer, where content is told."""
        return replace_surrogates(message) if message and self.settings.otel_content else None

    def _of(self, item: Item) -> dict[str, Value]:
        judge = item.parsing_model
        return plain(
            {
                named.RUN_NAME: self._name,
                named.QUESTION: item.question.id,
                named.ANSWERING: item.answering_model.id,
                named.JUDGE: judge.id if judge is not None else None,
                named.REPLICATE: item.replicate,
            }
        )

    def _of_result(self, result: VerificationResult) -> dict[str, Value]:
        question, answering, judge, replicate = result.item
        return plain(
            {
                named.RUN_NAME: self._name,
                named.QUESTION: question,
                named.ANSWERING: answering,
                named.JUDGE: judge if self._has_judges else None,
                named.REPLICATE: replicate,
            }
        )

    def _verdict(self, result: VerificationResult) -> dict[str, Value]:
        granular = result.template.verify_granular_result
        found: dict[str, Value | None] = {
            named.OUTCOME: result.outcome.value,
            "karenina.verify_result": result.template.verify_result,
            "karenina.granular_score": float(granular) if isinstance(granular, (int, float)) else None,
            named.ERROR_TYPE: None if result.outcome.judged else result.outcome.value,
        }
        if self.settings.otel_content:
            found["karenina.answer"] = result.template.raw_llm_response
            found["karenina.raw_answer"] = result.metadata.raw_answer
        return plain(found)


def _scope() -> _Scope | None:
    """The answer or item that the current task works on."""
    found = otel_context.get_value(_SCOPE)
    return found if isinstance(found, _Scope) else None


def _nanoseconds(timestamp: str) -> int:
    """An ISO 8601 time as nanoseconds since 1970; now where there is none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1e9)
    except ValueError:
        return time.time_ns()
