"""Converts JSON values in cells (strings, numbers, lists of messages or content parts) to strings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from karenina_toolkit.files.json_values import has_lone_surrogate


class NotText(ValueError):
    """Raised if a value cannot be read as text. The message describes the value."""


def as_text(value: Any) -> str:
    """Return a string, number, boolean, list of messages or list of content parts as a string. Raises `NotText` for
    null, other lists and objects, images, lone surrogates, and numbers that are not finite. A float without a fraction
    is written as an integer.
    """
    if isinstance(value, str):
        if has_lone_surrogate(value):
            raise NotText("the text contains an unpaired surrogate")
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotText(f"the number {value} is not finite")
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else str(value)
    if is_conversation(value):
        return _render_messages(value)
    if _is_parts(value):
        return _join_parts(value)
    raise NotText(f"the value is {_describe(value)}, not text")


def as_texts(value: Any) -> list[str]:
    """Return the items of a list as strings. Any other value counts as a list of one. Raises `NotText`, like
    `as_text`.
    """
    if isinstance(value, list) and not is_conversation(value) and not _is_parts(value):
        return [as_text(item) for item in value]
    return [as_text(value)]


def is_conversation(value: Any) -> bool:
    """Return whether a value is a nonempty list of messages with `role` and `content`."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(message, Mapping) and isinstance(message.get("role"), str) and "content" in message
            for message in value
        )
    )


def _is_parts(value: Any) -> bool:
    """Return whether a value is a nonempty list of content parts, which are objects with a `type`."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in value)
    )


def _join_parts(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts in content parts, one per line and without reasoning. Raises `NotText` for media."""
    texts = []
    for part in parts:
        if part["type"] in ("text", "output_text", "input_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part["type"] not in ("reasoning", "thinking"):
            raise NotText(f"the value contains a part of type {part['type']!r:.40}, not only text")
    return as_text("\n".join(texts))


def _render_messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as text. If there are several, each starts with its role."""
    shown = [(str(message["role"]), as_text(message["content"] or "")) for message in messages]
    if len(shown) == 1:
        return shown[0][1]
    return "\n\n".join(f"{role.capitalize()}: {text}" for role, text in shown)


def _describe(value: Any) -> str:
    """Describe a value for messages by its type, and an object by its first six keys."""
    if isinstance(value, Mapping):
        return f"an object with the keys {', '.join(map(str, list(value)[:6]))}" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "null"
    return f"a value of type {type(value).__name__}"
