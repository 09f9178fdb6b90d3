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

NO_JUDGE: Final = "no judge"
"""The judge name for results without a judge."""
_ANSWER_USAGE: Final = ("answer_generation", "total")
"""The entries of a result's usage that are not about a judge."""

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
    """Return the column with this name: built in, of the benchmark's `questions`, or reported by a stage.

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
    """Return a function that names the judge of a result by its model, or by id and model if judges share a model.

    Results without a judge, which are stored as judged by their answering model, have the judge `NO_JUDGE`.
    """
    ids: dict[tuple[int, str], set[str]] = defaultdict(set)
    called: set[str] = set()
    for place, results in enumerate(runs):
        for result in results:
            ids[place, result.metadata.parsing_model].add(result.metadata.parsing_id)
            if _calls_judge(result):
                called.add(result.metadata.parsing_id)
    by_model = all(len(names) == 1 for names in ids.values())

    def name(result: VerificationResult) -> str:
        meta = result.metadata
        if meta.parsing_id not in called:
            return NO_JUDGE
        return meta.parsing_model if by_model else f"{meta.parsing_id} ({meta.parsing_model})"

    return name


def _calls_judge(result: VerificationResult) -> bool:
    """Return whether the result has a judge: another model, or its answering model, called for more than the answer."""
    meta, usage = result.metadata, result.template.usage_metadata or {}
    if meta.parsing_id != meta.answering_id or meta.parsing != meta.answering:
        return True
    return any(name not in _ANSWER_USAGE and one.get("calls") for name, one in usage.items())
