"""Blocks of a message other than text, written as text so that a trace shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from karenina_toolkit.traces.format_error import TraceFormatError

_ENCODED = re.compile(r"(?:data:[\w./+-]*;base64,)?[A-Za-z0-9+/=_-]{200,}")
_IGNORED_KEYS = ("type", "cache_control")


def describe_block(kind: str, block: Mapping[str, Any]) -> str:
    """Return `block` as one line: `[kind]`, followed by its content as JSON.

    Encoded bytes (pictures, sound, encrypted reasoning) are replaced by their length.
    """
    held = {key: value for key, value in block.items() if key not in _IGNORED_KEYS and value not in (None, "", [], {})}
    return f"[{kind}] {as_json(held)}" if held else f"[{kind}]"


def get_entries(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the entries of the list under `key`; none if it is missing or empty. Raises `TraceFormatError`."""
    value = data.get(key)
    if not value:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TraceFormatError(f"its {key} is {type(value).__name__}, not a list")
    return value


def get_name(data: Mapping[str, Any], key: str) -> str | None:
    """Return the id or name under `key`; None if it is missing, null or empty. Raises `TraceFormatError`."""
    value = data.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TraceFormatError(f"its {key} is {type(value).__name__}, not text")
    return str(value)


def as_json(value: Any) -> str:
    """Return `value` as JSON on one line, with encoded bytes replaced by their length."""
    return json.dumps(_shorten(value), ensure_ascii=False)


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return f"({len(value)} encoded characters)" if _ENCODED.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {key: _shorten(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shorten(item) for item in value]
    return value
