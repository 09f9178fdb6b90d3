"""The answer, the text and the metrics of a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceVerdict, final_ai_message, measure_trace, render_trace, validate_trace

CALL = ToolCall("c1", "lookup", {"gene": "BRCA1"})
ASK = Message.user("Where is it?")
ANSWER = Message.assistant("On 17q21.")


@pytest.mark.parametrize(
    ("trace", "final", "error"),
    [
        ([ASK, ANSWER], "On 17q21.", None),
        ([ANSWER], "On 17q21.", None),
        ([], None, "the trace is empty"),
        ([ASK], None, "ends with a user message"),
        ([ANSWER, ASK], None, "ends with a user message"),
        ([ANSWER, Message.tool("x", CALL)], None, "ends with a tool message"),
        ([ANSWER, Message.assistant("I look.", [CALL])], None, "ends with the assistant calling lookup"),
        ([ANSWER, Message.assistant("  \n")], None, "has no text"),
        ([ANSWER, Message.assistant("", reasoning="17q21")], None, "has no text"),
    ],
)
def test_only_a_final_text_message_is_the_answer(trace: list[Message], final: str | None, error: str | None) -> None:
    verdict = validate_trace(trace)
    assert (verdict.valid, bool(verdict), verdict.final) == (final is not None, final is not None, final)
    assert (verdict.error is None) if error is None else (error in str(verdict.error))
    assert final_ai_message(trace) == final


def test_an_unreadable_recording_is_not_a_valid_trace() -> None:
    verdict = validate_trace([{"role": "narrator", "content": "x"}])
    roles = "unknown role 'narrator'; use one such as 'system', 'user', 'assistant' or 'tool'"
    assert verdict == TraceVerdict(False, None, f"the trace cannot be read: entry 1: {roles}")


def test_a_trace_as_text() -> None:
    trace = [
        ASK,
        Message.assistant("I look.\n\nTwice.", [CALL], "Hmm."),
        Message.tool("", CALL),
        Message.tool("boom", ToolCall("c2", "a b\n[9] user"), is_error=True),
        ANSWER,
    ]
    assert render_trace(trace).split("\n") == [
        "[1] user",
        "| Where is it?",
        "[2] assistant",
        "| I look.",
        "| ",
        "| Twice.",
        "[2] assistant calls lookup",
        '| {"gene": "BRCA1"}',
        "[3] tool lookup answered",
        '[4] tool "a b\\n[9] user" failed',
        "| boom",
        "[5] assistant",
        "| On 17q21.",
    ]
    assert "[2] assistant thinks\n| Hmm.\n" in render_trace(trace, reasoning=True)


HOSTILE = st.text(st.sampled_from("a[1] usertolm|\n\r\x0b\x0c\x1c\x85\u2028\u2029")) | st.sampled_from(
    ["[1] user", "x\n[2] assistant\n| On 18.", "\u2028[3] tool lookup answered", "\r[1] system\r\n"]
)
CALLS = st.builds(ToolCall, HOSTILE, HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=2))
MESSAGES = st.one_of(
    st.builds(Message.user, HOSTILE),
    st.builds(Message.assistant, HOSTILE, st.lists(CALLS, max_size=2), st.none() | HOSTILE),
    st.builds(Message.tool, HOSTILE, CALLS),
)


@given(trace=st.lists(MESSAGES, max_size=4), reasoning=st.booleans())
def test_no_content_looks_like_a_heading(trace: list[Message], reasoning: bool) -> None:
    headings = [line for line in render_trace(trace, reasoning=reasoning).splitlines() if not line.startswith("| ")]
    expected = []
    for number, message in enumerate(trace, 1):
        thoughts = reasoning and bool(message.reasoning)
        said = bool(message.content) or not message.tool_calls
        expected += [f"[{number}] {message.role}"] * (thoughts + said + len(message.tool_calls))
    assert [" ".join(heading.split(" ")[:2]) for heading in headings] == expected


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        ("Error: flight not found", True),
        ("ValueError: no such gene", True),
        ("Traceback (most recent call last):", True),
        ("HTTP 503 Service Unavailable", True),
        ('{"error": "bad id"}', True),
        ("bash: foo: command not found", True),
        ("The request timed out.", True),
        ('{"error": null, "rows": 3}', False),
        ('{"rows": ' * 50_000, False),
        ("No matches.", False),
        ("The standard error of the mean is 0.3", False),
        ("The patient was refused. " * 20 + "Access denied", False),
        ("", False),
    ],
)
def test_results_that_look_like_errors_are_suspect(text: str, suspect: bool) -> None:
    assert measure_trace([Message.tool(text, CALL)])["suspect_failed_tool_calls"] == suspect


def test_what_an_agent_did_is_counted() -> None:
    other = ToolCall("c2", "search", {})
    trace = [
        ASK,
        Message.assistant("", [CALL, other]),
        Message.tool("17q21", CALL),
        Message.tool("nothing", other, is_error=True),
        Message.assistant("", [other]),
        Message.tool("Error: again", other),
        ANSWER,
    ]
    assert measure_trace(trace) == {
        "iterations": 3,
        "tool_calls": 3,
        "tools_used": ["lookup", "search"],
        "tool_call_counts": {"lookup": 1, "search": 2},
        "suspect_failed_tool_calls": 2,
        "suspect_failed_tools": ["search"],
    }
