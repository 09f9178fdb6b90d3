"""Statistics for single runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations, product
from statistics import fmean
from typing import TYPE_CHECKING, Final

import karenina_report.statistics.statistics_text  # noqa: F401 - it registers how statistics are shown
from karenina_engine.results.aggregate import has_verdict, is_unjudged
from karenina_engine.results.rates import pass_rate
from karenina_report.benchmark_questions import (
    BenchmarkQuestions,
    find_absent,
    load_benchmark,
    read_benchmark_questions,
)
from karenina_report.estimators.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, raw_agreement
from karenina_report.estimators.variance_components import estimate_components, mean_interval, pass_at_k, pass_hat_k
from karenina_report.journal_notes import describe_journal
from karenina_report.runs import Run, Source, read_runs
from karenina_report.statistics.columns import Units, assign_units, find_column, make_judge_namer, require_values
from karenina_report.statistics.conversations import reasons_for_ends, turn_rates, user_faults
from karenina_report.statistics.metrics import (
    PARTIAL_CREDIT,
    as_fraction,
    check_scales,
    check_trait_names,
    find_unscaled,
    trait_metrics,
    verdict,
    verdict_metrics,
)
from karenina_report.statistics.statistics_result import (
    Agreement,
    GroupRate,
    Mean,
    PassAtK,
    RunStatistics,
    Variance,
    as_coefficient,
)

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.rates import Rate
    from karenina_report.statistics.columns import JudgeNamer

MAX_K: Final = 10
"""The largest k for pass@k and pass^k."""

Answer = tuple[str, int]
"""The question id and replicate of a model's answer."""


def describe(
    *sources: Source,
    by: str | None = None,
    cluster: str | None = None,
    model: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    benchmark: str | Path | Benchmark | None = None,
) -> list[RunStatistics]:
    """Return statistics for each run in result files, journals, or results in memory. Raises `ConfigError` if a source
    has no results, or if a column or trait is unknown, and `ResultFileError`, `JournalError` or `BenchmarkFileError` if
    a file cannot be read.

    A run is the results of one answering model. Use `model` to select one model by its id. Set `by` to a column to
    group pass rates. Questions with the same value in the column `cluster` (default: the question text) are one
    statistical unit. `cuts`, `scales` and `benchmark` are the same as for `karenina.compare`.
    """
    runs = read_runs(sources, model)
    loaded = load_benchmark(benchmark) if benchmark is not None else None
    questions = read_benchmark_questions(loaded) if loaded is not None else None
    described = describe_runs(runs, by=by, cluster=cluster, cuts=cuts, scales=scales, questions=questions)
    found = []
    for statistics, run in zip(described, runs, strict=True):
        absent = find_absent(loaded, run.results) if loaded is not None else []
        notes = [*statistics.notes, *describe_journal(run), *absent]
        found.append(statistics.model_copy(update={"notes": notes}))
    return found


def describe_runs(
    runs: Sequence[Run],
    *,
    by: str | None = None,
    cluster: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    questions: BenchmarkQuestions | None = None,
) -> list[RunStatistics]:
    """Return statistics for runs that have already been read, without notes from their journals. See `describe` for the
    options. Raises `ConfigError` for an unknown column or trait, and for a column without values.
    """
    results = [result for run in runs for result in run.results]
    check_scales(scales or {})
    check_trait_names(results, [*(cuts or {}), *(scales or {})])
    require_values([by, cluster], results, questions)
    all_scales = {**(questions.scales if questions is not None else {}), **(scales or {})}
    return [_describe_run(run, by, cluster, cuts or {}, all_scales, questions) for run in runs]


def _describe_run(
    run: Run,
    by: str | None,
    cluster: str | None,
    cuts: Mapping[str, float],
    scales: Mapping[str, tuple[float, float]],
    questions: BenchmarkQuestions | None,
) -> RunStatistics:
    """Return the statistics for one run: rates for each value of the column `by`, intervals in units of `cluster`, and
    means with `cuts` and `scales` by trait. Raises `ConfigError` for an unknown column.
    """
    units = assign_units(run.results, cluster, questions)
    judge_name = make_judge_namer([run.results])
    verdicts = _verdicts(run.results, judge_name)
    rated = {answer: by_judge for answer, by_judge in verdicts.items() if len(by_judge) > 1}
    judges = list(dict.fromkeys(judge_name(result) for result in run.results))
    groups = group_rates(run.results, by, units, judge_name, questions) if by is not None else []
    empty = [f"no result of this run has a value in the column {by!r}"] if by is not None and not groups else []
    return RunStatistics(
        name=run.name,
        source=run.source,
        answering_model=run.results[0].metadata.answering_model,
        judges=judges,
        unit=units.name,
        notes=[
            *units.notes,
            *empty,
            *find_unscaled(run.results, scales),
        ],
        summary=run.summary,
        pass_rate=rate_in_units(run.results, units) if len(judges) < 2 else None,
        by_judge={judge: rate_in_units(own, units) for judge, own in _by_judge(run.results, judge_name).items()},
        means=list(_means(run.results, units, judge_name, cuts, scales)),
        by=by,
        groups=groups,
        turns=list(turn_rates(run.results, units, judge_name)),
        conversations_ended=reasons_for_ends(run.results),
        user_faults=user_faults(run.results),
        draws=list(_draws(verdicts, {result.question_id for result in run.results if _needs_verdict(result)})),
        variance=_variance(verdicts, judges),
        agreement=[
            agreement for pair in combinations(judges, 2) if (agreement := _agreement(rated, pair, units)) is not None
        ],
        fleiss=as_coefficient(fleiss_kappa(*_ratings(rated, judges, units))) if len(judges) > 1 else None,
        krippendorff=as_coefficient(krippendorff_alpha(*_ratings(rated, judges, units))) if len(judges) > 1 else None,
    )


def _verdicts(results: Sequence[VerificationResult], judge_name: JudgeNamer) -> dict[Answer, dict[str, bool]]:
    """Return the verdicts by answer, a pair of question and replicate, and then by judge. Results without a verdict are
    skipped.
    """
    verdicts: dict[Answer, dict[str, bool]] = defaultdict(dict)
    for result in results:
        value = verdict(result)
        if value is not None:
            verdicts[result.question_id, result.metadata.replicate or 1][judge_name(result)] = bool(value)
    return verdicts


def rate_in_units(results: Sequence[VerificationResult], units: Units) -> Rate:
    """Return the pass rate, with an interval that accounts for correlation within units."""
    rated = (result for result in results if has_verdict(result) or not result.outcome.has_verdict)
    return pass_rate((units.of(result.question_id), result.outcome) for result in rated)


def _by_judge(
    results: Iterable[VerificationResult], judge_name: JudgeNamer
) -> Mapping[str, Sequence[VerificationResult]]:
    """Return the results of each judge, in order of occurrence."""
    by_judge: dict[str, list[VerificationResult]] = defaultdict(list)
    for result in results:
        by_judge[judge_name(result)].append(result)
    return by_judge


def _means(
    results: Sequence[VerificationResult],
    units: Units,
    judge_name: JudgeNamer,
    cuts: Mapping[str, float],
    scales: Mapping[str, tuple[float, float]],
) -> Iterator[Mean]:
    """Yield each judge's mean of partial credit, and of each metric of a trait, by `cuts` and `scales`, with its
    interval, in which each question belongs to one of the `units`. Metrics without values are skipped.
    """
    by_judge = _by_judge(results, judge_name)
    partial = [candidate for candidate in verdict_metrics(results) if candidate.name == PARTIAL_CREDIT]
    metrics = (*partial, *trait_metrics(results, cuts, scales))
    for metric, (judge, own) in product(metrics, by_judge.items()):
        values = [
            (units.of(result.question_id), as_fraction(value))
            for result in own
            if (value := metric.value(result)) is not None
        ]
        if values:
            value, low, high = mean_interval(values)
            yield Mean(
                metric=metric.name,
                judge=judge,
                note=metric.note,
                results=len(values),
                missing=sum(
                    metric.value(result) is None and metric.missing(result)
                    for result in own
                    if metric.questions is None or result.question_id in metric.questions
                ),
                units=len({unit for unit, _ in values}),
                value=value,
                low=low,
                high=high,
            )


def group_rates(
    results: Sequence[VerificationResult],
    by: str,
    units: Units,
    judge_name: JudgeNamer,
    questions: BenchmarkQuestions | None = None,
) -> list[GroupRate]:
    """Return each judge's pass rate for each value in the column `by`, sorted by value. A result with several values
    counts for each of them, and one without a value is not counted. Raises `ConfigError` if there is no such column.
    """
    values = find_column(by, results, questions)
    by_value: dict[str, list[VerificationResult]] = defaultdict(list)
    for result in results:
        for value in values(result):
            by_value[value].append(result)
    return [
        GroupRate(value=value, judge=judge, rate=rate_in_units(own, units), not_judged=sum(map(is_unjudged, own)))
        for value in sorted(by_value)
        for judge, own in _by_judge(by_value[value], judge_name).items()
    ]


def _needs_verdict(result: VerificationResult) -> bool:
    """Return whether the result has a verdict or should have one."""
    return has_verdict(result) or is_unjudged(result)


def _draws(verdicts: Mapping[Answer, Mapping[str, bool]], questions: Set[str]) -> Iterator[PassAtK]:
    """Yield pass@k and pass^k for each k up to `MAX_K`, averaged over judges and then over questions with at least k
    judged replicates. The other `questions` are counted as left out. Nothing is yielded if no question has several
    judged replicates.
    """
    of_question: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for (question, _), by_judge in verdicts.items():
        for judge, right in by_judge.items():
            of_question[question][judge].append(right)
    most = max((len(some) for judges in of_question.values() for some in judges.values()), default=0)
    for k in range(1, min(most, MAX_K) + 1) if most > 1 else ():
        enough = [[some for some in judges.values() if len(some) >= k] for judges in of_question.values()]
        drawn = [[(sum(some), len(some)) for some in judges] for judges in enough if judges]
        yield PassAtK(
            k=k,
            any_right=fmean(fmean(pass_at_k(right, n, k) for right, n in question) for question in drawn),
            all_right=fmean(fmean(pass_hat_k(right, n, k) for right, n in question) for question in drawn),
            questions=len(drawn),
            left_out=len(questions) - len(drawn),
        )


def _variance(verdicts: Mapping[Answer, Mapping[str, bool]], judges: Sequence[str]) -> Variance | None:
    """Estimate variance components over the questions for which all judges judged all replicates, or return None. It
    returns None for fewer than two such questions, or for one judge and one replicate.
    """
    replicates = sorted({replicate for _, replicate in verdicts})
    questions = dict.fromkeys(question for question, _ in verdicts)
    cells = [
        [[float(verdicts[question, replicate][judge]) for replicate in replicates] for judge in judges]
        for question in questions
        if all(judge in verdicts.get((question, replicate), ()) for replicate in replicates for judge in judges)
    ]
    components = estimate_components(cells)
    if components is None:
        return None
    return Variance(
        questions=len(cells),
        judges=len(judges),
        replicates=len(replicates),
        shares=components.shares,
        unknown=components.unknown,
    )


def _agreement(rated: Mapping[Answer, Mapping[str, bool]], judges: tuple[str, str], units: Units) -> Agreement | None:
    """Return the agreement between two judges, or None if they judged no answer in common."""
    a, b = judges
    both = [(answer, by_judge[a], by_judge[b]) for answer, by_judge in rated.items() if a in by_judge and b in by_judge]
    if not both:
        return None
    item_units = [units.of(answer[0]) for answer, _, _ in both]
    pairs = [(one, other) for _, one, other in both]
    return Agreement(
        a=a,
        b=b,
        raw=raw_agreement(item_units, pairs),
        correct_by_a=fmean(correct for correct, _ in pairs),
        correct_by_b=fmean(other for _, other in pairs),
        kappa=as_coefficient(cohen_kappa(item_units, pairs)),
    )


def _ratings(
    rated: Mapping[Answer, Mapping[str, bool]], judges: Sequence[str], units: Units
) -> tuple[list[Hashable], list[list[bool | None]]]:
    """Return the unit of each answer, and a list with each answer's verdicts in the order of `judges`. A missing
    verdict is None.
    """
    return (
        [units.of(question) for question, _ in rated],
        [[by_judge.get(judge) for judge in judges] for by_judge in rated.values()],
    )
