"""Extraction of the only JSON object from a judge's reply."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from karenina_core.text import replace_surrogates_in
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.structured.lenient_json import LenientReader, read_float, restore_backslashes
from karenina_toolkit.structured.schema_repair import json_equal
from karenina_toolkit.traces.reasoning import MARK

T = TypeVar("T")

_OBJECT_START: Final = lazy_pattern(r'\{\s*(?:["\'}\u201c#]|//|/\*)')
_BARE_START: Final = lazy_pattern(r"\{\s*[A-Za-z_][\w-]*\s*:")
_GOES_ON: Final = lazy_pattern(r"\s*,\s*[\"'\w-]+\s*:")
"""Matches text after an object that shows that the object was closed too early."""
_HALF: Final = lazy_pattern(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Matches a possible half of a surrogate pair in JSON."""
_SKETCH: Final = lazy_pattern(r"\{\s*[\"'\u201c]?[\w -]+[\"'\u201d]?\s*(?:\.\.\.|\u2026|[,}]|:\s*(?:\.\.\.|\u2026|<))")
"""Matches the beginning of a form or set in a judge's reasoning, which is not a JSON object."""
_FIRST_MARK: Final = lazy_pattern(rf"\s*(?:{MARK.pattern})", re.IGNORECASE)
_CHANNEL: Final = lazy_pattern(r"\s*(?:<\|start\|>assistant)?<\|channel\|>")
_FINAL: Final = lazy_pattern(r"<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_PLAIN_FINAL: Final = lazy_pattern(r"assistantfinal")
_MOST_COPIES: Final = 8


def read_object(text: str, *, whole: bool = False) -> tuple[dict[str, Any], bool]:
    """Read the only JSON object in `text`, even amid prose or slightly malformed. With `whole`, for a reply that was
    cut off, `text` must be valid JSON. Return the object with a flag that is true if it had to be extracted or
    repaired. Raises `ValueError` if there is no object, if there are several different ones, if it is incomplete, or if
    it contains `NaN`, `Infinity` or a key with two different values.

    The following are removed: a code fence, prose before and after the object (even with braces), reasoning
    (`split_reasoning`), a list or string around the object, and repetitions of the object. The object may be almost
    JSON (`LenientReader`). Lost backslashes are restored (`restore_backslashes`), and unpaired surrogates become
    U+FFFD.
    """
    value, mended = _read(text, whole=whole)
    if "\\" in text:
        value = restore_backslashes(value)
    elif text.isascii():
        return value, mended  # as most replies: it has neither a surrogate nor the escape of one
    return (replace_surrogates_in(value) if _HALF.search(text) else value), mended


def _read(text: str, *, whole: bool) -> tuple[dict[str, Any], bool]:
    """Return the object in `text`, which may be in a JSON string or list, without restoring backslashes, and whether it
    had to be extracted or repaired. Raises `ValueError` if there is none or, with `whole`, if `text` is not valid JSON.
    See `read_object`.
    """
    stripped = text.strip()
    if not stripped:
        raise ValueError("the reply is empty")
    try:
        value = _loads(stripped)
    except json.JSONDecodeError as error:
        if whole:
            raise ValueError(f"the JSON is not complete ({_where(error)})") from None
        return _inside(stripped), True
    if isinstance(value, dict):
        return value, False
    if (
        isinstance(value, list)
        and value
        and isinstance(value[0], dict)
        and all(json_equal(value[0], item) for item in value)
    ):
        return value[0], True
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return read_object(value, whole=True)[0], True
    raise ValueError(f"the reply is {_kind(value)}, not a JSON object")


def is_complete(text: str) -> bool:
    """Return whether a judge's reply contains a complete JSON object. Text that ends in `}` with balanced braces does,
    without being parsed.

    A complete reply with wrong contents would only be repeated by the judge. An incomplete one was cut off or never
    started.
    """
    if text.endswith("}") and text.count("{") == text.count("}"):
        return True
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _inside(text: str) -> dict[str, Any]:
    """Return the only object in a string that contains more than JSON. Copies and empty objects are ignored. Raises
    `ValueError` if there is no object, if there are several, if one of them cannot be read, or if the text around it
    shows that it is only part of the reply.

    More than `_MOST_COPIES` copies count as several.
    """
    text = _without_thoughts(text)
    start = _start_in(text)
    objects: list[dict[str, Any]] = []
    outside: list[str] = []
    at = 0
    while (begin := start.search(text, at)) is not None:
        # An unreadable object ends the search: an inner object must never be taken for the whole.
        value, end = _object_at(text, begin.start())
        objects.append(value)
        outside.append(text[at : begin.start()])
        at = end
        if len(objects) > _MOST_COPIES:
            raise ValueError("the reply contains more than one JSON object")
    outside.append(text[at:])
    if not objects:
        raise ValueError("the reply contains no JSON object")
    filled = [value for value in objects if value] or objects
    if any(not json_equal(filled[0], other) for other in filled):
        raise ValueError("the reply contains more than one JSON object")
    _check_outside(outside)
    return filled[0]


def _start_in(text: str) -> re.Pattern[str]:
    """Return the pattern that matches the beginnings of objects in `text`: objects with quoted keys, or with unquoted
    keys if there are no others or one contains the first object with quoted keys.
    """
    quoted, bare = _OBJECT_START.search(text), _BARE_START.search(text)
    if quoted is None:
        return _BARE_START
    if bare is not None and bare.start() < quoted.start():
        try:
            _, end = _object_at(text, bare.start())
        except (ValueError, RecursionError):
            return _OBJECT_START
        if end > quoted.start():
            return _BARE_START
    return _OBJECT_START


def _without_thoughts(text: str) -> str:
    """Return the reply without the reasoning at its beginning. Markers of reasoning in the strings of an object are
    ignored, because a judge may quote an answer.
    """
    last_object = text.rfind("{")
    at = 0
    end = _FINAL.search(text) if _CHANNEL.match(text) else _end_at_beginning(text, 0)
    while end is not None and end.end() <= last_object:
        at = end.end()
        end = _end_at_beginning(text, at)
    text = text[at:].lstrip()
    return text[_last_end(text) :]


def _end_at_beginning(text: str, at: int) -> re.Match[str] | None:
    """Return the match of the first closing marker after an opening marker at index `at`, or None if there is no
    opening marker at this index or no closing one.
    """
    first = _FIRST_MARK.match(text, at)
    if first is None or not first["open"]:
        return None
    return next((mark for mark in MARK.finditer(text, first.end()) if mark["close"]), None)


def _last_end(text: str) -> int:
    """Return the index after the last closing marker of reasoning outside any object, or 0 if there is none."""
    ends = [mark.span() for mark in MARK.finditer(text) if mark["close"]]
    if text.startswith("analysis"):
        ends = sorted((*ends, *(mark.span() for mark in _PLAIN_FINAL.finditer(text))))
    start = _start_in(text)
    last = at = 0
    opening = start.search(text) if ends else None
    for begin, end in ends:
        while opening is not None and opening.start() < begin:
            if _SKETCH.match(text, opening.start()):
                at = opening.end()
            else:
                try:
                    _, at = _object_at(text, opening.start())
                except (ValueError, RecursionError):
                    # Whether the mark is inside of a broken object cannot be known.
                    return last
            opening = start.search(text, at)
        if opening is None:
            break
        if at <= begin:
            last = end
    return last


def _check_outside(parts: list[str]) -> None:
    """Raise `ValueError` if the text around an object shows that the object is only part of the reply. `parts` are the
    texts before, between and after the copies of the object.
    """
    before, after = parts[0].rstrip(), parts[-1].lstrip()
    entry = before.endswith(("[", ",")) and after.startswith(("]", ",")) and "[" in before and "]" in after
    if entry and not (before.endswith("[") and after.startswith("]")):
        raise ValueError("the reply is a JSON array, not a JSON object")
    closed = sum(part.count("}") - part.count("{") for part in parts)
    if _GOES_ON.match(after) or (closed and after.strip("}` \r\n")):
        raise ValueError("the JSON object in the reply is broken (it ends before its last key)")


def _object_at(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Read the object at index `at`, leniently if it is not JSON. Return it with the index of its end. Raises
    `ValueError` if the object is incomplete or malformed.
    """
    try:
        return _with_clear_errors(lambda: _DECODER.raw_decode(text, at))
    except json.JSONDecodeError:
        if text.find("}", at) < 0:
            raise ValueError("the JSON object in the reply is not complete") from None
    try:
        return _with_clear_errors(lambda: _LENIENT.object_at(text, at))
    except ValueError as error:
        raise ValueError(f"the JSON object in the reply is broken ({error})") from None


def _with_clear_errors(read: Callable[[], T]) -> T:
    """Return the result of `read`. Deep nesting and huge numbers raise a `ValueError` that names this cause. Other
    errors propagate.
    """
    try:
        return read()
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("the JSON in the reply is nested too deeply") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise ValueError("a whole number in the reply has more than 4300 digits") from None
        raise


def _loads(text: str) -> Any:
    """Parse JSON. Deep nesting and huge numbers raise a clear `ValueError`."""
    return _with_clear_errors(lambda: _DECODER.decode(text))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the entries of an object to a dict. Raises `ValueError` if a key has two different values."""
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        for key, value in pairs:
            if by_key[key] != value:
                raise ValueError(f"the key {key!r} is given twice, with different values")
    return by_key


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=read_float)
_LENIENT: Final = LenientReader(_pairs, _loads)


def _where(error: json.JSONDecodeError) -> str:
    """Return the reason why the JSON is invalid, with the line and column."""
    return f"{error.msg}, line {error.lineno} column {error.colno}"


def _kind(value: object) -> str:
    """Return the type of a JSON value in words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "a value")
