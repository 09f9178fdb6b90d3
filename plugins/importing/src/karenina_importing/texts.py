"""Recorded answers in the values of other tools, and values that a source has cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from karenina_benchmark.tables.message_texts import NotText, as_text, is_conversation
from karenina_toolkit import traces


class _Truncated:
    """The value of a cell that the source has cut."""

    def __repr__(self) -> str:
        return "a cut value"


TRUNCATED: Final = _Truncated()


def as_response(value: Any) -> Any:
    """Return the recorded answer of a value: a text, or a conversation as it is, also in an object. Raises `NotText`.

    An answer that is a JSON object is returned as the text of that object.
    """
    if is_conversation(value) or (
        isinstance(value, Mapping) and not {"content", "role"} <= value.keys() and traces.is_conversation(value)
    ):
        try:
            traces.convert_recording(value)
        except traces.TraceFormatError as error:
            raise NotText(f"no recording can hold it: {error}") from error
        return value
    if isinstance(value, Mapping):
        return as_text(
            value["content"] if {"content", "role"} <= value.keys() else json.dumps(value, ensure_ascii=False)
        )
    return as_text(value)
