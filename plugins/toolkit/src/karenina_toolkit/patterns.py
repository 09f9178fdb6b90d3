"""Searching with user-supplied patterns, within a time limit.

Patterns come from templates and rubrics, and text comes from models, so catastrophic backtracking must not stop a run.
The `regex` library supports the syntax of `re` and a time limit. It is imported on first use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

Flags = Sequence[str] | int

TIME_LIMIT: Final = 1.0
"""The time limit for a search, in seconds."""

_FLAGS: Final[dict[str, re.RegexFlag]] = {
    "ASCII": re.ASCII,
    "DOTALL": re.DOTALL,
    "IGNORECASE": re.IGNORECASE,
    "MULTILINE": re.MULTILINE,
    "UNICODE": re.UNICODE,
    "VERBOSE": re.VERBOSE,
}
_SHORT: Final = {"A": "ASCII", "S": "DOTALL", "I": "IGNORECASE", "M": "MULTILINE", "U": "UNICODE", "X": "VERBOSE"}


class BadPattern(ValueError):
    """Raised if a pattern or its flags are invalid. `reason` contains the explanation."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"the pattern {pattern!r:.200} cannot be used: {reason}")
        self.pattern = pattern
        self.reason = reason


class PatternTimeout(ValueError):
    """Raised if a search takes longer than `seconds`."""

    def __init__(self, pattern: str, seconds: float) -> None:
        super().__init__(
            f"the search for {pattern!r:.200} did not finish within {seconds:g} s because the pattern backtracks too "
            "much on this text. Avoid nested or overlapping repetitions such as (a|aa)+, or make them "
            "possessive"
        )
        self.pattern = pattern
        self.seconds = seconds


def flag_names(flags: Flags) -> tuple[str, ...]:
    """Return the full names of `flags`, sorted and without duplicates. `flags` is a list of names (`["IGNORECASE",
    "DOTALL"]` or `["I", "S"]`) or a number like `re.IGNORECASE | re.DOTALL`. Raises `ValueError` for unknown flags.
    """
    value: object = flags  # parameters may be of any type
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0 or value & ~sum(_FLAGS.values()):
            raise ValueError(
                f"the flags {value} contain an unknown bit; the known flags are {', '.join(f're.{n}' for n in _FLAGS)}"
            )
        return tuple(sorted(name for name, bit in _FLAGS.items() if value & bit))
    if not isinstance(value, list | tuple):
        raise ValueError(f"flags must be a list of names, such as ['IGNORECASE'], not {value!r:.200}")  # noqa: TRY004
    names: set[str] = set()
    for name in value:
        full = _SHORT.get(name, name) if isinstance(name, str) else None
        if full not in _FLAGS:
            raise ValueError(f"unknown flag {name!r:.200}; the flags are {', '.join(_FLAGS)}")
        names.add(full)
    return tuple(sorted(names))


def compile_pattern(pattern: str, flags: Flags = ()) -> regex.Pattern[str]:
    """Return a compiled pattern of the `regex` package. `flags` is explained in `flag_names`. Raises `BadPattern` if
    the pattern is malformed, if it is empty and so would match any text, or if a flag is unknown.
    """
    import regex

    try:
        names = flag_names(flags)
    except ValueError as error:
        raise BadPattern(pattern, str(error)) from None
    if not pattern:
        raise BadPattern(pattern, "an empty pattern matches every string")
    try:
        return regex.compile(pattern, sum(getattr(regex, name).value for name in names))
    except RecursionError as error:
        raise BadPattern(pattern, "the groups are nested too deeply") from error
    except (regex.error, ValueError, OverflowError) as error:
        raise BadPattern(pattern, str(error)) from error


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` if `pattern` is empty or cannot be compiled."""
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        raise ValueError(f"the pattern {pattern!r:.200} does not compile: {error.reason}") from error


def search(pattern: str, text: str, flags: Flags = (), *, seconds: float = TIME_LIMIT) -> regex.Match[str] | None:
    """Return the first match of `pattern` in `text`, or None. Raises `PatternTimeout` after `seconds`, and `BadPattern`
    if the pattern (which must not be empty) or a flag is invalid.

    `flags` is explained in `flag_names`.
    """
    compiled = compile_pattern(pattern, flags)
    try:
        return compiled.search(text, timeout=seconds)
    except TimeoutError:
        raise PatternTimeout(pattern, seconds) from None


def find_all(
    pattern: str, text: str, flags: Flags = (), *, limit: int | None = None, seconds: float = TIME_LIMIT
) -> list[regex.Match[str]]:
    """Return the first `limit` non-overlapping matches of `pattern` in `text`, or all if `limit` is None. Raises
    `PatternTimeout` if the whole search takes longer than `seconds`, and `BadPattern` if the pattern or a flag is
    invalid.

    `flags` is explained in `flag_names`.
    """
    compiled = compile_pattern(pattern, flags)
    try:
        return list(islice(compiled.finditer(text, timeout=seconds), limit))
    except TimeoutError:
        raise PatternTimeout(pattern, seconds) from None
