"""Reasoning inside a model's answer, between `<think>` and `</think>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from karenina_core.models.ports import Message

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
_CLOSING_LINE: Final = re.compile(r"^</think>[ \t]*$", re.MULTILINE)


def split_reasoning(text: str) -> tuple[str | None, str]:
    """Return the reasoning at the beginning of `text`, None if there is none, and the answer after it.

    The reasoning is between `<think>` and `</think>`. If the text ends before `</think>`, all of it is reasoning, and
    the answer is empty. If `<think>` is missing, because the server wrote it into the prompt, the reasoning ends at a
    line that contains only `</think>`. Marks anywhere else are part of the answer.
    """
    if _OPEN not in text and _CLOSE not in text:
        return None, text
    thoughts: list[str] = []
    closing = _CLOSING_LINE.search(text)
    if closing is not None and _OPEN not in text[: closing.start()]:
        thoughts.append(text[: closing.start()].strip())
        text = text[closing.end() :].lstrip()
    rest = text.lstrip()
    while rest.startswith(_OPEN):
        thought, _, rest = rest[len(_OPEN) :].partition(_CLOSE)
        thoughts.append(thought.strip())
        rest = text = rest.lstrip()
    return ("\n\n".join(thoughts), text) if thoughts else (None, text)


def separate_reasoning(trace: Sequence[Message]) -> list[Message]:
    """Return a trace with the reasoning of assistant messages in `reasoning` instead of `content`."""
    return [_split_message(message) if message.role == "assistant" else message for message in trace]


def _split_message(message: Message) -> Message:
    thought, answer = split_reasoning(message.content)
    if thought is None:
        return message
    return replace(message, content=answer, reasoning="\n\n".join(filter(None, (message.reasoning, thought))))
