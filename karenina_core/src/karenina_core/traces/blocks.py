"""Blocks of a message that are no text, written as text so that a trace shows that they were there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_ENCODED = re.compile(r"(?:data:[\w./+-]*;base64,)?[A-Za-z0-9+/=_-]{200,}")
_SAY_NOTHING = ("type", "cache_control")


def described(kind: str, block: Mapping[str, Any]) -> str:
    """`block` as one line: `[kind]`, and after it whatever the block holds, as JSON.

    Encoded bytes (pictures, sound, sealed reasoning) are named by their length in place of being repeated.
    """
    held = {key: value for key, value in block.items() if key not in _SAY_NOTHING and value not in (None, "", [], {})}
    return f"[{kind}] {as_json(held)}" if held else f"[{kind}]"


def as_json(value: Any) -> str:
    """`value` as JSON on one line, with encoded bytes named by their length."""
    return json.dumps(_shortened(value), ensure_ascii=False)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return f"({len(value)} encoded characters)" if _ENCODED.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shortened(item) for item in value]
    return value
