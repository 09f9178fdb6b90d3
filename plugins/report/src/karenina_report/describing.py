"""`describe`: statistics of runs, each by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Final

from karenina_engine.results.summary import Clusters
from karenina_report.clusters import Units, units_of
from karenina_report.columns import column
from karenina_report.description import Agreement, Coefficient, Description, Draws, Mean, RateOf, Variance
from karenina_report.figures.agreement import Kappa, cohen, fleiss, krippendorff, raw_agreement
from karenina_report.figures.mean import mean_interval
from karenina_report.figures.replicates import pass_all, pass_at
from karenina_report.figures.variance import variances
from karenina_report.judges import judge_names
from karenina_report.metrics import PARTIAL_CREDIT, unjudged, verdict, verdict_metrics
from karenina_report.observed import exact
from karenina_report.questions import Questions, read_questions
from karenina_report.runs import Run, Source, read_runs
from karenina_report.traits import check_traits, trait_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.summary import Rate
    from karenina_report.judges import JudgeName

MOST_DRAWS: Final = 10
"""The largest k of pass@k and pass^k."""

Answer = tuple[str, int]
"""A question and a replicate, which name one answer of a model."""


def describe(
    *sources: Source,
    by: str | None = None,
    cluster: str | None = None,
    model: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    benchmark: str | Path | Benchmark | None = None,
) -> list[Description]:
    """Return statistics of each run in result files, journals, or results in memory.

    A run is one answering model's results; `model` chooses one by its id. `by` names a column whose values have pass
    rates of their own; `cluster` one whose equal values make questions alike, by default the question's text. `cuts`,
    `scales` and `benchmark` are as in `karenina.compare`. Raises `ConfigError`, `ResultFileError` and `JournalError`.
    """
    runs = read_runs(sources, model)
    check_traits([one for run in runs for one in run.results], [*(cuts or {}), *(scales or {})])
    questions = read_questions(benchmark) if benchmark is not None else None
    known = {**(questions.scales if questions is not None else {}), **(scales or {})}
    return [_description(run, by, cluster, cuts or {}, known, questions) for run in runs]


def _description(
    run: Run,
    by: str | None,
    cluster: str | None,
    cuts: Mapping[str, float],
    scales: Mapping[str, tuple[float, float]],
    questions: Questions | None,
) -> Description:
    units = units_of(run.results, cluster, questions)
    judge_of = judge_names([run.results])
    verdicts = _verdicts(run.results, judge_of)
    rated = {answer: found for answer, found in verdicts.items() if len(found) > 1}
    judges = list(dict.fromkeys(judge_of(one) for one in run.results))
    return Description(
        name=run.name,
        source=run.source,
        answering_model=run.results[0].metadata.answering_model,
        judges=judges,
        unit=units.name,
        notes=units.notes,
        summary=run.summary,
        pass_rate=_rate(run.results, units),
        means=list(_means(run.results, units, cuts, scales)),
        by=by,
        groups=_groups(run.results, by, units, questions) if by is not None else [],
        draws=list(_draws(verdicts)),
        variance=_variance(verdicts, judges),
        agreement=[one for pair in combinations(judges, 2) if (one := _agreement(rated, pair, units)) is not None],
        fleiss=_coefficient(fleiss(*_ratings(rated, judges, units))) if len(judges) > 1 else None,
        krippendorff=_coefficient(krippendorff(*_ratings(rated, judges, units))) if len(judges) > 1 else None,
    )


def _verdicts(results: Sequence[VerificationResult], judge_of: JudgeName) -> dict[Answer, dict[str, bool]]:
    """Return the verdicts on each answer, by judge."""
    found: dict[Answer, dict[str, bool]] = defaultdict(dict)
    for result in results:
        value = verdict(result)
        if value is not None:
            found[result.question_id, result.metadata.replicate or 1][judge_of(result)] = bool(value)
    return found


def _rate(results: Sequence[VerificationResult], units: Units) -> Rate:
    counted = Clusters()
    for result in results:
        value = verdict(result)
        if value is not None:
            counted.add(units.of(result.question_id), hit=bool(value))
    return counted.rate()


def _means(
    results: Sequence[VerificationResult],
    units: Units,
    cuts: Mapping[str, float],
    scales: Mapping[str, tuple[float, float]],
) -> Iterator[Mean]:
    partial = [one for one in verdict_metrics(results) if one.name == PARTIAL_CREDIT]
    for metric in (*partial, *trait_metrics(results, cuts, scales)):
        values = [
            (units.of(one.question_id), exact(value)) for one in results if (value := metric.value(one)) is not None
        ]
        if values:
            value, low, high = mean_interval(values)
            yield Mean(
                metric=metric.name,
                note=metric.note,
                results=len(values),
                missing=sum(
                    metric.value(one) is None and metric.missing(one)
                    for one in results
                    if metric.questions is None or one.question_id in metric.questions
                ),
                units=len({unit for unit, _ in values}),
                value=value,
                low=low,
                high=high,
            )


def _groups(results: Sequence[VerificationResult], by: str, units: Units, questions: Questions | None) -> list[RateOf]:
    values = column(by, results, questions)
    found: dict[str, list[VerificationResult]] = defaultdict(list)
    for result in results:
        for value in values(result):
            found[value].append(result)
    return [
        RateOf(value=value, rate=_rate(found[value], units), not_judged=sum(map(unjudged, found[value])))
        for value in sorted(found)
    ]


def _draws(verdicts: Mapping[Answer, Mapping[str, bool]]) -> Iterator[Draws]:
    """Return pass@k and pass^k, each judge by itself and then the mean over judges."""
    of_question: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for (question, _), by_judge in verdicts.items():
        for judge, right in by_judge.items():
            of_question[question][judge].append(right)
    most = max((len(some) for judges in of_question.values() for some in judges.values()), default=0)
    for k in range(1, min(most, MOST_DRAWS) + 1) if most > 1 else ():
        enough = [[some for some in judges.values() if len(some) >= k] for judges in of_question.values()]
        drawn = [[(sum(some), len(some)) for some in judges] for judges in enough if judges]
        yield Draws(
            k=k,
            any_right=fmean(fmean(pass_at(right, n, k) for right, n in question) for question in drawn),
            all_right=fmean(fmean(pass_all(right, n, k) for right, n in question) for question in drawn),
            questions=len(drawn),
            left_out=len(of_question) - len(drawn),
        )


def _variance(verdicts: Mapping[Answer, Mapping[str, bool]], judges: Sequence[str]) -> Variance | None:
    """Return the components of variance over the questions that have every replicate judged by every judge."""
    replicates = sorted({replicate for _, replicate in verdicts})
    questions = dict.fromkeys(question for question, _ in verdicts)
    cells = [
        [[float(verdicts[question, replicate][judge]) for replicate in replicates] for judge in judges]
        for question in questions
        if all(judge in verdicts.get((question, replicate), ()) for replicate in replicates for judge in judges)
    ]
    found = variances(cells)
    if found is None:
        return None
    return Variance(
        questions=len(cells),
        judges=len(judges),
        replicates=len(replicates),
        shares=found.shares,
        unknown=found.unknown,
    )


def _agreement(rated: Mapping[Answer, Mapping[str, bool]], judges: tuple[str, str], units: Units) -> Agreement | None:
    a, b = judges
    both = [(answer, found[a], found[b]) for answer, found in rated.items() if a in found and b in found]
    if not both:
        return None
    of_items = [units.of(answer[0]) for answer, _, _ in both]
    pairs = [(one, other) for _, one, other in both]
    return Agreement(
        a=a,
        b=b,
        raw=raw_agreement(of_items, pairs),
        correct_by_a=fmean(one for one, _ in pairs),
        correct_by_b=fmean(other for _, other in pairs),
        kappa=_coefficient(cohen(of_items, pairs)),
    )


def _ratings(
    rated: Mapping[Answer, Mapping[str, bool]], judges: Sequence[str], units: Units
) -> tuple[list[Hashable], list[list[bool | None]]]:
    return (
        [units.of(question) for question, _ in rated],
        [[found.get(judge) for judge in judges] for found in rated.values()],
    )


def _coefficient(found: Kappa | None) -> Coefficient | None:
    return Coefficient(value=found.value, low=found.low, high=found.high) if found is not None else None
