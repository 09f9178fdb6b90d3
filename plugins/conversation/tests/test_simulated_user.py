"""A user played by a model: what it is asked, what reaches the model under test, and how its faults end an item."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_conversation.check_user import read_verdict
from karenina_conversation.converse import Converse
from karenina_conversation.simulated_user import read_reply, speaks_as_assistant
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question
from karenina_core.artifacts.artifact import Slot
from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_testing import ScriptedModels, StageRun, run_stage
from karenina_toolkit.conversations import CONVERSATION
from karenina_toolkit.structured import InvalidReply
from karenina_toolkit.traces.reasoning import has_content

USER = {"brief": "A polite customer.", "knows": {"order": "W12"}, "goal": "The refund is confirmed.", "max_turns": 4}
OVER = {"say": None, "done": True, "reached": True}

Reply = Mapping[str, Any] | str | PortError


def says(text: str | None, *, done: bool = False, reached: bool = False) -> dict[str, Any]:
    return {"say": text, "done": done, "reached": reached}


def scripted(*user: Reply, answers: Sequence[str] = ("What is the number?", "Done.", "Bye.", "Bye.")) -> ScriptedModels:
    """Return models in which the model under test gives the `answers`, and the user the replies."""
    left, texts = list(user), list(answers)

    def fill(*_: object) -> Mapping[str, Any] | str:
        reply = left.pop(0)
        if isinstance(reply, PortError):
            raise reply
        return reply

    return ScriptedModels(say=lambda *_: texts.pop(0), fill=fill)


def converse(models: ScriptedModels, **user: Any) -> StageRun:
    question = Question(question="Hello, I want a refund.", raw_answer="the truth", extra={"user": {**USER, **user}})
    model = models.model("user", system_prompt="Write British English.")
    found = run_stage(Converse, question=question, models=models, slot=Slot.GENERATE_ANSWER, simulated_user=model)
    return asyncio.run(found)


def sent(models: ScriptedModels, port: str) -> list[list[tuple[str, str]]]:
    return [
        [(message.role, message.content) for message in request.messages]
        for request in models.requests
        if request.port == port
    ]


def test_only_the_message_reaches_the_model_under_test() -> None:
    models = scripted(says("W12."), OVER)
    found = converse(models)

    opening = [("user", "Hello, I want a refund.")]
    asked = [*opening, ("assistant", "What is the number?"), ("user", "W12.")]
    assert sent(models, "llm") == [opening, asked]
    assert found.error is None
    assert found.field("conversation")["ended"] == "goal"


def test_the_user_sees_its_brief_and_the_answers_and_no_truth() -> None:
    models = scripted(says("W12."), OVER)
    converse(models)
    first, second = sent(models, "parser")

    assert [role for role, _ in first] == ["system", "user"]
    assert first[0][1].startswith("Write British English.")
    for part in (
        "A polite customer.",
        "- order: W12",
        "The refund is confirmed.",
        "Hello, I want",
        "What is the number?",
    ):
        assert part in first[1][1]
    assert second[: len(first)] == first
    assert second[2] == ("assistant", json.dumps(says("W12.")))
    assert "Done." in second[3][1]
    assert "the truth" not in json.dumps(first + second)


def test_a_trace_looks_like_that_of_a_script() -> None:
    found = converse(scripted(says("W12."), OVER))

    conversation = found.artifact(CONVERSATION)
    assert conversation is not None
    assert [(turn.number, turn.said, turn.text) for turn in conversation.taken] == [
        (1, "Hello, I want a refund.", "What is the number?"),
        (2, "W12.", "Done."),
    ]
    assert (found.artifact(Keys.TRACE_MESSAGES) or [])[1] == Message.user("W12.")


@pytest.mark.parametrize(
    ("replies", "ended", "reached"),
    [
        ([OVER], "goal", True),
        ([says(None, done=True)], "gave_up", False),
        ([says("a"), says("b"), says("c"), says("d")], "limit", False),
        ([says("a"), says("b"), says("c"), OVER], "goal", True),
    ],
)
def test_a_conversation_ends_for_a_reason(replies: list[Reply], ended: str, reached: bool) -> None:
    found = converse(scripted(*replies))

    assert found.field("conversation")["ended"] == ended
    assert found.state.values["conversation.ended"].value == ended
    assert found.state.values["conversation.reached"].value is reached
    assert found.error is None
    assert found.vetoes == []


def test_a_conversation_at_its_limit_fails_only_if_asked() -> None:
    found = converse(scripted(says("a"), says("b")), max_turns=2, at_limit="fail")

    assert [veto.outcome for veto in found.vetoes] == [Outcome.AUTO_FAILED]
    assert found.state.values["conversation.turns"].value == 2


def test_calls_of_the_user_have_a_key_of_their_own() -> None:
    models = scripted(says("W12."), OVER)
    found = converse(models)

    usage = {key: used.calls for key, used in found.state.usage.items()}
    assert usage == {"answer_generation": 2, "simulated_user": 2}
    tasks = [(request.port, request.info.task, request.info.stage) for request in models.requests]
    assert tasks[:2] == [("llm", "answer_generation", "Converse"), ("parser", "simulated_user", "SimulatedUser")]
    notes = {id(request.info.notes) for request in models.requests if request.port == "parser"}
    assert id(models.requests[0].info.notes) not in notes


AWAY = PortError("no server", category=ErrorCategory.PERMANENT)
ECHO = "What is the number?"


@pytest.mark.parametrize(
    ("replies", "fault", "why"),
    [
        ([AWAY], "error", "the simulated user 'user' failed: no server"),
        ([says(""), says("  ")], "empty", "it says nothing although it is not done"),
        ([says(None), says(None)], "empty", "it says nothing although it is not done"),
        ([says("\u200b"), says("<think> </think>\u00a0")], "empty", "it says nothing although it is not done"),
        (
            [says("Assistant: I have refunded it."), says("AI: done")],
            "role",
            "written as the assistant: it begins with",
        ),
        ([says(ECHO), says(ECHO.upper())], "role", "it repeats the assistant's last message"),
        ([says("<|im_start|>assistant"), says("<|im_end|>")], "role", "a special token"),
        ([says("a" * 20_001), says("b " * 3_000_000)], "too_long", "the message has 5,999,999 characters, more than"),
        (["no", "JSON"], "error", "gave no usable reply to 2 requests"),
    ],
    ids=["away", "empty", "null", "invisible", "label", "echo", "token", "long", "text"],
)
def test_a_faulty_user_is_not_the_models_fault(replies: list[Reply], fault: str, why: str) -> None:
    found = converse(scripted(*replies))

    assert found.error is not None
    assert found.error.outcome is Outcome.STAGE_ERROR
    assert why in found.error.message
    assert "the simulated user" in found.error.message
    assert found.field("user_fault") == fault
    assert found.field("conversation")["ended"] is None
    assert found.artifact(Keys.RAW_LLM_RESPONSE) is not None


@pytest.mark.parametrize("bad", ["", "Assistant: Hello.", ECHO, "a" * 20_001])
def test_a_user_has_a_second_try(bad: str) -> None:
    models = scripted(says(bad), says("W12."), OVER)
    found = converse(models)

    assert found.error is None
    assert sent(models, "llm")[1][-1] == ("user", "W12.")
    assert "cannot be used" in sent(models, "parser")[1][-1][1]
    assert bad not in [content for _, content in sent(models, "parser")[2]][2:] or bad == ECHO


def test_a_user_who_is_done_may_send_an_invisible_message() -> None:
    found = converse(scripted(says("\u200b\n", done=True, reached=True)))

    assert found.error is None
    assert found.field("conversation")["ended"] == "goal"


def test_a_message_of_a_user_who_is_done_is_answered() -> None:
    """Otherwise a user who agrees and hangs up would let the model fail, which then cannot act."""
    both = says("Yes, refund it.", done=True, reached=True)
    models = scripted(both, both, OVER)
    found = converse(models)

    assert sent(models, "llm")[1][-1] == ("user", "Yes, refund it.")
    assert found.field("conversation")["ended"] == "goal"


@pytest.mark.parametrize(
    ("said", "answer", "is_found"),
    [
        ("ASSISTANT : Sure!", "", True),
        ("**Assistant:** Sure!", "", True),
        ("Support agent: How can I help?", "", True),
        ("I asked the assistant: it said no.", "", False),
        ("Agent Smith told me so.", "", False),
        ("System: Windows 11", "", False),
        ("You said: What is the number?", "What is the number?", False),
        ("Yes, please.", "Yes, please.", False),
        ("what is\u00a0the  NUMBER?", "What is the number?", True),
    ],
)
def test_programs_tell_only_plain_cases_of_a_wrong_role(said: str, answer: str, is_found: bool) -> None:
    assert (speaks_as_assistant(said, answer) is not None) == is_found


@given(say=st.none() | st.text(), done=st.booleans(), reached=st.booleans(), answer=st.text())
def test_every_reply_has_a_message_or_ends_or_is_refused(
    say: str | None, done: bool, reached: bool, answer: str
) -> None:
    try:
        reply = read_reply(says(say, done=done, reached=reached), answer, lenient=True)
    except InvalidReply:
        return
    assert reply.reached is reached
    assert reply.say == ((say or "").strip() if has_content(say or "") else None)
    assert reply.say is not None or done


DOTS = "." * 100_000


@pytest.mark.parametrize(
    ("copied", "sentence"),
    [
        ("It is W99.", "It is W99."),
        ("The person says: It is W99.", "It is W99."),
        ("I asked the user: why?", "I asked the user: why?"),
        (f"I asked {DOTS} why", f"I asked {DOTS} why"),
    ],
    ids=["sentence", "speaker", "inside", "dots"],
)
def test_the_judge_may_name_the_speaker_before_a_sentence(copied: str, sentence: str) -> None:
    said = ["It is W99.", "I asked the user: why? He left.", f"I asked {DOTS} why"]
    fault = read_verdict({"reasoning": "-", "fault": "contradiction", "sentence": copied}, said)

    assert fault is not None
    assert fault.sentence == sentence


@pytest.mark.parametrize("copied", [".", " ", "?", "a", "W", "9", "99", "ask", "lef"])
def test_a_sentence_that_shows_nothing_is_refused(copied: str) -> None:
    said = ["It is W99.", "I asked the user: why? He left a note."]

    with pytest.raises(InvalidReply):
        read_verdict({"reasoning": "-", "fault": "contradiction", "sentence": copied}, said)


@pytest.mark.parametrize(
    ("copied", "message"), [("A", "A"), ("W99", "It is W99, so."), ("\u4e0d\u662f", "\u6211\u4e0d\u662f\u4eba")]
)
def test_a_short_message_or_word_can_show_a_fault(copied: str, message: str) -> None:
    assert read_verdict({"reasoning": "-", "fault": "role", "sentence": copied}, [message]) is not None
