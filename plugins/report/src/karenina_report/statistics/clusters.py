"""Statistical units: questions, or clusters of correlated questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from karenina_report.statistics.columns import find_column

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.benchmark_questions import BenchmarkQuestions

QUESTION_ID: Final = "question_id"
_QUESTION_TEXT: Final = "question_text"


@dataclass(frozen=True, slots=True)
class Units:
    """The statistical unit of each question, the kind of unit (`name`), and notes for the reader."""

    name: str
    by_question: Mapping[str, Hashable]
    notes: Sequence[str]

    def of(self, question_id: str) -> Hashable:
        """Return the unit of a question."""
        return self.by_question[question_id]


def assign_units(
    results: Iterable[VerificationResult], cluster: str | None, questions: BenchmarkQuestions | None = None
) -> Units:
    """Return the statistical unit of each question; questions with the same value in `cluster` are one unit.

    `cluster` is a column, also of the benchmark's `questions`. By default, questions with the same text are one unit,
    with a note. A question without a value is a unit by itself. Raises `ConfigError` for an unknown column.
    """
    first: dict[str, VerificationResult] = {}
    for result in results:
        first.setdefault(result.question_id, result)
    values = find_column(cluster or _QUESTION_TEXT, first.values(), questions)
    units: dict[str, Hashable] = {}
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for id, result in first.items():
        found = " ".join(" ".join(values(result)).split())
        units[id] = ("unit", found) if found else ("question", id)
        groups[units[id]].append(id)
    alike = [ids for ids in groups.values() if len(ids) > 1]
    if not alike:
        return Units("question", units, ())
    if cluster is not None:
        return Units(cluster, units, ())
    note = (
        f"{sum(map(len, alike))} questions have the same text as another one, and count as one unit per text "
        f"({len(groups)} units); --cluster {QUESTION_ID} separates them"
    )
    return Units("text", units, (note,))
