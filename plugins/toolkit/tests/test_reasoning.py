"""Reasoning between `<think>` and `</think>` is separated from the answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import separate_reasoning, split_reasoning
from karenina_toolkit.traces.reasoning import has_content

THOUGHTS = [
    "<think>Is it TP53?</think>It is BCL2.",
    "<thinking>Is it TP53?</thinking>\n\nIt is BCL2.",
    "<thought>Is it TP53?</thought>It is BCL2.",
    "<reasoning>Is it TP53?</reasoning>\nIt is BCL2.",
    "[THINK]Is it TP53?[/THINK]It is BCL2.",
    "◁think▷Is it TP53?◁/think▷It is BCL2.",
    "<seed:think>Is it TP53?</seed:think>It is BCL2.",
    "<|START_THINKING|>Is it TP53?<|END_THINKING|>It is BCL2.",
    "Is it TP53?\n</think>\n\nIt is BCL2.",
]
"""All of them with one thought and one answer."""


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("It is BCL2.", None, "It is BCL2."),
        *((thought, "Is it TP53?", "It is BCL2.") for thought in THOUGHTS),
        ("\n<think>\nIs it TP53?\n</think>\n\nIt is BCL2.\n", "Is it TP53?", "It is BCL2.\n"),
        ("<think>\n\n</think>\n\nIt is BCL2.", "", "It is BCL2."),
        ("<think>One.</think>\n<think>Two.</think>\nIt is BCL2.", "One.\n\nTwo.", "It is BCL2."),
        ("Is it TP53? No.</think>\n\nIt is BCL2.", "Is it TP53? No.", "It is BCL2."),
        ("Is it TP53? No. </think> It is BCL2.", "Is it TP53? No.", "It is BCL2."),
        ("One.</think>Two.</think>It is BCL2.", "One.\n\nTwo.", "It is BCL2."),
        (
            "<think>They ask about `</think>`.\nHm.</think>\nIt is BCL2.",
            "They ask about `</think>`.\nHm.",
            "It is BCL2.",
        ),
        ("<think>a\n```\nprint()\n</think>\nIt is BCL2.", "a\n```\nprint()", "It is BCL2."),
        ("Close with </think> in prose.", None, "Close with </think> in prose."),
        ("The tag <think> opens, and\n</think>\ncloses.", None, "The tag <think> opens, and\n</think>\ncloses."),
        ("R1 replies:\n<think>\nHm.\n</think>\nBCL2.", None, "R1 replies:\n<think>\nHm.\n</think>\nBCL2."),
        ("<think>a</think>\nI check.\n<think>b</think>\nIt is BCL2.", "a\n\nI check.\n\nb", "It is BCL2."),
        ('<think>A 5" pipe?</think>It is 5" wide.', 'A 5" pipe?', 'It is 5" wide.'),
        ("<think>The sign ` is one.</think>It is `, a backtick.", "The sign ` is one.", "It is `, a backtick."),
        ('<think>Perhaps "</think>"It is BCL2.', 'Perhaps "', '"It is BCL2.'),
        ("<think>a\n```\nx</think>\nRun:\n```\ny\n```\n", "a\n```\nx", "Run:\n```\ny\n```\n"),
        ("<think>Hm.</think>\nR1 ends with\n</think>\nalone.", "Hm.", "R1 ends with\n</think>\nalone."),
        ("So it is:</think>\n\n**BCL2**", "So it is:", "**BCL2**"),
        ("A list:\n- No.</think>- BCL2", "A list:\n- No.", "- BCL2"),
        ("TP53? No </think>\nBCL2", "TP53? No", "BCL2"),
        ("TP53? No.</think>(a) BCL2", "TP53? No.", "(a) BCL2"),
    ],
)
def test_reasoning_before_an_answer_is_split_off(text: str, reasoning: str | None, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        (
            "<|channel|>analysis<|message|>Is it TP53?<|end|><|start|>assistant<|channel|>final<|message|>It is BCL2.",
            "Is it TP53?",
            "It is BCL2.",
        ),
        (
            "<|start|>assistant<|channel|>analysis<|message|>TP53?<|end|><|start|>assistant<|channel|>commentary"
            "<|message|>I look it up.<|end|><|start|>assistant<|channel|>final<|message|>It is BCL2.<|return|>",
            "TP53?\n\nI look it up.",
            "It is BCL2.",
        ),
        ("<|channel|>final<|message|>It is BCL2.<|return|>", "", "It is BCL2."),
        ("TP53?<|end|><|start|>assistant<|channel|>final<|message|>It is BCL2.", "TP53?", "It is BCL2."),
        ("analysisIs it TP53? No.assistantfinalIt is BCL2.", "Is it TP53? No.", "It is BCL2."),
    ],
)
def test_the_final_channel_is_the_answer(text: str, reasoning: str, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


@pytest.mark.parametrize(
    "text",
    [
        "Models end their thoughts with `</think>`, then they answer.",
        'The mark is "</think>", without attributes.',
        "The mark is “[/THINK]”.",
        "The closing tag is </thinking>, in lower case.",
        "A reply of R1 looks like this:\n\n```\n<think>\nHm.\n</think>\nParis.\n```",
        "Write <reasoning> and </reasoning> around it.",
        "The format has channels: `<|channel|>final<|message|>` begins the answer.",
        "analysis of the final text shows BCL2.",
        "The tag is **</think>**.",
        "The tag is\n\n**</think>**\n",
        "It is \\boxed{</think>}.",
        "| </think> | end |",
        "_</think>_ ends it",
        "(</think>) closes",
        "Tag=</think>; next",
        "the </think>-tag ends it",
        "It is <b></think></b>",
        "End tag: </think>\nStart tag: none",
        "1. </think>\n2. </s>",
        "* </think>: the end\n* <eos>",
        "It ends with </think>\nin all replies.",
        "</think> ends the thoughts of R1.",
        "R1 writes </think>Paris.",
        "<think> and </think> are the tags of Qwen3.",
        "<think>\n</think> are the tags of Qwen3.",
        "<think></think> is an empty pair.",
        "<reasoning>…</reasoning> and <answer>...</answer> are the format.",
        "<thought> is the opening tag, </thought> the closing one.",
        "<think>: opens\n</think>: closes",
        "<think>, closed by </think>, is the tag.",
        "analysis shows Bergen; some wrote assistantfinal: Oslo",
        "analysisIt shows Bergen; some wrote assistantfinal: Oslo",
    ],
)
def test_an_answer_about_a_mark_is_not_cut(text: str) -> None:
    assert split_reasoning(text) == (None, text)
    if not text.startswith(("<think>", "</think>")):
        assert split_reasoning(f"<think>Hm.</think>{text}") == ("Hm.", text)


@pytest.mark.parametrize(
    "text", ["<think>It is BCL2.</think>", "<think>It is BCL2.", "It is BCL2.</think>\n", "<think>a</think><think>b"]
)
def test_a_text_without_answer_after_its_thoughts_is_the_answer(text: str) -> None:
    assert split_reasoning(text) == (None, text)


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [("<think>It was cut", "It was cut"), ("<think>a</think>", "a"), ("<think>a</think>\n<think>b", "a\n\nb")],
)
def test_thoughts_that_were_cut_off_leave_no_answer(text: str, reasoning: str) -> None:
    assert split_reasoning(text, cut_off=True) == (reasoning, "")


@pytest.mark.parametrize(
    "unit", [" </think> a", "a<think></think>", "<think>a</think> ", '"</think>', "a </think>", "`<think>"]
)
def test_a_text_of_many_marks_is_split_in_time(unit: str) -> None:
    for begin in ("", "<think>"):
        started = time.process_time()  # other processes do not count
        split_reasoning(begin + unit * (200_000 // len(unit)))
        assert time.process_time() - started < 1


@given(st.text())
def test_a_text_without_marks_is_the_answer_to_the_letter(text: str) -> None:
    assert split_reasoning(text.replace("think>", "")) == (None, text.replace("think>", ""))


@given(st.lists(st.sampled_from(["<think>", "</think>", "\n", "word ", " "])).map("".join))
def test_an_answer_begins_with_no_reasoning(text: str) -> None:
    _, answer = split_reasoning(text)
    assert not answer.startswith("<think>") or answer == text


def test_a_message_with_tool_calls_may_be_thoughts_alone() -> None:
    call = ToolCall("1", "search")
    trace = [Message.assistant("<think>I look it up.</think>", [call]), Message.assistant("<think>All of it.</think>")]

    assert [(one.content, one.reasoning) for one in separate_reasoning(trace)] == [
        ("", "I look it up."),
        ("<think>All of it.</think>", None),
    ]
    assert separate_reasoning(trace, cut_off=True)[1] == Message.assistant("", reasoning="All of it.")


def test_reasoning_in_a_trace_joins_what_the_server_gave_apart() -> None:
    trace = [Message.user("<think>q</think>"), Message.assistant("<think>b</think>c", reasoning="a")]
    assert separate_reasoning(trace) == [trace[0], Message.assistant("c", reasoning="a\n\nb")]


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "\u200b", "\ufeff\u200b\u2060", "</s>", "<|im_end|>", "<think>\n\n</think>"),
        f"<think>{' ' * 100}</think>{' ' * 100}",
        "[THINK]\u200b[/THINK]</s>\n",
        *(
            "\u3164",
            "\U000e0041",
            "\u2800",
            "\u115f\u1160\uffa0",
            "\ufe0e\U000e0100",
            "\u034f\u180e",
            "\x9f",
            "\U0001d159",
        ),
    ],
)
def test_a_reply_of_nothing_that_can_be_seen_has_no_content(text: str) -> None:
    assert not has_content(text)
    assert has_content(f"{text}0")
    assert has_content(f"-{text}")
