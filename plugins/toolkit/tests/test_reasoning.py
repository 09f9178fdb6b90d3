"""Reasoning between `<think>` and `</think>` is separated from the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Message
from karenina_toolkit.traces import separate_reasoning, split_reasoning


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("It is BCL2.", None, "It is BCL2."),
        ("<think>Is it TP53?</think>It is BCL2.", "Is it TP53?", "It is BCL2."),
        ("\n<think>\nIs it TP53?\n</think>\n\nIt is BCL2.\n", "Is it TP53?", "It is BCL2.\n"),
        ("<think>\n\n</think>\n\nIt is BCL2.", "", "It is BCL2."),
        ("<think>One.</think>\n<think>Two.</think>\nIt is BCL2.", "One.\n\nTwo.", "It is BCL2."),
        ("<think>It was cut off", "It was cut off", ""),
        ("Is it TP53?\n</think>\n\nIt is BCL2.", "Is it TP53?", "It is BCL2."),
        ("Close with </think> in prose.", None, "Close with </think> in prose."),
        ("The tag <think> opens, and\n</think>\ncloses.", None, "The tag <think> opens, and\n</think>\ncloses."),
    ],
)
def test_reasoning_before_an_answer_is_split_off(text: str, reasoning: str | None, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


@given(st.text())
def test_a_text_without_marks_is_the_answer_to_the_letter(text: str) -> None:
    assert split_reasoning(text.replace("think>", "")) == (None, text.replace("think>", ""))


@given(st.lists(st.sampled_from(["<think>", "</think>", "\n", "word ", " "])).map("".join))
def test_an_answer_begins_with_no_reasoning(text: str) -> None:
    _, answer = split_reasoning(text)
    assert not answer.startswith("<think>") or answer == text


def test_reasoning_in_a_trace_joins_what_the_server_gave_apart() -> None:
    trace = [Message.user("<think>q</think>"), Message.assistant("<think>b</think>c", reasoning="a")]
    assert separate_reasoning(trace) == [trace[0], Message.assistant("c", reasoning="a\n\nb")]
