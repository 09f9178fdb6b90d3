"""Small helpers for texts and error messages that several rooms share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final

_NAMED_PROBLEMS: Final = 8


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of what there is, or nothing where there is nothing."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; there are: {shown}"


def join_problems(problems: Sequence[str]) -> str:
    """The first problems in one line, and how many more there are."""
    more = len(problems) - _NAMED_PROBLEMS
    return "; ".join(problems[:_NAMED_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def replace_surrogates(text: str) -> str:
    """`text` with U+FFFD for each half of a surrogate pair that stands alone: no file and no request can carry one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """`value`, made of JSON values, with `replace_surrogates` applied to every text in it, keys included."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates_in(key): replace_surrogates_in(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_surrogates_in(item) for item in value]
    return value
