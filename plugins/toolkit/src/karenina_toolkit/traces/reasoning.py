"""Reasoning in a model's answer, between markers such as `<think>` and `</think>`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from karenina_core.models.ports import Message
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.printable import INVISIBLE

_WORDS: Final = (
    *("hink>", "hinking>", "hought>", "houghts>", "easoning>", "HINK>", "HINK]", "think▷"),
    *("_THINKING|>", "_of_thought|>", "<|channel", "<channel|>", "assistantfinal"),
)
"""Words for a quick check. Every marker contains one of them, and most answers contain none."""
_NAMES: Final = r"think|thinking|thoughts?|reasoning|seed:think|longcat_think"
MARK: Final = lazy_pattern(
    rf"(?P<open><(?:{_NAMES})>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|channel>thought\b)"
    rf"|(?P<close></(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<channel\|>"
    r"|(?:<\|end\|>)?<\|start\|>assistant<\|channel\|>final<\|message\|>)",
    re.IGNORECASE,
)
"""The markers of many model families.

They are used by DeepSeek, Qwen and most others, Anthropic's prompts, Google's OpenAI endpoint, Mistral, Seed-OSS,
LongCat, Kimi, Cohere, Sky-T1 and Gemma, and by gpt-oss if the start of its channels is missing.
"""
_FENCE: Final = lazy_pattern(r"^[ \t]*(?P<marks>```+|~~~+)(?P<info>[^\n]*)$", re.MULTILINE)
_QUOTED: Final = lazy_pattern(
    r"`[^`\n]{0,200}`|\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|«[^»\n]{0,200}»|\u2018[^\u2019\n]{0,200}\u2019|(?<!\w)'[^'\n]{0,200}'(?!\w)"
)
_MENTION: Final = lazy_pattern(r"[ \t]+[a-z(]|[,;:!?)\]}]|\.(?!\d)|-[a-z]")
"""Matches the continuation of a sentence after a marker that the sentence only mentions."""
_CLOSINGS: Final = {
    **dict(zip("({[\u201c\u00ab\u2018*_|`\"'", ")}]\u201d\u00bb\u2019*_|`\"'", strict=True)),
    ">": "</",
    "=": "",
}
"""The character that closes each kind of markup or bracket before a marker. A marker inside them is only mentioned."""
_QUOTES: Final = frozenset("`\"'\u201c\u00ab\u2018")
_LIST_ITEM: Final = lazy_pattern(r"\s*(?:\d+[.)]|[-*+\u2022>|#]+)")
_SENTENCE_END: Final = lazy_pattern(r"[.!?\u2026\u3002\uff01\uff1f][\"')*_\u201d\u00bb]*\Z")
_GOES_ON: Final = lazy_pattern(r"[ \t]*\n[a-z]")
_ABOUT_PAIR: Final = lazy_pattern(r"[\s,/&]*(?:[a-z]{1,5}[\s,/&]+|\u2026|\.{3})?")
"""Matches the text between a pair of markers that a sentence only mentions."""
_ABOUT_FIRST: Final = lazy_pattern(
    r"[ \t]+(?:is|are|and|or|marks?|tags?|tokens?|begins?|starts?|opens?|means|denotes|indicates|precedes)\b[^\n]*"
)
"""Matches the text between an opening marker that a line only mentions and the closing marker."""
_NO_THOUGHT: Final = lazy_pattern(r"[,;:)\]}]")
_CHANNEL: Final = lazy_pattern(
    r"<\|channel\|>\s*(?P<name>\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<text>.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_PLAIN_CHANNELS: Final = lazy_pattern(
    r"\Aanalysis(?=[^\s:;,.a-z])(?P<thought>.*?)assistantfinal(?=[^\s:;,.])(?P<text>.*)\Z", re.DOTALL
)
"""Matches the channels of gpt-oss after a server has removed the special tokens."""
_NOTHING: Final = lazy_pattern(
    rf"(?:[\s{INVISIBLE}]+|{MARK.pattern}|</?s>"
    r"|<\|(?:im_start|im_end|endoftext|end_of_text|eot_id|eom_id|end|return)\|>|<end_of_turn>|<eos>|<pad>)*",
    re.IGNORECASE,
)
"""Matches spaces, invisible and control characters, markers, and special tokens that a server did not remove."""
_LOOKED_AT: Final = 200


def has_content(text: str) -> bool:
    """Return whether a reply contains more than spaces, special tokens and empty reasoning."""
    first = text[:1]
    if first == "{" or (first.isascii() and first.isalnum()):  # nothing that is skipped starts like that
        return True
    nothing = _NOTHING.match(text)
    return nothing is None or nothing.end() < len(text)


def split_reasoning(text: str, *, cut_off: bool = False) -> tuple[str | None, str]:
    """Return the reasoning at the start of `text`, such as between `<think>` and `</think>`, and the answer after it.
    Without any, the reasoning is None and the whole text is the answer. The same applies if nothing follows the
    reasoning, unless the text was `cut_off`: then the answer is empty.

    - If the text starts with an opening marker, the reasoning ends at the first closing marker that is neither in a
      code fence nor quoted. If other pairs of markers follow directly, they are part of the reasoning too.
    - If there is no opening marker, because the server may have put it into the prompt, the reasoning ends at the last
      closing marker that is not just mentioned in a sentence.

    Markers anywhere else belong to the answer.
    """
    if ">" not in text and "]" not in text and "▷" not in text and "assistantfinal" not in text:
        return None, text
    for word in _WORDS:
        if word in text:
            break
    else:
        return None, text
    parts = _split_channels(text) or _split_at_marks(text, cut_off=cut_off)
    if parts is None or not (parts[1].strip() or cut_off):
        return None, text
    return parts


def separate_reasoning(trace: Sequence[Message], *, cut_off: bool = False) -> list[Message]:
    """Return the trace with the reasoning at the start of each assistant message moved from `content` to `reasoning`.
    `cut_off` states whether the last message was cut off. A message with tool calls may consist only of reasoning.
    """
    last = len(trace) - 1
    return [
        _split_message(message, cut_off=bool(message.tool_calls) or (cut_off and place == last))
        if message.role == "assistant"
        else message
        for place, message in enumerate(trace)
    ]


def _split_message(message: Message, *, cut_off: bool) -> Message:
    """Return the message with the reasoning at its start moved from `content` to the end of `reasoning`. `cut_off`
    states whether the message may consist only of reasoning.
    """
    thought, answer = split_reasoning(message.content, cut_off=cut_off)
    if thought is None:
        return message
    return replace(message, content=answer, reasoning="\n\n".join(filter(None, (message.reasoning, thought))))


def _split_channels(text: str) -> tuple[str, str] | None:
    """Split gpt-oss channels into reasoning and answer: the last channel `final`, or an empty answer, and all other
    channels as the reasoning. Return None if there are no channels.
    """
    plain = _PLAIN_CHANNELS.match(text)
    if plain is not None:
        return plain["thought"].strip(), plain["text"].strip()
    start = text.lstrip()
    if not start.startswith(("<|channel|>", "<|start|>")):
        return None
    channels = [(match["name"], match["text"].strip()) for match in _CHANNEL.finditer(start)]
    answer = [content for name, content in channels if name == "final"]
    thoughts = "\n\n".join(content for name, content in channels if name != "final" and content)
    return thoughts, answer[-1] if answer else ""


def _split_at_marks(text: str, *, cut_off: bool) -> tuple[str, str] | None:
    """Split text at markers such as `<think>` into reasoning and answer. Return None if there is no reasoning. If the
    text was `cut_off` in its reasoning, the answer is empty.
    """
    every = list(MARK.finditer(text))
    begins = bool(every) and bool(every[0]["open"]) and not text[: every[0].start()].strip()
    hidden = _fences(text) if begins else (*_fences(text), *(match.span() for match in _QUOTED.finditer(text)))
    marks = [mark for mark in _outside(every, sorted(hidden)) if not (begins and _is_quoted(text, mark))]
    if begins and not cut_off and not any(mark["close"] for mark in marks):
        marks = [every[0], *(mark for mark in every if mark["close"])][:2]
    end = _find_end(text, marks) if begins else _find_lone_end(text, marks)
    if end is None:
        return (text[every[0].end() :].strip(), "") if begins and cut_off else None
    if begins and end == 1 and _is_mentioned(text, marks[0], marks[1]):
        return None
    places = [(0, 0), *(mark.span() for mark in marks[: end + 1])]
    after = marks[end + 1 : end + 3]
    is_answer = len(after) > 1 and _is_mentioned(text, *after)
    if after and not is_answer and not text[places[-1][1] : after[0].start()].strip():
        # More thoughts follow, and do not end.
        places = [(0, 0), *(mark.span() for mark in marks), (len(text), len(text))] if cut_off else places[:1]
    thoughts = [text[before[1] : after[0]].strip() for before, after in pairwise(places)]
    return ("\n\n".join(filter(None, thoughts)), text[places[-1][1] :].lstrip()) if len(places) > 1 else None


def _find_end(text: str, marks: Sequence[re.Match[str]]) -> int | None:
    """Return the index of the marker that ends the reasoning after an opening marker, or None."""
    closing = [place for place, mark in enumerate(marks) if mark["close"]]
    last = closing[0] if closing else None
    for place in closing[1:]:
        assert last is not None
        after, following = marks[last].end(), marks[last + 1]
        follows = not text[after : following.start()].strip()
        thinks_again = (
            following["open"]
            and not _is_inside_line(text, following.start(), after)
            and text[following.end() : marks[place].start()].strip()
        )
        if not (follows or thinks_again) or _is_mentioned(text, following, marks[place]):
            break
        last = place
    return last


def _find_lone_end(text: str, marks: Sequence[re.Match[str]]) -> int | None:
    """Return the index of the marker that ends reasoning without an opening marker, or None."""
    if any(mark["open"] for mark in marks):
        return None
    return next((place for place in reversed(range(len(marks))) if _ends_thoughts(text, *marks[place].span())), None)


def _is_inside_line(text: str, start: int, after: int) -> bool:
    """Return whether the line that contains `start` has anything but whitespace before it, from `after` on."""
    return bool(text[max(text.rfind("\n", after, start) + 1, after) : start].strip())


def _is_mentioned(text: str, opening: re.Match[str], closing: re.Match[str]) -> bool:
    """Return whether a sentence only mentions a pair of markers. In that case, there is almost nothing between them, or
    the first one is followed by a verb or comma, and the sentence continues after the second one.
    """
    if not opening["open"]:
        return False
    start, end = opening.end(), closing.start()
    about = _ABOUT_PAIR.fullmatch(text, start, end) or _ABOUT_FIRST.fullmatch(text, start, end)
    return _MENTION.match(text, closing.end()) is not None and bool(about or _NO_THOUGHT.match(text, start))


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """Return whether a marker is enclosed in quotation marks."""
    before = text[max(mark.start() - 1, 0) : mark.start()]
    return before in _QUOTES and text.startswith(_CLOSINGS[before], mark.end())


def _ends_thoughts(text: str, start: int, end: int) -> bool:
    """Return whether a closing marker ends the reasoning, and is not just mentioned in a sentence, table or list."""
    from_ = max(start - _LOOKED_AT, 0)
    before = text[max(text.rfind("\n", from_, start) + 1, from_) : start]
    line = before.rstrip()
    apart = before != line
    if line[-1:] in _CLOSINGS and text.startswith(_CLOSINGS[line[-1]], end + len(before) - len(line)):
        return False
    if _MENTION.match(text, end) or _LIST_ITEM.fullmatch(line) or (apart and line.endswith((":", "=", ",", ";", "("))):
        return False
    rest = text[end : end + _LOOKED_AT].partition("\n")[0]
    sentence_ends = not line or _SENTENCE_END.search(line) is not None
    if not rest.strip():
        return not line or not apart or sentence_ends or _GOES_ON.match(text, end) is None
    return sentence_ends or not (apart or rest[0] in " \t")


def _outside(marks: Sequence[re.Match[str]], hidden: Sequence[tuple[int, int]]) -> Iterator[re.Match[str]]:
    """Yield the markers that do not begin inside a hidden part."""
    place = end = 0
    for mark in marks:
        while place < len(hidden) and hidden[place][0] <= mark.start():
            end = max(end, hidden[place][1])
            place += 1
        if end <= mark.start():
            yield mark


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each closed code fence."""
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line["marks"].startswith(opened["marks"]) and not line["info"].strip():
            yield opened.start(), line.end()
            opened = None
