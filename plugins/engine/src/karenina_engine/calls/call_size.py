"""The size of a call, as far as its price depends on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from karenina_core.models.ports import Message

FRAME: Final = 64
"""The tokens that a server adds to the messages, and those of the frame of a tool call."""

_PER_CHARACTER: Final = 0.5  # tokens: more than long texts in alphabets have
_PER_SIGN: Final = 2.0  # of texts in other scripts


class CallSize(NamedTuple):
    """The `characters` that are sent, the most tokens per character (`density`), and the most requests (`turns`) of an
    agent that is called as a whole."""

    characters: int
    density: float
    turns: int


def measure_call(messages: Sequence[Message], request: object, *, is_agent: bool) -> CallSize:
    """Return the size of a call that sends `messages` and `request`, which holds JSON values or is None."""
    texts = [message.content for message in messages]
    size = sum(map(len, texts)) + sum(len(message.tool_calls) * FRAME for message in messages)
    if request is not None:
        size += len(json.dumps(request, default=str))
    turns = 1
    if is_agent and isinstance(request, dict):
        turns = max(1, int(request.get("max_turns", 1)))
    return CallSize(size, _PER_CHARACTER if all(map(str.isascii, texts)) else _PER_SIGN, turns)
