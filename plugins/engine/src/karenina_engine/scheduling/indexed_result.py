"""A result on its way from its item to whoever takes the results of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


class IndexedResult(NamedTuple):
    """A result, with its item's place in the matrix, from 0.

    `line` is the JSON line of the result that the journal holds, so that a file of results takes the same line and
    nobody writes it twice; None where no journal holds it.
    """

    place: int
    result: VerificationResult
    line: str | None = None
