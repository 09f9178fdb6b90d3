"""Helpers for strings and error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import singledispatch
from typing import Any, Final
from unicodedata import normalize

_SHOWN_PROBLEMS: Final = 8


@singledispatch
def to_html(_value: object) -> str | None:
    """Return a value as HTML for a notebook, or None if no conversion is registered for its type."""
    return None


def did_you_mean(name: str, known: Iterable[str], listed: str | None = None) -> str:
    """Return the end of an error message: `; did you mean 'x'?` with the closest name in `known`. If no name is close,
    return `listed` or, by default, a list of the known names, and if `known` is empty, an empty string.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return ""
    return listed if listed is not None else f"; available: {list_names(names)}"


def list_names(known: Iterable[str]) -> str:
    """Return the names as a sorted, comma-separated list. If there are more than 30, only the first 20 are shown."""
    names = sorted(known)
    return ", ".join(names if len(names) <= 30 else [*names[:20], f"... ({len(names)} in all)"])


def is_one_edit_away(word: str, other: str) -> bool:
    """Return whether the words differ by one inserted, removed or changed character, or by one swapped pair of
    neighboring characters. Equal words do not.
    """
    start = next((place for place, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), None)
    start = min(len(word), len(other)) if start is None else start
    rest, others = word[start:], other[start:]
    swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return word != other and (swapped or rest[1:] == others[1:] or rest[1:] == others or rest == others[1:])


def join_problems(problems: Sequence[str]) -> str:
    """Return the first eight problems on one line, followed by the number of remaining ones."""
    more = len(problems) - _SHOWN_PROBLEMS
    return "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def compose(text: str) -> str:
    """Normalize `text` to NFC. Used to compare ids, question texts, keywords and names."""
    return text if text.isascii() else normalize("NFC", text)


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """Return a copy of a JSON value with U+FFFD in place of lone surrogates, also in the keys of objects."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates_in(key): replace_surrogates_in(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_surrogates_in(item) for item in value]
    return value
