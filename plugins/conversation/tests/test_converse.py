"""The stage `Converse`, alone: what it sends, records, and leaves out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from karenina_conversation.converse import Converse
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question
from karenina_core.artifacts.artifact import Slot
from karenina_core.models.ports import AgentReply, ErrorCategory, LLMReply, Message, PortError, ToolCall
from karenina_template.templates.primitives import Primitive, Undecided, register_primitive
from karenina_testing import ScriptedModels, StageRun, run_stage
from karenina_toolkit.conversations import CONVERSATION

pytestmark = pytest.mark.alone
CALL = ToolCall("c1", "look_up", {"gene": "BCL2"})
MCP = {"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}
SURE = {"say": "Are you sure?"}
YEAR = {"say": "In which year?", "id": "year"}


def converse(models: ScriptedModels, turns: Sequence[Any], more: Mapping[str, Any] | None = None) -> StageRun:
    question = Question(question="Which gene?", raw_answer="the truth", extra={"turns": list(turns)})
    found = run_stage(Converse, question=question, models=models, answering=more, slot=Slot.GENERATE_ANSWER)
    return asyncio.run(found)


def replies(*texts: str | LLMReply | PortError) -> ScriptedModels:
    """Return models that say the texts in turn."""
    left = list(texts)

    def say(*_: object) -> str | LLMReply:
        reply = left.pop(0)
        if isinstance(reply, PortError):
            raise reply
        return reply

    return ScriptedModels(say=say)


def sent(models: ScriptedModels) -> list[list[tuple[str, str]]]:
    return [[(message.role, message.content) for message in request.messages] for request in models.requests]


def states(found: StageRun) -> list[tuple[int, str]]:
    return [(turn["turn"], turn["state"]) for turn in found.field("conversation")["turns"]]


def test_each_turn_is_sent_with_all_messages_before_it() -> None:
    models = replies("BCL2.", "Yes.", "2016.")
    found = converse(models, [SURE, "In which year?"], {"system_prompt": "Be brief."})

    opening = [("system", "Be brief."), ("user", "Which gene?")]
    second = [*opening, ("assistant", "BCL2."), ("user", "Are you sure?")]
    assert sent(models) == [opening, second, [*second, ("assistant", "Yes."), ("user", "In which year?")]]
    assert found.record.calls == 3
    assert found.error is None


def test_the_trace_is_split_by_user_messages() -> None:
    found = converse(replies("BCL2.", "Yes."), [SURE])

    said = [Message.assistant("BCL2."), Message.user("Are you sure?"), Message.assistant("Yes.")]
    assert found.artifact(Keys.TRACE_MESSAGES) == said
    assert found.artifact(Keys.FINAL_AI_MESSAGE) == "Yes."
    assert "Are you sure?" in (found.artifact(Keys.RAW_LLM_RESPONSE) or "")
    conversation = found.artifact(CONVERSATION)
    assert conversation is not None
    assert [(turn.number, turn.said, turn.text) for turn in conversation.taken] == [
        (1, "Which gene?", "BCL2."),
        (2, "Are you sure?", "Yes."),
    ]
    assert conversation.ended == "script"


@pytest.mark.parametrize(
    ("condition", "answer", "state"),
    [
        ("said", "BCR-ABL after all.", "taken"),
        ("said", "It is BCL2.", "left_out"),
        ("not_said", "BCR-ABL after all.", "left_out"),
        ("not_said", "It is BCL2.", "taken"),
    ],
)
def test_a_condition_on_the_last_answer_decides_a_turn(condition: str, answer: str, state: str) -> None:
    when = {"when": {condition: {"type": "RegexMatch", "pattern": ".*BCR-?ABL.*"}}, "say": "Why?"}
    found = converse(replies(answer, "So.", "2016."), [when, YEAR])

    assert states(found) == [(1, "taken"), (2, state), (3, "taken")]


def test_a_called_tool_decides_a_turn() -> None:
    traces = [[Message.assistant("", [CALL]), Message.tool("apoptosis", CALL), Message.assistant("BCL2.")]]
    models = ScriptedModels(act=lambda *_: traces.pop() if traces else [Message.assistant("Yes.")])
    turns = [{"when": {"tool": "refund"}, "say": "Refunded?"}, {"when": {"tool": "look_up"}, "say": "Found?"}]
    found = converse(models, turns, MCP)

    assert states(found) == [(1, "taken"), (2, "left_out"), (3, "taken")]
    assert [message.role for message in models.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert found.artifact(Keys.AGENT_METRICS)["tool_calls"] == 1
    assert found.artifact(Keys.ANSWERING_MCP_SERVERS) == ["genes"]


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("tool", "taken"),
    [("find_order", True), ("mcp__shop__find_order", True), ("mcp__bank__find_order", False), ("order", False)],
)
def test_a_tool_is_named_with_or_without_its_server(tool: str, taken: bool, negated: bool) -> None:
    call = ToolCall("c1", "mcp__shop__find_order", {})
    traces = [[Message.assistant("", [call]), Message.tool("W12", call), Message.assistant("It is W12.")]]
    models = ScriptedModels(act=lambda *_: traces.pop() if traces else [Message.assistant("Yes.")])
    found = converse(models, [{"when": {"not_tool" if negated else "tool": tool}, "say": "Found?"}], MCP)

    assert states(found)[-1] == (2, "taken" if taken is not negated else "left_out")


def test_a_way_out_leaves_out_the_turns_after_it() -> None:
    found = converse(replies("goodbye"), [{"end": {"said": {"type": "ContainsAny", "substrings": ["goodbye"]}}}, YEAR])

    assert found.field("conversation") == {
        "ended": "end",
        "turns": [{"turn": 1, "state": "taken"}, {"turn": 2, "id": "year", "state": "left_out"}],
    }


def test_a_failed_turn_keeps_the_turns_before_it() -> None:
    away = PortError("no server", category=ErrorCategory.PERMANENT)
    found = converse(replies("BCL2.", away), [SURE, YEAR])

    assert found.error is not None
    assert found.error.outcome is Outcome.MODEL_ERROR
    assert found.artifact(Keys.TRACE_MESSAGES) == [Message.assistant("BCL2."), Message.user("Are you sure?")]
    assert states(found) == [(1, "taken"), (2, "taken"), (3, "missing")]


def test_an_empty_answer_ends_the_conversation() -> None:
    found = converse(replies("BCL2.", " "), [SURE, YEAR])

    assert found.error is not None
    assert found.error.outcome is Outcome.MODEL_ERROR
    assert "is empty" in found.error.message


def test_a_refusal_by_the_provider_ends_the_conversation() -> None:
    found = converse(replies("BCL2.", LLMReply("", finish_reason="content_filter")), [SURE, YEAR])

    assert [veto.outcome for veto in found.vetoes] == [Outcome.ABSTAINED]
    assert states(found)[-1] == (3, "missing")


def test_an_agent_at_its_turn_limit_ends_the_conversation() -> None:
    stopped = AgentReply((Message.assistant("", [CALL]), Message.tool("apoptosis", CALL)), limit_reached=True)
    turns: list[Any] = [[Message.assistant("BCL2.")], stopped, [Message.assistant("never asked")]]
    found = converse(ScriptedModels(act=lambda *_: turns.pop(0)), [SURE, YEAR], MCP)

    assert found.artifact(Keys.RECURSION_LIMIT_REACHED) is True
    assert states(found) == [(1, "taken"), (2, "taken"), (3, "missing")]
    assert found.field("conversation")["ended"] is None
    assert [message.role for message in found.artifact(Keys.TRACE_MESSAGES) or []] == [
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert len(turns) == 1


def test_thoughts_are_stored_but_not_sent_back() -> None:
    models = replies("<think>TP53? No.</think>\n\nBCL2.", "Yes.")
    found = converse(models, [SURE])

    assert ("assistant", "BCL2.") in sent(models)[1]
    assert models.requests[1].messages[1].reasoning is None
    assert (found.artifact(Keys.TRACE_MESSAGES) or [])[0].reasoning == "TP53? No."


class Doubtful(Primitive):
    """A primitive that decides nothing."""

    def check(self, extracted: object, expected: object) -> Undecided:
        return Undecided("who knows")


class Broken(Primitive):
    """A primitive that fails."""

    def check(self, extracted: object, expected: object) -> bool:
        raise OSError("no disk")


@pytest.mark.parametrize("condition", ["said", "not_said"])
@pytest.mark.parametrize(("kind", "why"), [(Doubtful, "who knows"), (Broken, "no disk")])
def test_an_undecided_condition_is_not_judged(kind: type[Primitive], why: str, condition: str) -> None:
    said = register_primitive(kind)().to_json()
    found = converse(replies("BCL2."), [{"when": {condition: said}, "say": "Why?"}])

    assert found.error is not None
    assert found.error.outcome is Outcome.STAGE_ERROR
    assert why in found.error.message
