"""Message blocks: reading them, building turns from them, and describing those that are not text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from karenina_core.models.ports import Message, Role, ToolCall


class TraceFormatError(ValueError):
    """Raised if a recording cannot be read without losing something. The message names the entry and the reason."""


@contextmanager
def in_entry(number: int) -> Iterator[None]:
    """Add the number of an entry (from 1) to any `TraceFormatError` raised in the `with` block."""
    try:
        yield
    except TraceFormatError as error:
        raise TraceFormatError(f"entry {number}: {error}") from None


_ENCODED = re.compile(r"(?:data:[\w./+-]*;base64,)?[A-Za-z0-9+/=_-]{200,}")
_IGNORED_KEYS = ("type", "cache_control")


def describe_block(kind: str, block: Mapping[str, Any]) -> str:
    """Return a description of a block on one line: `[kind]`, followed by its contents as JSON. `type`, `cache_control`
    and empty values are omitted. Encoded bytes, such as pictures, are replaced with their length.
    """
    held = {key: value for key, value in block.items() if key not in _IGNORED_KEYS and value not in (None, "", [], {})}
    return f"[{kind}] {as_json(held)}" if held else f"[{kind}]"


def get_entries(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the list under `key`. If it is missing, return an empty one. Raises `TraceFormatError` if the value is not
    a list.
    """
    value = data.get(key)
    if not value:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TraceFormatError(f"the field {key!r} must be a list, not {type(value).__name__}")
    return value


def get_name(data: Mapping[str, Any], key: str) -> str | None:
    """Return the id or name under `key` as a string, or None if it is missing or empty. Raises `TraceFormatError` if
    the value is neither a string nor an integer.
    """
    value = data.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TraceFormatError(f"the field {key!r} must be a string, not {type(value).__name__}")
    return str(value)


def as_json(value: Any) -> str:
    """Return `value` as JSON on one line. Encoded bytes are replaced with their length."""
    return json.dumps(_shorten(value), ensure_ascii=False)


def _shorten(value: Any) -> Any:
    """Return a copy of a JSON value with encoded bytes replaced by their length."""
    if isinstance(value, str):
        return f"({len(value)} encoded characters)" if _ENCODED.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {key: _shorten(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shorten(item) for item in value]
    return value


def join_texts(role: Role, parts: Iterable[str | Message]) -> Iterator[Message]:
    """Yield messages with the given role, joining consecutive strings with line breaks. Parts that are already messages
    are yielded unchanged. If there are no parts, a single empty message is yielded.
    """
    texts: list[str] = []
    is_empty = True
    for part in parts:
        is_empty = False
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            yield Message(role, "\n".join(texts))
            texts = []
        yield part
    if texts or is_empty:
        yield Message(role, "\n".join(texts))


def comparable(message: Message) -> tuple[object, ...]:
    """Return a key that is the same for a message and its repetitions: the role, the text, and calls without ids."""
    calls = [(call.name, dict(call.arguments)) for call in message.tool_calls]
    return message.role, message.content.strip(), calls


class TurnBuilder:
    """Builds an assistant turn from text, reasoning and calls."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.text = ""
        self._calls: list[ToolCall] = []
        self._thoughts: list[str] = []
        self._notes: list[str] = []
        self._begun = False

    @property
    def has_calls(self) -> bool:
        """Whether the turn contains a tool call."""
        return bool(self._calls)

    def begin(self) -> None:
        """Start a turn. If nothing is added to it, it becomes an empty message."""
        self._begun = True

    def add_text(self, text: str, *, same_line: bool = False) -> None:
        """Add text. It starts on a new line unless `same_line` is set."""
        self._begun = True
        self.text += ("" if same_line or not self.text else "\n") + text

    def add_thought(self, thought: str) -> None:
        """Add reasoning that is not part of the answer."""
        self._begun = True
        self._thoughts.append(thought)

    def add_note(self, note: str) -> None:
        """Add a note about a part that the text does not include."""
        self._begun = True
        self._notes.append(note)

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call."""
        self._begun = True
        self._calls.append(call)

    def close(self) -> Iterator[Message]:
        """Yield the message of the turn, if a turn was started, and reset the builder. The builder is only reset when
        the iterator is exhausted.
        """
        if self._begun:
            thoughts = "\n".join(thought for thought in self._thoughts if thought)
            calls = tuple(self._calls)
            yield Message("assistant", self.text, calls, reasoning=thoughts or None, notes=tuple(self._notes))
        self._clear()
