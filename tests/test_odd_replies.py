"""Whole runs whose servers send odd replies: every item is judged by its answer, or not judged, with the true cause."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_testing.contracts.odd_replies import chat, messages_reply
from karenina_testing.server import Reply, ScriptedServer, Side, faults

GOOD: Final = "The capital of Norway is Oslo."
FOUND: Final = '{"city": "Oslo"}'
TEMPLATE: Final = """
class Answer(BaseAnswer):
    city: str = VerifiedField(description="The city that is named", ground_truth="Oslo", verify_with=ExactMatch())
"""
CHATS: Final = [("openai", {}), ("openai", {"stream": True}), ("openai_endpoint", {})]


def run(
    server: ScriptedServer,
    interface: str = "openai",
    extra: Any = None,
    questions: int = 1,
    journal: Path | None = None,
    **settings: Any,
) -> list[VerificationResult]:
    """Return the results of a run, in the order of the questions."""
    pytest.importorskip(f"karenina_{interface.replace('openai_endpoint', 'langchain')}")
    benchmark = Benchmark.create("Capitals")
    for number in range(questions):
        benchmark.add_question(f"[item {number:02}] The capital of Norway?", "Oslo", TEMPLATE)
    url = server.url if interface.startswith("claude") else f"{server.url}/v1"
    model = {"interface": interface, "model_name": "m", "endpoint_base_url": url, "endpoint_api_key": "none"}
    answering = {"id": "a", **model, "extra": extra or {}}
    config = VerificationConfig(
        answering_models=[answering], parsing_models=[{"id": "j", **model}], retry_patience=30, **settings
    )
    results = list(benchmark.run_verification(config, journal=journal, trust="all"))
    return sorted(results, key=lambda one: one.metadata.question_text)


def text_of(result: VerificationResult) -> str | None:
    return result.template.raw_llm_response if result.template is not None else None


ANSWERS: Final = {
    "an error in the choice": (chat("Oslo is", "error"), Outcome.CORRECT, GOOD),
    "resources of the server": (chat("Bergen", "insufficient_system_resource"), Outcome.CORRECT, GOOD),
    "an empty reply": (chat(""), Outcome.CORRECT, GOOD),
    "thoughts alone": (chat(None, reasoning_content="Oslo"), Outcome.CORRECT, GOOD),
    "a filter": (chat("", "sensitive"), Outcome.ABSTAINED, ""),
    "a full context": (chat("Bergen is", "MAX_TOKENS"), Outcome.CORRECT, "Bergen is"),
    "thoughts among the parts": (
        chat([{"type": "thinking", "thinking": [{"type": "text", "text": "Bergen"}]}, {"type": "text", "text": GOOD}]),
        Outcome.CORRECT,
        GOOD,
    ),
    "thoughts without a beginning": (chat(f"Bergen? No.</think>\n\n{GOOD}"), Outcome.CORRECT, GOOD),
    "thoughts of Mistral": (chat(f"[THINK]Bergen? No.[/THINK]{GOOD}"), Outcome.CORRECT, GOOD),
    "channels": (
        chat(
            "<|channel|>analysis<|message|>Bergen?<|end|><|start|>assistant<|channel|>final<|message|>" + GOOD,
        ),
        Outcome.CORRECT,
        GOOD,
    ),
}


@pytest.mark.parametrize(("interface", "extra"), CHATS, ids=["openai", "streamed", "openai_endpoint"])
def test_an_odd_answer_becomes_an_answer_or_is_asked_again(interface: str, extra: dict[str, Any]) -> None:
    items = {f"{number:02}": [odd, GOOD] for number, (odd, *_) in enumerate(ANSWERS.values())}
    with ScriptedServer(Side(items=items), Side(FOUND)) as server:
        results = run(server, interface, extra, len(ANSWERS))
    found = {name: (one.outcome, text_of(one)) for name, one in zip(ANSWERS, results, strict=True)}
    assert found == {name: tuple(expected) for name, (_, *expected) in ANSWERS.items()}


@pytest.mark.parametrize(
    ("interface", "odd"),
    [
        *((interface, chat(None, reasoning_content="Oslo")) for interface in ("openai", "openai_endpoint")),
        *((interface, messages_reply([])) for interface in ("claude_tool", "claude_agent_sdk")),
    ],
)
def test_an_answer_that_stays_empty_is_not_judged(interface: str, odd: Any) -> None:
    with ScriptedServer(Side(Reply(odd)), Side(FOUND)) as server:
        (result,) = run(server, interface)
        assert len(server.requests) == 2
    assert result.outcome is Outcome.MODEL_ERROR
    assert "sent an empty reply" in (result.metadata.error or "")
    assert result.template is not None
    usage = result.template.usage_metadata or {}
    assert usage["total"]["output_tokens"] == 16, "both replies were paid for"


@pytest.mark.parametrize(
    ("interface", "odd"),
    [
        ("openai", Reply({"error": {"message": "no", "code": "content_filter"}}, 400)),
        ("openai_endpoint", Reply({"error": {"message": "no", "code": "content_filter"}}, 400)),
        ("openai", Reply(chat("", "content_filter"), 400)),
        ("claude_tool", Reply(messages_reply([], "refusal"))),
    ],
)
def test_a_filter_is_an_abstention_and_for_a_judge_no_verdict(interface: str, odd: Reply) -> None:
    with ScriptedServer(Side(odd), Side(FOUND)) as server:
        assert [one.outcome for one in run(server, interface)] == [Outcome.ABSTAINED]
    with ScriptedServer(Side(GOOD), Side(odd)) as server:
        (result,) = run(server, interface)
    assert result.outcome is Outcome.PARSE_ERROR
    assert "content filter" in (result.metadata.error or "")
    assert "choose another judge" in (result.metadata.error or "")


def test_a_paused_answer_goes_on_and_is_paid_for() -> None:
    paused = Reply(messages_reply("The capital of Norway ", "pause_turn"))
    rest = Reply(messages_reply("is Oslo."))
    with ScriptedServer(Side([paused, rest]), Side(FOUND)) as server:
        (result,) = run(server, "claude_tool")
    assert (result.outcome, text_of(result)) == (Outcome.CORRECT, GOOD)
    assert (result.template.usage_metadata or {})["answer_generation"]["output_tokens"] == 16


FORMS: Final = {
    "thoughts before it": chat('<thinking>maybe {"city": "Bergen"}</thinking>\n{"city": "Oslo"}'),
    "a written tool call": chat('<tool_call>\n{"name": "Answer", "arguments": {"city": "Oslo"}}\n</tool_call>'),
    "a function call": chat(None, "function_call", function_call={"name": "Answer", "arguments": FOUND}),
    "the reasoning alone": chat(None, reasoning_content=FOUND),
    "an object as arguments": chat(
        None, "tool_calls", tool_calls=[{"id": "1", "function": {"name": "Answer", "arguments": {"city": "Oslo"}}}]
    ),
    "an error, then a form": [chat('{"ci', "error"), FOUND],
    "nothing, then a form": [chat(""), FOUND],
}


@pytest.mark.parametrize(("interface", "extra"), CHATS, ids=["openai", "streamed", "openai_endpoint"])
def test_an_odd_form_of_a_judge_is_read(interface: str, extra: dict[str, Any]) -> None:
    judge = Side(FOUND, items={f"{number:02}": form for number, form in enumerate(FORMS.values())})
    with ScriptedServer(Side(GOOD), judge) as server:
        results = run(server, interface, extra, len(FORMS))
    assert {name: one.outcome for name, one in zip(FORMS, results, strict=True)} == dict.fromkeys(
        FORMS, Outcome.CORRECT
    )


def test_an_unknown_reason_is_warned_of_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer(Side(Reply(chat(GOOD, "weary"))), Side(FOUND)) as server, caplog.at_level(logging.WARNING):
        results = run(server, questions=3)
    assert [one.outcome for one in results] == [Outcome.CORRECT] * 3
    said = [record.getMessage() for record in caplog.records if "weary" in record.getMessage()]
    assert len(said) == 2
    assert "ended 3 replies with the unknown reason 'weary', which was treated as a normal end" in said[-1]


def test_many_unknown_reasons_are_counted_together(caplog: pytest.LogCaptureFixture) -> None:
    items = {f"{number:02}": Reply(chat(GOOD, f"weary of {number}")) for number in range(13)}
    with ScriptedServer(Side(GOOD, items=items), Side(FOUND)) as server, caplog.at_level(logging.WARNING):
        run(server, questions=13)
    said = [record.getMessage() for record in caplog.records if "unknown reason" in record.getMessage()]
    assert len(said) == 22
    assert (
        sum("ended 3 more replies for other unknown reasons, which was treated as a normal end" in one for one in said)
        == 1
    )


def test_an_unknown_part_is_named_in_the_notes() -> None:
    parts = [{"type": "hologram", "data": "Bergen"}, {"type": "text", "text": GOOD}]
    with ScriptedServer(Side(Reply(chat(parts))), Side(FOUND)) as server:
        (result,) = run(server)
    assert (result.outcome, text_of(result)) == (Outcome.CORRECT, GOOD)
    assert "hologram" in json.dumps(result.extensions)


def test_an_empty_reply_is_not_reused_from_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    with ScriptedServer(Side(Reply(chat(""))), Side(FOUND)) as server:
        assert [one.outcome for one in run(server, journal=journal)] == [Outcome.MODEL_ERROR]
        server.script.answers = Side(GOOD)
        assert [one.outcome for one in run(server, journal=journal)] == [Outcome.CORRECT]


EXPECTED: Final = {
    "empty_text": Outcome.CORRECT,
    "reasoning_only": Outcome.CORRECT,
    "broken_off": Outcome.CORRECT,
    "out_of_resources": Outcome.CORRECT,
    "filtered": Outcome.ABSTAINED,
    "refused": Outcome.ABSTAINED,
    "out_of_tokens": Outcome.TRUNCATED,
}
"""The outcome of an item whose first answer is this fault; after one that is requested again, the answer is right."""


@pytest.mark.parametrize(
    ("interface", "extra"), [*CHATS, ("claude_tool", {})], ids=["openai", "streamed", "openai_endpoint", "claude_tool"]
)
def test_every_item_ends_as_its_fault_says(interface: str, extra: dict[str, Any]) -> None:
    kinds = [getattr(faults, name) for name in EXPECTED]
    items: dict[str, Any] = {
        f"{number:02}": [kinds[number % 20], GOOD] if number % 20 < len(kinds) else GOOD for number in range(80)
    }
    lost = '{"city": null}'
    judge = Side(lambda request: FOUND if GOOD in request.text else lost)
    with ScriptedServer(Side(items=items), judge) as server:
        results = run(server, interface, extra, 80)
        met = {f"{number:02}": server.log[f"{number:02}"][0].fault for number in range(80)}
    expected = [EXPECTED.get(fault or "", Outcome.CORRECT) for fault in met.values()]
    assert [one.outcome for one in results] == expected
