"""Conversations that the reference project wrote as one text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import is_delimited, read_delimited, validate_trace

LOOKED = """--- AI Message ---
I look it up.

Tool Calls:
  lookup (call_c1)
   Call ID: c1
   Args: {'gene': "BRCA1", 'deep': True}
  list_all (call_c2)
   Call ID: c2

--- Tool Message (call_id: c1) ---
17q21

see [1]

--- Tool Message (call_id: c2) ---
[ERROR] no such list

--- Human Message ---
And now?

--- Thinking ---
It is known.

--- AI Message ---
On 17q21.
"""
LOOKUP = ToolCall("c1", "lookup", {"gene": "BRCA1", "deep": True})
LIST = ToolCall("c2", "list_all", {})
MESSAGES = [
    Message.assistant("I look it up.", [LOOKUP, LIST]),
    Message.tool("17q21\n\nsee [1]", LOOKUP),
    Message.tool("no such list", LIST, is_error=True),
    Message.user("And now?"),
    Message.assistant("On 17q21.", (), "It is known."),
]


def test_headings_divide_the_messages() -> None:
    assert read_delimited(LOOKED) == MESSAGES
    assert validate_trace(read_delimited(LOOKED)).final == "On 17q21."


@pytest.mark.parametrize("written", ['{"gene": "BRCA1", "deep": true}', "{'gene': 'BRCA1', 'deep': True}"])
def test_arguments_are_python_or_json(written: str) -> None:
    text = f"--- AI Message ---\n\nTool Calls:\n  lookup (call_c1)\n   Call ID: c1\n   Args: {written}"
    assert read_delimited(text) == [Message.assistant("", [LOOKUP])]


def test_calls_may_stand_in_one_line() -> None:
    text = (
        "--- AI Message ---\nI look.\nTool Calls:  lookup (call_c1)   Call ID: c1   "
        "Args: {'gene': 'BRCA1', 'deep': True}"
        "  list_all (call_c2)   Call ID: c2"
    )
    assert read_delimited(text) == [Message.assistant("I look.", [LOOKUP, LIST])]


def test_other_arguments_are_kept_as_they_are() -> None:
    text = "--- AI Message ---\n\nTool Calls:\n  lookup (call_c1)\n   Call ID: c1\n   Args: {'gene': open('x')}"
    assert read_delimited(text)[0].tool_calls[0].arguments == {"_unreadable": "{'gene': open('x')}"}


@pytest.mark.parametrize(
    "text", ["It is BCL2.", "--- BCL2 ---", "", "It said:\n--- AI Message ---\nno", "--- AI Message"]
)
def test_other_text_is_not_divided(text: str) -> None:
    assert not is_delimited(text)


@given(st.lists(st.sampled_from([*LOOKED.split("\n"), *LOOKED.split(" "), "\n", "  ", "("]), max_size=60))
def test_any_pieces_of_such_a_text_can_be_read(pieces: list[str]) -> None:
    text = "--- AI Message ---\n" + "\n".join(pieces)
    assert is_delimited(text)
    assert read_delimited(text)


@pytest.mark.parametrize(
    "piece", ["  x (call_", "\nTool Calls:  x (call_a)", "--- Tool Message (call_id: ", "x", " ", "(["]
)
def test_long_texts_are_read_in_time(piece: str) -> None:
    text = "--- AI Message ---\n\nTool Calls:\n  a (call_b)\n   Call ID: b\n   Args: " + piece * 100_000
    began = time.process_time()  # other processes do not count
    read_delimited(text)
    assert time.process_time() - began < 20
