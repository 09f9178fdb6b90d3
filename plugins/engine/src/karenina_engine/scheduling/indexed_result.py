"""A result with the index of its item in the matrix of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


class IndexedResult(NamedTuple):
    """A result, and the index of its item in the matrix, from 0 (`place`).

    `line` is the JSON line of the result in the journal, so that a result file can copy it and the result is serialized
    once; None if it is in no journal.
    """

    place: int
    result: VerificationResult
    line: str | None = None
