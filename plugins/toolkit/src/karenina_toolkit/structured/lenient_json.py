r"""Read an object that is almost JSON, as judges sometimes write it.

Accepted are unambiguous forms that other languages and people write: a comma after the last entry, and none between
entries; line breaks and tabs in a string; single and curly quotes; keys without quotes; `True`, `False` and `None`;
comments; a backslash that begins no escape, which is itself (`\alpha`). An incomplete object is never accepted, nor
is a text with a quote that may or may not end it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecoder
from typing import Any, Final, NoReturn

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]
Number = Callable[[str], Any]

_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
_STRINGS: Final = {
    quote: re.compile(rf"{quote}(?:\\.|[^\\{closing}])*{closing}", re.DOTALL)
    for quote, closing in (('"', '"'), ("'", "'"), ("\u201c", "\u201d"))
}
_ESCAPED: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\"", re.DOTALL)
_ESCAPES: Final = '"\\/bfnrt'
_WITH_LINE_BREAKS: Final = JSONDecoder(strict=False)
_WORDS: Final[dict[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "TRUE": True,
    "FALSE": False,
    "NULL": None,
}


class LenientReader:
    """A reader of objects; `pairs` makes an object of its entries, and `number` a number of its text."""

    def __init__(self, pairs: Pairs, number: Number) -> None:
        self._pairs = pairs
        self._number = number

    def object_at(self, text: str, at: int) -> tuple[dict[str, Any], int]:
        """Return the object that begins at this place, and where it ends.

        Raises `ValueError`, which names line and column, if it cannot be read, and `RecursionError`.
        """
        entries: list[tuple[str, Any]] = []
        at = _after_space(text, at + 1)
        while not text.startswith("}", at):
            key, at = self._key(text, at)
            at = _after_space(text, at)
            if not text.startswith(":", at):
                _refuse("':' expected after a key", text, at)
            value, at = self._value(text, _after_space(text, at + 1))
            entries.append((key, value))
            at = self._next_entry(text, at, "}")
        return self._pairs(entries), at + 1

    def _list_at(self, text: str, at: int) -> tuple[list[Any], int]:
        entries: list[Any] = []
        at = _after_space(text, at + 1)
        while not text.startswith("]", at):
            value, at = self._value(text, at)
            entries.append(value)
            at = self._next_entry(text, at, "]")
        return entries, at + 1

    def _next_entry(self, text: str, at: int, end: str) -> int:
        """Return where the next entry or the end begins."""
        after = _after_space(text, at)
        if text.startswith(",", after):
            return _after_space(text, after + 1)
        # Entries on separate lines are distinct without a comma.
        if not text.startswith(end, after) and "\n" not in text[at:after]:
            _refuse(f"',' or '{end}' expected", text, after)
        return after

    def _key(self, text: str, at: int) -> tuple[str, int]:
        if text[at : at + 1] in _STRINGS:
            return _read_string(text, at)
        name = _NAME.match(text, at)
        if name is None:
            _refuse("a key expected", text, at)
        return name[0], name.end()

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        first = text[at : at + 1]
        if first == "{":
            return self.object_at(text, at)
        if first == "[":
            return self._list_at(text, at)
        if first in _STRINGS:
            return _read_string(text, at)
        number = _NUMBER.match(text, at)
        if number is not None:
            return self._number(number[0]), number.end()
        name = _NAME.match(text, at)
        if name is None or name[0] not in _WORDS:
            _refuse("a value expected", text, at)
        return _WORDS[name[0]], name.end()


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _read_string(text: str, at: int) -> tuple[str, int]:
    found = _STRINGS[text[at]].match(text, at)
    if found is None:
        _refuse("a string that does not end", text, at)
    inner = _ESCAPED.sub(_in_double_quotes, found[0][1:-1])
    try:
        return str(_WITH_LINE_BREAKS.decode(f'"{inner}"')), found.end()
    except ValueError as error:
        _refuse(str(error).split(":", 1)[0], text, at)


def _in_double_quotes(found: re.Match[str]) -> str:
    """Return a quote, or an escaped character, as it is written between double quotes."""
    escaped = found[1]
    if escaped is None:
        return r"\""
    if escaped[0] == "x" and len(escaped) > 1:
        return rf"\u00{escaped[1:]}"
    if escaped in "'\u201c\u201d":
        return escaped
    return found[0] if escaped in _ESCAPES or len(escaped) > 1 else "\\" + found[0]


def _refuse(why: str, text: str, at: int) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    raise ValueError(f"{why}, line {line} column {column}")
