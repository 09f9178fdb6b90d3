"""Counts of equal failures, so that the cause of a thousand failed items is printed once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_KINDS: Final = 1000
"""The number of different failures that are counted separately; further ones are counted together."""
OTHERS: Final = "other failures, each of another kind"

_RETRIES: Final = re.compile(r"; \d+ attempts, with [\d.]+ s of waiting in all")
_NUMBER: Final = re.compile(r"(?<!HTTP )(?<![\w.])\d+([.,]\d+)*(?![\w])")
_COMPARED_LENGTH: Final = 500
_STORED_LENGTH: Final = 2000
_MIN_ID_LENGTH: Final = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that `items` items have in common; `error` is the first one's, without the parts that differ."""

    items: int
    error: str


class FailureCounts:
    """Counts of the failures of a run by kind."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, error: str, question_id: str) -> None:
        """Count the failure of an item of this question."""
        error = _without_id(error, question_id)
        kind = failure_kind(error, question_id)
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind, error = OTHERS, OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._first.setdefault(kind, error[:_STORED_LENGTH])

    def ranked(self) -> list[Failure]:
        """Return all failures, the most frequent first; equally frequent ones in the order of their texts."""
        found = [Failure(count, self._first[kind]) for kind, count in self._counts.items()]
        return sorted(found, key=lambda failure: (-failure.items, failure.error))


def failure_kind(error: str, question_id: str) -> str:
    """Return the common part of equal failures: the error without the question's id and numbers.

    HTTP statuses are kept.
    """
    return _NUMBER.sub("#", _without_id(error, question_id)[:_COMPARED_LENGTH])


def _without_id(error: str, question_id: str) -> str:
    error = error.replace(f"{question_id}, line ", "line ")
    without_id = error.replace(question_id, "...") if len(question_id) >= _MIN_ID_LENGTH else error
    return _RETRIES.sub("", without_id)
