"""The known values of an answer: what they are for a conversation and for a plain answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.data.sections import KnownValue
from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.answer_values import ANSWER_VALUES, AnswerFacts, find_arguments, plain_tool_name

FIND = ToolCall("a", "find_order", {"customer": {"name": "Ada"}, "tags": ["new", "gift"]})
AGAIN = ToolCall("b", "find_order", {})
REFUND = ToolCall("c", "mcp__shop__refund", {"order": "W12"})
TRACE = [
    Message.assistant("", [FIND, AGAIN]),
    Message.tool("it is W12", FIND),
    Message.tool("no such customer", AGAIN, is_error=True),
    Message.assistant("Found.", [REFUND]),
    Message.tool("refused", REFUND, is_error=True),
    Message.assistant("Your order is  refunded."),
]


def facts(trace: Sequence[Message] = TRACE, text: str | None = "Your order is  refunded.") -> AnswerFacts:
    return AnswerFacts(text, trace, 12, 0.5, "no price")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("answer.text", "Your order is  refunded."),
        ("answer.words", 4),
        ("answer.output_tokens", 12),
        ("answer.seconds", 0.5),
        ("trace.steps", 3),
        ("trace.stopped_by", "nothing"),
        ("trace.tools", ["find_order", "find_order", "refund"]),
        ("trace.raw_tools", ["find_order", "find_order", "mcp__shop__refund"]),
        ("trace.failed_tools", ["find_order", "refund"]),
        ("trace.arguments.find_order.customer.name", ["Ada", None]),
        ("trace.arguments.find_order.tags.1", ["gift", None]),
        ("trace.arguments.find_order.tags.2", [None, None]),
        ("trace.arguments.refund.order", ["W12"]),
        ("trace.arguments.mcp__shop__refund.order", ["W12"]),
        ("trace.arguments.refund", [{"order": "W12"}]),
        ("trace.arguments.cancel.order", []),
    ],
)
def test_values_of_a_conversation(name: str, value: object) -> None:
    assert facts().value(name) == KnownValue(value=value)


def test_a_plain_answer_has_one_step_and_no_tools() -> None:
    plain = facts([], "BCL2")

    assert plain.value("trace.steps") == KnownValue(value=1)
    assert plain.value("trace.tools") == KnownValue(value=[])


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_conversation_without_an_answer_is_wrong(text: str | None) -> None:
    lost = facts(TRACE[:2], text).value("answer.words")

    assert lost is not None
    assert (lost.value, lost.counts) == (None, "wrong")
    assert "does not end with an assistant message" in str(lost.why)


def test_what_is_not_known_leaves_a_field_undecided() -> None:
    assert facts().value("answer.cost") == KnownValue(why="no price", counts="undecided")


def test_every_offered_value_is_found() -> None:
    assert [name for name in ANSWER_VALUES if facts().value(name.replace("*", "x")) is None] == []
    assert facts().value("checks.tests.passed") is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [("mcp__my_shop__refund", "refund"), ("mcp__refund", "mcp__refund"), ("a__b__c", "a__b__c"), ("", "")],
)
def test_only_the_prefix_of_mcp_servers_is_removed(name: str, plain: str) -> None:
    assert plain_tool_name(name) == plain


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=3), _JSON, max_size=3), max_size=4), st.text(max_size=12))
def test_any_path_has_a_value_for_each_call(arguments: list[dict[str, Any]], path: str) -> None:
    calls = [ToolCall(str(number), "look.up", each) for number, each in enumerate(arguments)]
    trace = [Message.assistant("", [call]) for call in calls]

    assert len(find_arguments(trace, f"look.up.{path}")) == len(arguments)
    assert find_arguments(trace, "look.up") == arguments
    assert find_arguments(trace, f"look.upper.{path}") == []
