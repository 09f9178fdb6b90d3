"""Columns that group results, judge names, and statistical units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_core.text import compose, did_you_mean
from karenina_engine.results.question_units import unit_of_result
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.benchmark_questions import BenchmarkQuestions

    JudgeNamer = Callable[[VerificationResult], str]


KEYWORD: Final = "keyword"
QUESTION_ID: Final = "question_id"
_QUESTION_TEXT: Final = "question_text"
NO_JUDGE: Final = "no judge"
"""The judge name for results without a judge."""
_ANSWER_USAGE: Final = ("answer_generation", "total")
"""The entries of a result's usage that are not about judges."""

Column = Callable[["VerificationResult"], tuple[str, ...]]
"""A function that returns a result's values in a column. There may be none, one or several."""


def _as_values(value: object) -> tuple[str, ...]:
    """Return a value as a tuple with one string, or an empty tuple for None and ""."""
    return () if value is None or value == "" else (str(value),)


_RESULT_COLUMNS: Final[Mapping[str, Column]] = {
    KEYWORD: lambda result: tuple(map(compose, result.metadata.keywords or ())),
    QUESTION_ID: lambda result: _as_values(result.question_id),
    _QUESTION_TEXT: lambda result: _as_values(result.metadata.question_text),
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
    """Return a function that returns the values of a result in the column `name`, as a tuple of strings. Built-in
    columns come first, then those of the benchmark's `questions`, then those reported by stages; but keywords come from
    the benchmark if it has any. Raises `ConfigError` if there is no such column.
    """
    if name == KEYWORD and questions is not None and KEYWORD in questions.columns:
        of_benchmark, of_run = questions.columns[KEYWORD], _RESULT_COLUMNS[KEYWORD]
        return lambda result: of_benchmark.get(result.question_id) or of_run(result)
    if name in _RESULT_COLUMNS:
        return _RESULT_COLUMNS[name]
    if questions is not None and name in questions.columns:
        of_questions = questions.columns[name]
        return lambda result: of_questions.get(result.question_id, ())
    reported = _reported(results)
    if name in reported:
        return lambda result: _as_values(next((own[name] for own in result.extensions.values() if name in own), None))
    names = list(dict.fromkeys([*_RESULT_COLUMNS, *(questions.columns if questions is not None else ()), *reported]))
    more = (
        "" if questions is not None else "; --benchmark FILE (`benchmark=` in Python) adds the columns of its questions"
    )
    raise ConfigError(
        [f"there is no column {name!r}; the columns are {', '.join(names)}{more}{did_you_mean(name, names, '')}"]
    )


def column_names(results: Iterable[VerificationResult]) -> list[str]:
    """Return the names of the built-in columns and of those that stages report in `results`."""
    return [*_RESULT_COLUMNS, *_reported(results)]


def _reported(results: Iterable[VerificationResult]) -> dict[str, None]:
    """Return the fields that stages report in `results`, in order, as the keys of a dictionary."""
    return dict.fromkeys(key for item in results for values in item.extensions.values() for key in values)


def require_values(
    names: Iterable[str | None], results: Sequence[VerificationResult], questions: BenchmarkQuestions | None
) -> None:
    """Raise `ConfigError` if a column in `names` does not exist or is empty in all results. None is skipped."""
    for name in names:
        if name is None or any(map(find_column(name, results, questions), results)):
            continue
        if name != KEYWORD:
            raise ConfigError([f"no result has a value in the column {name!r}; choose another column"])
        more = (
            ", and neither does the benchmark: set `keywords` in its questions, or for a table"
            if questions is not None
            else "; specify a benchmark with keywords: --benchmark FILE (`benchmark=` in Python), and for a table"
        )
        raise ConfigError([f"no result has a keyword{more} --columns keywords=COLUMN"])


def make_judge_namer(runs: Sequence[Iterable[VerificationResult]]) -> JudgeNamer:
    """Return a function that names a result's judge by its model, with its id if judges share a model, or by `NO_JUDGE`
    if no judge was called.

    Results without a judge are stored with their answering model as the judge.
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
        """Return the judge's name, or `NO_JUDGE` if no judge was called."""
        meta = result.metadata
        if meta.parsing_id not in called:
            return NO_JUDGE
        return meta.parsing_model if by_model else f"{meta.parsing_id} ({meta.parsing_model})"

    return name


def _calls_judge(result: VerificationResult) -> bool:
    """Return whether another model, or the answering model itself, was called as a judge."""
    meta, usage = result.metadata, result.template.usage_metadata or {}
    if meta.parsing_id != meta.answering_id or meta.parsing != meta.answering:
        return True
    return any(name not in _ANSWER_USAGE and counts.get("calls") for name, counts in usage.items())


@dataclass(frozen=True, slots=True)
class Units:
    """The statistical unit of each question.

    `name` is the kind of unit, and `notes` are for the reader.
    """

    name: str
    by_question: Mapping[str, Hashable]
    notes: Sequence[str]

    def of(self, question_id: str) -> Hashable:
        """Return the question's unit. Raises `KeyError` for a question without results."""
        return self.by_question[question_id]

    def of_result(self, result: VerificationResult) -> Hashable:
        """Return the unit of a result's question. Raises `KeyError` for a question without results."""
        return self.of(result.question_id)


def assign_units(
    results: Iterable[VerificationResult], cluster: str | None, questions: BenchmarkQuestions | None = None
) -> Units:
    """Assign questions to statistical units by their value in the column `cluster`, or by default by their text (see
    `unit_of_result`). A question without a value is a unit by itself. Raises `ConfigError` for an unknown column.

    The column may be one of the benchmark's `questions`. If questions share a text, a note says so.
    """
    first: dict[str, VerificationResult] = {}
    units: dict[str, Hashable] = {}
    for result in results:
        first.setdefault(result.question_id, result)
        if cluster is None and units.get(result.question_id) != result.question_id:
            units[result.question_id] = unit_of_result(result)  # only those with an answer state the attached files
    if cluster is not None:
        values = find_column(cluster, first.values(), questions)
        for id, result in first.items():
            value = " ".join(" ".join(values(result)).split())
            units[id] = ("unit", value) if value else ("question", id)
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for id, unit in units.items():
        groups[unit].append(id)
    alike = [ids for ids in groups.values() if len(ids) > 1]
    if not alike:
        return Units("question", units, ())
    if cluster is not None:
        return Units(cluster, units, ())
    note = (
        f"{sum(map(len, alike))} questions have the same text as another question and count as one unit per text "
        f"({quantity(len(groups), 'unit')}); --cluster {QUESTION_ID} counts each question separately"
    )
    return Units("text", units, (note,))
