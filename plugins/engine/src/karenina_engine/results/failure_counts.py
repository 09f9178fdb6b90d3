"""Counts of equal failures: of a thousand items with one cause, a user reads the cause once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MOST_KINDS: Final = 1000
"""Different failures that are told apart; further ones are counted together."""
OTHERS: Final = "other failures, each of another kind"

_OF_THE_CALL: Final = re.compile(r"; it was tried \d+ times, with [\d.]+ s between them")
_NUMBER: Final = re.compile(r"(?<!HTTP )(?<![\w.])\d+([.,]\d+)*(?![\w])")
_COMPARED: Final = 500
_KEPT: Final = 2000
_SHORTEST_ID: Final = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that `items` items have in common; `error` is that of the first one, without what is its own."""

    items: int
    error: str


class FailureCounts:
    """The failures of a run, counted one after another."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, error: str, question_id: str) -> None:
        """Count the failure of an item of this question."""
        error = _common(error, question_id)
        kind = kind_of(error, question_id)
        if kind not in self._counts and len(self._counts) >= MOST_KINDS:
            kind, error = OTHERS, OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._first.setdefault(kind, error[:_KEPT])

    def ranked(self) -> list[Failure]:
        """Return all of them, those of most items first, else in the order in which they came."""
        found = [Failure(count, self._first[kind]) for kind, count in self._counts.items()]
        return sorted(found, key=lambda failure: -failure.items)


def kind_of(error: str, question_id: str) -> str:
    """Return what equal failures of items have in common: all but the id of the question, and numbers.

    Statuses of HTTP are kept.
    """
    return _NUMBER.sub("#", _common(error, question_id)[:_COMPARED])


def _common(error: str, question_id: str) -> str:
    without_id = error.replace(question_id, "...") if len(question_id) >= _SHORTEST_ID else error
    return _OF_THE_CALL.sub("", without_id)
