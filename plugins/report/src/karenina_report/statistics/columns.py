"""The columns by which results are grouped and clustered, and the names of judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_core.text import compose, did_you_mean

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.benchmark_questions import BenchmarkQuestions

    JudgeNamer = Callable[[VerificationResult], str]

Column = Callable[["VerificationResult"], tuple[str, ...]]
"""A function that returns the values of a result in a column: none, one or several."""


def _as_values(value: object) -> tuple[str, ...]:
    return () if value is None or value == "" else (str(value),)


_RESULT_COLUMNS: Final[Mapping[str, Column]] = {
    "keyword": lambda result: tuple(map(compose, result.metadata.keywords or ())),
    "question_id": lambda result: _as_values(result.question_id),
    "question_text": lambda result: _as_values(result.metadata.question_text),
    "answering_model": lambda result: _as_values(result.metadata.answering_id),
    "judge": lambda result: _as_values(result.metadata.parsing_id),
    "replicate": lambda result: _as_values(result.metadata.replicate or 1),
    "template_id": lambda result: _as_values(result.metadata.template_id),
    "run_name": lambda result: _as_values(result.metadata.run_name),
    "outcome": lambda result: _as_values(result.outcome.value),
}


def find_column(
    name: str, results: Iterable[VerificationResult], questions: BenchmarkQuestions | None = None
) -> Column:
    """Return the column with this name: of all results, of the benchmark's `questions`, or reported by a stage.

    Raises `ConfigError` for a name that is none of these.
    """
    if name in _RESULT_COLUMNS:
        return _RESULT_COLUMNS[name]
    if questions is not None and name in questions.columns:
        of_questions = questions.columns[name]
        return lambda result: of_questions.get(result.question_id, ())
    reported = dict.fromkeys(key for one in results for values in one.extensions.values() for key in values)
    if name in reported:
        return lambda result: _as_values(next((own[name] for own in result.extensions.values() if name in own), None))
    known = [*_RESULT_COLUMNS, *(questions.columns if questions is not None else ()), *reported]
    more = "" if questions is not None else "; --benchmark FILE (in Python benchmark=) adds those of its questions"
    raise ConfigError([f"there is no column {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}{more}"])


def make_judge_namer(runs: Sequence[Iterable[VerificationResult]]) -> JudgeNamer:
    """Return a function that names the judge of a result by its model, and its id if a run has two with one model."""
    ids: dict[tuple[int, str], set[str]] = defaultdict(set)
    for place, results in enumerate(runs):
        for result in results:
            ids[place, result.metadata.parsing_model].add(result.metadata.parsing_id)
    if all(len(names) == 1 for names in ids.values()):
        return lambda result: result.metadata.parsing_model
    return lambda result: f"{result.metadata.parsing_id} ({result.metadata.parsing_model})"
