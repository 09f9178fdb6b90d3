"""Reasoning inside a model's answer, between marks such as `<think>` and `</think>`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from karenina_core.models.ports import Message

_WORDS: Final = (
    *("hink>", "hinking>", "hought>", "houghts>", "easoning>", "HINK>", "HINK]", "think▷"),
    *("_THINKING|>", "_of_thought|>", "<|channel", "<channel|>", "assistantfinal"),
)
"""Every mark contains one of these, and most answers none."""
_NAMES: Final = r"think|thinking|thoughts?|reasoning|seed:think|longcat_think"
MARK: Final = re.compile(
    rf"(?P<open><(?:{_NAMES})>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|channel>thought\b)"
    rf"|(?P<close></(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<channel\|>"
    r"|(?:<\|end\|>)?<\|start\|>assistant<\|channel\|>final<\|message\|>)",
    re.IGNORECASE,
)
"""Marks of DeepSeek, Qwen and most others, Anthropic's prompts, Google's OpenAI endpoint, Mistral, Seed-OSS, LongCat,
Kimi, Cohere, Sky-T1, Gemma, and gpt-oss, if the beginning of its channels is missing.
"""
_FENCE: Final = re.compile(r"^[ \t]*(?P<marks>```+|~~~+)(?P<info>[^\n]*)$", re.MULTILINE)
_QUOTED: Final = re.compile(
    r"`[^`\n]{0,200}`|\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|«[^»\n]{0,200}»|\u2018[^\u2019\n]{0,200}\u2019|(?<!\w)'[^'\n]{0,200}'(?!\w)"
)
_MENTION: Final = re.compile(r"[ \t]+[a-z(]|[,;.:!?)]")
"""How a sentence goes on after a mark that it mentions."""
_CHANNEL: Final = re.compile(
    r"<\|channel\|>\s*(?P<name>\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<text>.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_PLAIN_CHANNELS: Final = re.compile(r"\Aanalysis(?![a-z])(?P<thought>.*)assistantfinal(?P<text>.*)\Z", re.DOTALL)
"""The channels of gpt-oss after a server has removed the special tokens."""
_LONGEST_WITHOUT: Final = 64
"""The length from which on a text is not searched for marks around nothing."""
_LOOKED_AT: Final = 200


def has_content(text: str) -> bool:
    """Return whether a reply has anything but space and marks around no thoughts."""
    if len(text) > _LONGEST_WITHOUT:
        return not text.isspace()
    return bool((MARK.sub("", text) if "<" in text or "[" in text else text).strip())


def split_reasoning(text: str, *, cut_off: bool = False) -> tuple[str | None, str]:
    """Return the reasoning at the beginning of `text`, None if there is none, and the answer after it.

    Reasoning begins with a mark at the beginning of the text, or without one, because the server wrote it into the
    prompt. It ends at the last closing mark that is neither in a code fence or quotes nor mentioned in a sentence. If
    nothing follows, the text is the answer; if it was `cut_off`, all of it is reasoning, and the answer is empty. Marks
    anywhere else are part of the answer.
    """
    if ">" not in text and "]" not in text and "▷" not in text and "assistantfinal" not in text:
        return None, text
    for word in _WORDS:
        if word in text:
            break
    else:
        return None, text
    found = _split_channels(text) or _split_at_marks(text, cut_off=cut_off)
    if found is None or not (found[1].strip() or cut_off):
        return None, text
    return found


def separate_reasoning(trace: Sequence[Message], *, cut_off: bool = False) -> list[Message]:
    """Return a trace with the reasoning of assistant messages in `reasoning` instead of `content`.

    `cut_off` is about the last message. A message with tool calls may consist of reasoning alone.
    """
    last = len(trace) - 1
    return [
        _split_message(message, cut_off=bool(message.tool_calls) or (cut_off and place == last))
        if message.role == "assistant"
        else message
        for place, message in enumerate(trace)
    ]


def _split_message(message: Message, *, cut_off: bool) -> Message:
    thought, answer = split_reasoning(message.content, cut_off=cut_off)
    if thought is None:
        return message
    return replace(message, content=answer, reasoning="\n\n".join(filter(None, (message.reasoning, thought))))


def _split_channels(text: str) -> tuple[str, str] | None:
    """Return the channels of gpt-oss: `final` is the answer. None if the text does not begin with a channel."""
    plain = _PLAIN_CHANNELS.match(text)
    if plain is not None:
        return plain["thought"].strip(), plain["text"].strip()
    start = text.lstrip()
    if not start.startswith(("<|channel|>", "<|start|>")):
        return None
    channels = [(one["name"], one["text"].strip()) for one in _CHANNEL.finditer(start)]
    answer = [said for name, said in channels if name == "final"]
    return "\n\n".join(said for name, said in channels if name != "final" and said), answer[-1] if answer else ""


def _split_at_marks(text: str, *, cut_off: bool) -> tuple[str, str] | None:
    marks = list(_unquoted_marks(text))
    begins = bool(marks) and bool(marks[0]["open"]) and not text[: marks[0].start()].strip()
    end = _find_end(text, marks, begins=begins)
    if end is None:
        return (text[marks[0].end() :].strip(), "") if begins and cut_off else None
    places = [(0, 0), *(mark.span() for mark in marks[: end + 1])]
    if end + 1 < len(marks) and not text[places[-1][1] : marks[end + 1].start()].strip():
        # What follows are thoughts that do not end.
        places = [(0, 0), *(mark.span() for mark in marks), (len(text), len(text))] if cut_off else places[:1]
    thoughts = [text[before[1] : after[0]].strip() for before, after in pairwise(places)]
    return ("\n\n".join(filter(None, thoughts)), text[places[-1][1] :].lstrip()) if len(places) > 1 else None


def _find_end(text: str, marks: Sequence[re.Match[str]], *, begins: bool) -> int | None:
    """Return which of the marks ends the reasoning. `begins` says that the text begins with an opening mark."""
    if not begins and any(mark["open"] for mark in marks):
        return None
    closing = [place for place, mark in enumerate(marks) if mark["close"]]
    place = len(marks) - 1
    while place >= 0:
        if not marks[place]["close"]:
            place -= 1
        elif place and marks[place - 1]["open"]:
            if place == 1 or not _is_inside_line(text, marks[place - 1].start(), marks[place - 2].end()):
                return place
            place -= 2
        elif not _is_mentioned(text, marks[place].span()):
            return place
        else:
            place -= 1
    return closing[-1] if begins and closing else None


def _is_inside_line(text: str, start: int, after: int) -> bool:
    """Return whether anything but space precedes a place on its line, after the place `after`."""
    return bool(text[max(text.rfind("\n", 0, start) + 1, after) : start].strip())


def _is_mentioned(text: str, mark: tuple[int, int]) -> bool:
    """Return whether a sentence mentions the closing mark: it has a space before it, and goes on after it."""
    start, end = mark
    before = text[max(text.rfind("\n", 0, start) + 1, start - _LOOKED_AT) : start]
    return before[-1:] in (" ", "\t") and bool(before.strip()) and _MENTION.match(text, end) is not None


def _unquoted_marks(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks that are neither in a code fence nor in quotes."""
    marks = list(MARK.finditer(text))
    hidden = sorted((*_fences(text), *(found.span() for found in _QUOTED.finditer(text)))) if marks else []
    place = end = 0
    for mark in marks:
        while place < len(hidden) and hidden[place][0] <= mark.start():
            end = max(end, hidden[place][1])
            place += 1
        if end <= mark.start():
            yield mark


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where code fences that are closed begin and end."""
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line["marks"].startswith(opened["marks"]) and not line["info"].strip():
            yield opened.start(), line.end()
            opened = None
