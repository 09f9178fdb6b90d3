"""Helpers of these tests: a run with a model, a judge and a trait, and everything that it sent to OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offers import offering
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from karenina_benchmark import Benchmark
from karenina_core import ArtifactKeys, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.models.ports import AgentOptions, Message
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import plugin as core_plugin
from karenina_engine import plugin as engine_plugin
from karenina_engine.results.result_set import VerificationResultSet
from karenina_otel import OtelSettings, plugin
from karenina_otel.observer import RunObserver
from karenina_otel.telemetry import Telemetry
from karenina_testing import ScriptedModels

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"gene": {"type": "string"}}}
KEY = "sk-most-secret"


class Validate(Stage):
    name = "Validate"
    scope = "answer"
    fallback = True
    produces = {ArtifactKeys.RAW_ANSWER_CLASS, ArtifactKeys.ANSWER_CLASS}

    def execute(self, context: VerificationContext) -> None:
        context.set_artifact(ArtifactKeys.RAW_ANSWER_CLASS, None)
        context.set_artifact(ArtifactKeys.ANSWER_CLASS, None)


class Generate(Stage):
    """A stage that calls the answering model, through its agent port if its name says so."""

    name = "Generate"
    fallback = True
    scope = "answer"
    produces = {ArtifactKeys.RAW_LLM_RESPONSE}

    async def execute(self, context: VerificationContext) -> None:
        model, asked = context.answering_model, [Message.user(context.question.question)]
        if model.model_name == "agent":
            run = await context.agent(model).run(asked, AgentOptions(), info=context.call_info)
            said = run.trace[-1].content
        else:
            said = (await context.llm(model).invoke(asked, info=context.call_info)).text
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, said)


class Parse(Stage):
    """A stage that calls the judge."""

    name = "Parse"
    fallback = True
    requires = {ArtifactKeys.RAW_LLM_RESPONSE}
    produces = {ArtifactKeys.PARSED_ANSWER}

    async def execute(self, context: VerificationContext) -> None:
        asked = [Message.user(context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE))]
        await context.parser().parse(asked, SCHEMA, info=context.call_info)
        context.set_artifact(ArtifactKeys.PARSED_ANSWER, None)


class Verify(Stage):
    """A stage that accepts answers to questions with the truth "right"."""

    name = "Verify"
    fallback = True
    requires = {ArtifactKeys.PARSED_ANSWER}
    produces = {ArtifactKeys.FIELD_VERIFICATION_RESULT}

    def execute(self, context: VerificationContext) -> None:
        context.set_artifact(ArtifactKeys.FIELD_VERIFICATION_RESULT, context.question.raw_answer == "right")
        context.set_result_field("llm_trait_scores", {"warm": True})


STAGES = offering(
    validate_template=[Validate], generate_answer=[Generate], parse_template=[Parse], verify_template=[Verify]
)


@dataclass
class Got:
    """The sent spans and events, and the results."""

    spans: Sequence[ReadableSpan] = ()
    records: Sequence[ReadableLogRecord] = ()
    results: VerificationResultSet = field(default_factory=VerificationResultSet)
    closed: int = 0

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of that name, in the order in which they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of that name."""
        (found,) = self.named(name)
        return found

    def path(self, span: ReadableSpan) -> list[str]:
        """Return the names of the span's ancestors, from the outermost, and its own."""
        by_id = {one.context.span_id: one for one in self.spans}
        names = [span.name]
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.insert(0, span.name)
        return names

    @property
    def events(self) -> list[Any]:
        """Return the events in the order of their emission."""
        return [one.log_record for one in self.records]

    @property
    def everything(self) -> str:
        """Return everything that was sent, as one text."""
        told = [(one.name, one.attributes, one.status.description, one.events, one.resource) for one in self.spans]
        parts = [
            *(
                f"{name} {dict(attributes or {})} {status} {resource.attributes}"
                for name, attributes, status, _, resource in told
            ),
            *(f"{event.name} {dict(event.attributes or {})}" for *_, events, _ in told for event in events),
            *(f"{one.event_name} {dict(one.attributes)} {one.body}" for one in self.events),
        ]
        return "\n".join(parts)


def traced(
    models: ScriptedModels | None = None,
    *,
    truths: Sequence[str] = ("right",),
    answering: Sequence[str] = ("tested",),
    judges: Sequence[str] = ("judge",),
    on_result: Callable[[Any], None] | None = None,
    journal: Path | None = None,
    kept: Callable[[Got], None] | None = None,
    telemetry: Callable[[], Telemetry] | None = None,
    **settings: Any,
) -> Got:
    """Run a question for each of `truths`, and return what was sent; `kept` receives it after errors too.

    With `telemetry`, spans go there and are not returned.
    """
    spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracers, logs = TracerProvider(), LoggerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    logs.add_log_record_processor(SimpleLogRecordProcessor(records))
    got = Got()

    def close() -> None:
        got.closed += 1

    memory = Telemetry(tracers.get_tracer("tests"), logs.get_logger("tests"), close)

    class Traces:
        @hookimpl
        def karenina_settings(self) -> list[Any]:
            return plugin.karenina_settings()

        @hookimpl
        def karenina_observers(self, config: VerificationConfig) -> list[object]:
            chosen = config.section(OtelSettings)
            return [RunObserver(chosen, telemetry or (lambda: memory))] if chosen.otel else []

    room = Plugins()
    for one in (core_plugin, engine_plugin, STAGES, models or ScriptedModels(), Traces()):
        room.register(one)
    benchmark = Benchmark.create(name="genes")
    for number, truth in enumerate(truths, 1):
        benchmark.add_question(f"Whose question is number {number}?", question_id=f"q{number}", raw_answer=truth)

    def model(name: str) -> dict[str, Any]:
        server = {"endpoint_base_url": "https://user:hidden@models.example/v1", "endpoint_api_key": KEY}
        return {"id": name, "interface": "scripted", "model_name": name, **server}

    with plugin_room.use_plugins(room):
        config = VerificationConfig(
            **{
                "answering_models": [model(name) for name in answering],
                "parsing_models": [model(name) for name in judges],
                "otel": True,
                **settings,
            }
        )
        try:
            got.results = benchmark.run_verification(config, journal=journal, on_result=on_result)
        finally:
            got.spans = spans.get_finished_spans()
            got.records = records.get_finished_logs()
            if kept is not None:
                kept(got)
    return got
