"""The spans of a run: their nesting, their attributes, and what they never contain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from otel_runs import KEY, traced

from karenina_core.models.ports import AgentReply, CallInfo, ErrorCategory, LLMReply, Message, PortError, Usage
from karenina_testing import ScriptedModels


def test_spans_nest_as_run_answer_item_stage_and_call() -> None:
    got = traced()
    run = ["karenina run"]
    answer = [*run, "karenina answer"]
    item = [*answer, "karenina item"]
    assert sorted(map(got.path, got.spans)) == sorted(
        [
            run,
            answer,
            [*answer, "stage Validate"],
            [*answer, "stage Generate"],
            [*answer, "stage Generate", "chat tested"],
            item,
            [*item, "stage Parse"],
            [*item, "stage Parse", "chat judge"],
            [*item, "stage Verify"],
            [*item, "stage FinalizeResult"],
        ]
    )


def test_every_span_covers_its_child_spans() -> None:
    got = traced(truths=["right"] * 3, judges=["judge", "other"])
    by_id = {span.context.span_id: span for span in got.spans}
    for span in got.spans:
        if span.parent is not None:
            outer = by_id[span.parent.span_id]
            assert outer.start_time <= span.start_time <= span.end_time <= outer.end_time


def test_the_span_of_an_answer_holds_all_judges() -> None:
    got = traced(judges=["judge", "other"])
    items = got.named("karenina item")
    assert {item.attributes["karenina.judge.id"] for item in items} == {"judge", "other"}
    assert {item.parent.span_id for item in items} == {got.one("karenina answer").context.span_id}
    assert len(got.named("chat tested")) == 1


def test_a_call_span_has_model_request_and_usage() -> None:
    usage = Usage(100, 20, 60, 7, 1, 30)
    models = ScriptedModels(say=lambda _messages, _info: LLMReply("yes", usage, "length", "tested-2026-11"))
    got = traced(models)
    call = got.one("chat tested")
    assert call.kind is SpanKind.CLIENT
    attributes = dict(call.attributes)
    assert attributes.pop("karenina.call.request_time") >= 0
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "tested",
        "gen_ai.response.model": "tested-2026-11",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 30,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "server.address": "models.example",
        "server.port": 443,
        "karenina.stage": "Generate",
        "karenina.task": "Generate",
        "karenina.question.id": "q1",
        "karenina.replicate": 1,
        "karenina.call.retries": 0,
    }
    assert got.one("chat judge").attributes["gen_ai.output.type"] == "json"


def test_one_call_is_one_span_with_all_attempts() -> None:
    tries: list[int] = []

    def say(_messages: Sequence[Message], _info: CallInfo) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise PortError("busy", category=ErrorCategory.SERVER, status=503, retry_after=0.001)
        return "yes"

    call = traced(ScriptedModels(say=say)).one("chat tested")
    assert call.attributes["karenina.call.retries"] == 2
    assert call.attributes["karenina.call.retries.server"] == 2
    assert call.attributes["karenina.call.retry_wait"] > 0
    assert call.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PortError("no", category=ErrorCategory.PERMANENT, status=401), "401"),
        (PortError("no", category=ErrorCategory.PERMANENT), "permanent"),
    ],
)
def test_the_span_of_a_failed_call_has_its_error(error: PortError, kind: str) -> None:
    def say(_messages: Sequence[Message], _info: CallInfo) -> str:
        raise error

    got = traced(ScriptedModels(say=say))
    failed = [got.one(name) for name in ("chat tested", "stage Generate", "karenina item")]
    assert [span.status.status_code for span in failed] == [StatusCode.ERROR] * 3
    assert failed[0].attributes["error.type"] == kind
    assert failed[2].attributes["karenina.outcome"] == failed[2].attributes["error.type"]
    assert got.one("karenina answer").status.status_code is StatusCode.UNSET


def test_the_operation_of_an_agent_is_invoke_agent() -> None:
    models = ScriptedModels(act=lambda _messages, _info: AgentReply((Message.assistant("yes"),), Usage(9, 3, calls=2)))
    got = traced(models, answering=["agent"])
    call = got.one("invoke_agent")
    assert call.kind is SpanKind.INTERNAL
    assert call.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert call.attributes["gen_ai.usage.input_tokens"] == 9
    assert {event.span_id for event in got.events} == {call.context.span_id}


def test_the_span_of_the_run_has_its_summary() -> None:
    run = traced(truths=["right", "wrong"], run_name="nightly").one("karenina run")
    assert dict(run.attributes) == {
        "karenina.run.name": "nightly",
        "karenina.run.items": 2,
        "karenina.evaluation_mode": "template_only",
        "karenina.run.finished_items": 2,
        "karenina.run.judged": 2,
        "karenina.run.not_judged": 0,
        "karenina.run.scored": 0,
        "karenina.run.pass_rate": 0.5,
        "karenina.interrupted": False,
    }


QUESTION, SAID, JUDGED, WHY, TRUTH = "Whose question", "said-by-model", "said-by-judge", "said-by-server", "right"


def failing_on_second(_messages: Sequence[Message], info: CallInfo) -> str:
    if info.question_id == "q2":
        raise PortError(WHY, category=ErrorCategory.PERMANENT)
    return SAID


@pytest.mark.parametrize("content", [False, True])
def test_content_is_sent_only_if_enabled_and_secrets_never(content: bool) -> None:
    models = ScriptedModels(say=failing_on_second, fill=lambda _messages, _schema, _info: JUDGED)
    told = traced(models, truths=[TRUTH, TRUTH], otel_content=content).everything
    assert [text in told for text in (QUESTION, SAID, JUDGED, WHY, TRUTH)] == [content] * 5
    assert "q2" in told
    assert [text in told for text in (KEY, "hidden", "user:")] == [False] * 3


def test_messages_have_the_format_of_the_conventions() -> None:
    got = traced(ScriptedModels(say=lambda _messages, _info: LLMReply("yes", reasoning="hm")), otel_content=True)
    call = got.one("chat tested")
    assert call.attributes["gen_ai.input.messages"] == (
        '[{"role": "user", "parts": [{"type": "text", "content": "Whose question is number 1?"}]}]'
    )
    assert call.attributes["gen_ai.output.messages"] == (
        '[{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, '
        '{"type": "text", "content": "yes"}], "finish_reason": "stop"}]'
    )


def test_each_answer_can_be_a_trace_linked_to_the_run() -> None:
    got = traced(truths=["right", "wrong"], otel_trace_per_answer=True)
    run, answers = got.one("karenina run"), got.named("karenina answer")
    assert len({span.context.trace_id for span in (run, *answers)}) == 3
    assert {link.context.span_id for answer in answers for link in answer.links} == {run.context.span_id}
    assert got.path(got.named("karenina item")[0]) == ["karenina answer", "karenina item"]


def test_a_run_that_is_stopped_leaves_no_span_open() -> None:
    class Enough(Exception):
        pass

    def enough(_result: Any) -> None:
        raise Enough

    seen: list[Any] = []

    def keep(got: Any) -> None:
        seen.append(got)

    with pytest.raises(Enough):
        traced(truths=["right"] * 40, on_result=enough, max_concurrency=2, kept=keep)
    (got,) = seen
    assert got.closed == 1
    assert got.one("karenina run").attributes["karenina.interrupted"] is True
    by_id = {span.context.span_id for span in got.spans}
    assert all(span.parent is None or span.parent.span_id in by_id for span in got.spans)


def test_items_that_an_earlier_run_reported_are_not_sent_again(tmp_path: Path) -> None:
    first = traced(journal=tmp_path / "journal.db")
    again = traced(journal=tmp_path / "journal.db")
    assert len(first.events) == 2
    assert len(again.results) == 1
    assert [span.name for span in again.spans] == ["karenina run"]
    assert list(again.events) == []


def test_replies_from_the_journal_have_no_call_spans(tmp_path: Path) -> None:
    traced(journal=tmp_path / "journal.db")
    more = traced(judges=["judge", "other"], journal=tmp_path / "journal.db")
    assert [span.name for span in more.spans if span.name.startswith("chat")] == ["chat other"]


def test_a_run_without_otel_sends_nothing() -> None:
    got = traced(otel=False)
    assert (len(got.results), list(got.spans), list(got.events), got.closed) == (1, [], [], 0)
