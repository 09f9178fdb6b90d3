"""The names of judges in reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

    JudgeNamer = Callable[[VerificationResult], str]


def make_judge_namer(runs: Sequence[Iterable[VerificationResult]]) -> JudgeNamer:
    """Return a function that names the judge of a result by its model, and its id if a run has two with one model."""
    ids: dict[tuple[int, str], set[str]] = defaultdict(set)
    for place, results in enumerate(runs):
        for result in results:
            ids[place, result.metadata.parsing_model].add(result.metadata.parsing_id)
    if all(len(names) == 1 for names in ids.values()):
        return lambda result: result.metadata.parsing_model
    return lambda result: f"{result.metadata.parsing_id} ({result.metadata.parsing_model})"
