"""How much a call sends, as far as its price depends on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from karenina_core.models.ports import Message

FRAME: Final = 64
"""The tokens that a server adds to what was sent, and that the frame of a tool's call has."""

_PER_CHARACTER: Final = 0.5  # tokens: more than any prompt of some length has, of texts in alphabets
_PER_SIGN: Final = 2.0  # of texts in other scripts


class CallSize(NamedTuple):
    """`characters` that are sent, `density`, the most tokens that one of them may be, and the most `turns`, which are
    the requests that an agent makes that is asked as a whole."""

    characters: int
    density: float
    turns: int


def measure_call(messages: Sequence[Message], asked: object, *, is_agent: bool) -> CallSize:
    """Return the bulk of a call that sends `messages` and `asked`, which are JSON values or None."""
    texts = [message.content for message in messages]
    size = sum(map(len, texts)) + sum(len(message.tool_calls) * FRAME for message in messages)
    if asked is not None:
        size += len(json.dumps(asked, default=str))
    turns = 1
    if is_agent and isinstance(asked, dict):
        turns = max(1, int(asked.get("max_turns", 1)))
    return CallSize(size, _PER_CHARACTER if all(map(str.isascii, texts)) else _PER_SIGN, turns)
