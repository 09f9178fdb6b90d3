"""Replies as the JSON that a journal stores."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import (
    AgentReply,
    ErrorCategory,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    ToolCall,
    Turn,
    Usage,
)
from karenina_engine.calls.reply_json import (
    dump_error,
    dump_reply,
    is_empty,
    is_reusable,
    load_error,
    load_reply,
)


@given(st.none() | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.floats(max_value=0.0)))
def test_probabilities_of_options_are_stored(logprobs: dict[str, float] | None) -> None:
    reply = ParserReply('{"value": "X"}', "json_schema", option_logprobs=logprobs)

    assert load_reply("parser", dump_reply(reply)) == reply


@pytest.mark.parametrize("logprobs", [[-1.0], "X", {"X": "likely"}, {"X": None}])
def test_damaged_probabilities_are_an_error(logprobs: Any) -> None:
    stored = {**json.loads(dump_reply(ParserReply("{}", "json_schema"))), "option_logprobs": logprobs}

    with pytest.raises((AttributeError, TypeError, ValueError)):
        load_reply("parser", json.dumps(stored))


CALL = ToolCall("1", "search")


@pytest.mark.parametrize(
    ("reply", "empty"),
    [
        (LLMReply(""), True),
        (LLMReply(" \n"), True),
        (LLMReply("<think>\n</think>"), True),
        (LLMReply("Paris."), False),
        (LLMReply("", finish_reason="length"), False),
        (LLMReply("", finish_reason="content_filter"), False),
        (Turn(Message.assistant("")), True),
        (Turn(Message.assistant("", [CALL])), False),
        (Turn(Message.assistant(""), unfinished=True), False),
        (AgentReply((Message.assistant("", [CALL]), Message.tool("x", CALL), Message.assistant(""))), True),
        (AgentReply((Message.assistant("", [CALL]),), limit_reached=True), False),
        (AgentReply((Message.assistant("Paris."),)), False),
    ],
)
def test_an_empty_reply_of_an_older_journal_is_not_used(reply: Any, empty: bool) -> None:
    assert is_empty(reply) == empty
    assert not (empty and is_reusable(reply))


def test_what_a_server_said_beside_the_text_is_stored() -> None:
    said = LLMReply("Paris.", finish_reason="other", server_reason="weary", notes=("a part is not in the text",))
    assert load_reply("llm", dump_reply(said)) == said
    turn = Turn(Message("assistant", "Paris.", notes=("a part is not in the text",)), server_reason="weary")
    assert load_reply("turn", dump_reply(turn)) == turn
    error = PortError("an empty reply", category=ErrorCategory.EMPTY, usage=Usage(1, 2, calls=1))
    assert load_error(dump_error(error)).usage == error.usage
    assert load_error('{"message": "old", "category": "server"}').usage == Usage()


def test_what_a_recording_states_about_its_conversation_is_stored() -> None:
    about = {"ended": "goal", "reached": True}
    plain, agent = (
        LLMReply("Paris.", conversation=about),
        AgentReply((Message.assistant("Paris."),), conversation=about),
    )

    assert load_reply("llm", dump_reply(plain)) == plain
    assert load_reply("agent", dump_reply(agent)) == agent
    with pytest.raises(TypeError):
        load_reply("llm", json.dumps({**json.loads(dump_reply(plain)), "conversation": ["goal"]}))


@pytest.mark.parametrize(
    ("usage", "stored"),
    [
        (Usage(10, 2, calls=1), [10, 2, 0, 0, 1]),
        (Usage(10, 2, calls=1, cache_write_tokens=4), [10, 2, 0, 0, 1, 4]),
        (Usage(10, 2, calls=1, web_searches=3), [10, 2, 0, 0, 1, 0, 0, 0, 0, 3]),
        (Usage(10, 2, calls=1, stated_cost=5), [10, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5]),
    ],
)
def test_all_counts_of_the_usage_are_stored(usage: Usage, stored: list[int]) -> None:
    text = dump_reply(LLMReply("BCL2", usage))
    assert json.loads(text)["usage"] == stored
    assert load_reply("llm", text) == LLMReply("BCL2", usage)
