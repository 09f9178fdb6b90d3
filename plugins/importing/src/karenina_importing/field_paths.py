"""Paths to values of a row, such as `doc.question` or `output.choices.0.message.content`.

A number selects an item of a list, a negative one from the end; a name applied to a list selects that value in each
item. A key that contains dots can be written as it is. A path with braces is a text in which the values of other paths
are filled in, `{doc.passage} {doc.q}`, and `\\n` is a newline. Paths separated by bars, `A|B|C`, are the options of a
question in separate columns.

`as_response` converts a value to a recorded answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from karenina_benchmark.tables.lettered_options import parse_list
from karenina_benchmark.tables.message_texts import NotText, as_text, is_conversation
from karenina_benchmark.tables.question_rows import context_text
from karenina_toolkit import traces


class _Truncated:
    """The value of a cell that the source has truncated."""

    def __repr__(self) -> str:
        return "a truncated value"


TRUNCATED: Final = _Truncated()


def as_response(value: Any) -> Any:
    """Return a value as a recorded answer: as text, or unchanged if it is a conversation. Raises `NotText`.

    A single message becomes its content, and any other object its JSON.
    """
    if is_conversation(value) or (
        isinstance(value, Mapping) and not {"content", "role"} <= value.keys() and traces.is_conversation(value)
    ):
        try:
            traces.convert_recording(value)
        except traces.TraceFormatError as error:
            raise NotText(f"it cannot be recorded: {error}") from error
        return value
    if isinstance(value, Mapping):
        return as_text(
            value["content"] if {"content", "role"} <= value.keys() else json.dumps(value, ensure_ascii=False)
        )
    return as_text(value)


_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")


class _Missing:
    """The value of a path that does not exist in a row."""


MISSING: Final = _Missing()


def find_first(values: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """Return the value of the first path that has one; None if no path has a value (null and "" do not count).

    Raises `NotText` for a placeholder whose value is not text, and for a value that the source has truncated.
    """
    for path in paths:
        found = _fill(values, path) if _PLACEHOLDER.search(path) else _find(values, path)
        if found is TRUNCATED:
            raise NotText(f"{path} is truncated by the server")
        if found is not MISSING and found is not None and found != "":
            return found
    return None


def _find(values: Mapping[str, Any], path: str) -> Any:
    if "|" not in path or path in values:
        return look_up(values, path)
    found = [look_up(values, one) for one in path.split("|")]
    texts = [None if one in (MISSING, "") else one for one in found]
    while texts and texts[-1] is None:
        texts.pop()
    if None in texts:
        raise NotText(f"the option {path.split('|')[texts.index(None)]} is empty, and a later one is not")
    return texts or MISSING


def look_up(values: Any, path: str) -> Any:
    """Return the value of a path without placeholders and bars, or `MISSING`."""
    return _descend(values, path.split("."))


def _descend(value: Any, parts: Sequence[str]) -> Any:
    if not parts:
        return value
    if isinstance(value, Mapping):
        for end in range(1, len(parts) + 1):
            key = ".".join(parts[:end])
            if key in value:
                return _descend(value[key], parts[end:])
        return MISSING
    if isinstance(value, list):
        if not _INDEX.fullmatch(parts[0]):
            found = [_descend(one, parts) for one in value]
            return found if found and all(one is not MISSING for one in found) else MISSING
        index = int(parts[0])
        return _descend(value[index], parts[1:]) if -len(value) <= index < len(value) else MISSING
    return value if value is TRUNCATED else MISSING


def _fill(values: Mapping[str, Any], path: str) -> Any:
    """Return the path's text with the placeholders filled in; `MISSING` if the row lacks one of the values."""
    found = {name: look_up(values, name.strip()) for name in _PLACEHOLDER.findall(path)}
    if any(one is TRUNCATED for one in found.values()):
        return TRUNCATED
    if any(one is MISSING or one is None for one in found.values()):
        return MISSING
    return _PLACEHOLDER.sub(lambda match: _text(found[match[1]]), path.replace("\\n", "\n"))


def _text(value: Any) -> str:
    """Return a value as text to fill in; the items of a list of contexts (also one written as text) are joined."""
    if isinstance(value, list) and not is_conversation(value):
        found = context_text(value)
        if found:
            return found
    return context_text(value) if isinstance(value, str) and parse_list(value) else as_text(value)
