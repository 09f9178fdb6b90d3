"""The checks of every reply of every adapter: what is returned can be stored and written, or it is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

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
from karenina_toolkit.replies.reply_bounds import (
    MOST_TOKENS,
    MOST_TOOL_CALLS,
    BrokenReply,
    ReplyTooLarge,
    check_tool_call_count,
    read_token_count,
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
    sanitize_turn,
    sanitize_usage,
)
from karenina_toolkit.structured.reply_checks import check_reply

WHERE = "http://localhost:9"
HALF = "\ud800"
WHOLE = "\ufffd"
Check = Callable[[Message], Message]


def of_turn(message: Message) -> Message:
    """Return the message as it is after the check of a turn."""
    return sanitize_turn(WHERE, Turn(message)).message


def of_agent(message: Message) -> Message:
    """Return the message as it is after the check of an agent's reply."""
    return sanitize_agent_reply(WHERE, AgentReply((message,))).trace[0]


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        (7, 7),
        (7.9, 7),
        (-5, 0),
        (-0.5, 0),
        (2**63, MOST_TOKENS),
        (float("inf"), MOST_TOKENS),
        (float("-inf"), 0),
        (float("nan"), 0),
        ("seven", 0),
        (None, 0),
        ([7], 0),
    ],
)
def test_a_token_count_is_a_number_that_can_be_stored(given: object, counted: int) -> None:
    assert read_token_count(given) == counted
    usage: Any = given
    assert sanitize_usage(Usage(usage, 3, calls=1)) == Usage(counted, 3, calls=1)


def test_the_number_of_tool_calls_is_bounded() -> None:
    check_tool_call_count(WHERE, [0] * MOST_TOOL_CALLS)
    with pytest.raises(ReplyTooLarge, match=f"with {MOST_TOOL_CALLS + 1} tool calls"):
        check_tool_call_count(WHERE, [0] * (MOST_TOOL_CALLS + 1))


def test_half_surrogate_pairs_in_texts_are_replaced() -> None:
    llm = sanitize_llm_reply(LLMReply(f"a{HALF}", model=f"m{HALF}", reasoning=f"r{HALF}"))
    parser = sanitize_parser_reply(ParserReply(f"a{HALF}", "json_schema", model=f"m{HALF}"))

    assert (llm.text, llm.model, llm.reasoning) == (f"a{WHOLE}", f"m{WHOLE}", f"r{WHOLE}")
    assert (parser.text, parser.model) == (f"a{WHOLE}", f"m{WHOLE}")


@pytest.mark.parametrize("checked", [of_turn, of_agent])
def test_half_surrogate_pairs_in_messages_are_replaced(checked: Check) -> None:
    call = ToolCall("c", f"look{HALF}", {f"k{HALF}": [f"v{HALF}"]})

    found = checked(Message.assistant(f"a{HALF}", [call]))

    assert found.content == f"a{WHOLE}"
    assert found.tool_calls == (ToolCall("c", f"look{WHOLE}", {f"k{WHOLE}": [f"v{WHOLE}"]}),)


@pytest.mark.parametrize("checked", [of_turn, of_agent])
def test_an_id_with_half_a_surrogate_pair_is_an_error(checked: Check) -> None:
    with pytest.raises(BrokenReply, match="unpaired surrogate"):
        checked(Message.assistant("", [ToolCall(f"c{HALF}", "look", {})]))


@pytest.mark.parametrize("checked", [of_turn, of_agent])
def test_arguments_nested_too_deeply_are_an_error(checked: Check) -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]

    with pytest.raises(BrokenReply, match="nested deeper than 200 levels"):
        checked(Message.assistant("", [ToolCall("c", "look", {"x": deep})]))


def test_what_an_adapter_keeps_of_a_turn_is_checked_too() -> None:
    turn = sanitize_turn(WHERE, Turn(Message.assistant("a"), wire={"blocks": [f"b{HALF}"]}))

    assert turn.wire == {"blocks": [f"b{WHOLE}"]}


@pytest.mark.parametrize(
    "reply", [None, "Lima", {"text": "Lima"}, LLMReply(None), ParserReply({"city": "Lima"}, "prompt")]
)  # type: ignore[arg-type]
def test_what_is_no_reply_is_the_adapters_error(reply: Any) -> None:
    with pytest.raises(PortError, match=r"the adapter of m at http://m returned .* correct the adapter") as caught:
        check_reply("m at http://m", reply)
    assert caught.value.category is ErrorCategory.PERMANENT


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"finish_reason": "cut"}, "the finish reason 'cut', which is none of stop, length, tool_calls, "),
        ({"finish_reason": None}, "the finish reason None, which is none of stop, "),
        ({"usage": {"input_tokens": 3}}, "the usage {'input_tokens': 3}, which is not a Usage"),
        ({"model": 5}, "the model 5, which must be a string; correct the adapter"),
        ({"server_reason": b"x"}, "the server_reason b'x', which must be a string; correct the adapter"),
    ],
)
@pytest.mark.parametrize("reply", [LLMReply("BCL2"), ParserReply("{}", "prompt"), Turn(Message.assistant("BCL2"))])
def test_a_part_of_another_type_is_the_adapters_error(reply: Any, fields: dict[str, Any], mistake: str) -> None:
    with pytest.raises(PortError, match=re.escape(f"the adapter of m at http://m returned {mistake}")) as caught:
        check_reply("m at http://m", replace(reply, **fields))
    assert caught.value.category is ErrorCategory.PERMANENT
