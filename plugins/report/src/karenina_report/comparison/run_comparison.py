"""Compare runs question by question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

import karenina_report.comparison.comparison_text  # noqa: F401 - it registers how a comparison is shown
from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_engine.cost.price_source import to_dollars
from karenina_engine.results.summary_text import percent
from karenina_report.benchmark_questions import BenchmarkQuestions, load_benchmark, read_benchmark_questions
from karenina_report.comparison.changes import find_changes
from karenina_report.comparison.comparison_result import ComparedRun, Comparison, Difference, Group, Pair
from karenina_report.comparison.paired_values import estimate_difference, pair_values
from karenina_report.comparison.pairing import Pairing, Results, pair_runs, read_undecided
from karenina_report.estimators.paired import adjust_by_holm
from karenina_report.registered_notes import Note, find_notes
from karenina_report.rules import Rules, find_missing_rules, find_rules
from karenina_report.run_notes import NotedRun
from karenina_report.runs import Run, Source, read_runs
from karenina_report.statistics.columns import Column, Units, assign_units, find_column, require_values
from karenina_report.statistics.conversations import count_faults, user_faults
from karenina_report.statistics.metrics import (
    NOT_JUDGED,
    Metric,
    check_scales,
    check_trait_names,
    find_unscaled,
    trait_metrics,
    verdict_metrics,
)

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_report.comparison.paired_values import PairedQuestion

LEAST_OF_A_GROUP: Final = 5
"""The number of statistical units, such as questions, that a group needs to get an interval."""


def compare(
    *sources: Source,
    baseline: int | str | None = None,
    by: str | None = None,
    cluster: str | None = None,
    model: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    benchmark: str | Path | Benchmark | None = None,
    any_judge: bool = False,
    any_template: bool = False,
) -> Comparison:
    """Compare runs from result files, journals, or results in memory, in all pairs or each with a `baseline`.
    Differences are A minus B. Raises `ConfigError` if they cannot be compared, and `ResultFileError`, `JournalError` or
    `BenchmarkFileError` if a file cannot be read.

    A run is the results of one answering model, so a source with several models is split. Use `model` to select one
    model by its id. All pairs are compared, unless a `baseline` is given as an index from 0, a label, a name or a path.
    Set `by` to a column to compare groups of questions. Questions with the same value in the column `cluster` (default:
    the question text) are one statistical unit. `cuts` maps traits to scores, and the shares of results at or above
    them are compared too. `scales` maps traits to their lowest and highest scores. `benchmark`, or its path, adds
    columns from question metadata, trait scales and field rules. Without it, the field rules are those of the benchmark
    that was run. With `any_judge`, judges and their prompts may differ. With `any_template`, a question's template,
    ground truth and text may differ.

    Runs cannot be compared if, for example, they have no judge or template in common. `ConfigError` is also raised if a
    baseline, column or trait is unknown.
    """
    runs = read_runs(sources, model)
    loaded = load_benchmark(benchmark) if benchmark is not None else None
    questions = read_benchmark_questions(loaded) if loaded is not None else None
    comparison = compare_runs(
        runs,
        baseline=baseline,
        by=by,
        cluster=cluster,
        cuts=cuts,
        scales=scales,
        questions=questions,
        rules=find_rules(sources, loaded),
        any_judge=any_judge,
        any_template=any_template,
    )
    noted = [
        NotedRun(
            *(run_label(number), run.model, Path(run.source) if run.source is not None else None), cluster, questions
        )
        for number, run in enumerate(runs)
    ]
    missing = (
        find_missing_rules(loaded, (result for run in runs for result in run.results)) if loaded is not None else ()
    )
    notes = [*(Note(name="Benchmark", text=text) for text in missing), *find_notes(noted)]
    return comparison.model_copy(update={"notes": notes})


def compare_runs(
    runs: Sequence[Run],
    *,
    baseline: int | str | None = None,
    by: str | None = None,
    cluster: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    questions: BenchmarkQuestions | None = None,
    rules: Rules | None = None,
    any_judge: bool = False,
    any_template: bool = False,
) -> Comparison:
    """Compare runs that have already been read. See `compare` for the options. Raises `ConfigError` for fewer than two
    runs, for an unknown baseline, column or trait, and for runs that cannot be compared.

    `questions` contains the benchmark's columns and trait scales, and `rules` its field rules.
    """
    if len(runs) < 2:
        raise ConfigError(
            [f"{runs[0].source or 'the result set'} contains only one answering model; specify a second run to compare"]
            if runs
            else ["specify two runs to compare"]
        )
    check_scales(scales or {})
    require_values([by, cluster], [result for run in runs for result in run.results], questions)
    labels = [run_label(number) for number in range(len(runs))]
    base = _baseline(baseline, runs, labels)
    all_scales = {**(questions.scales if questions is not None else {}), **(scales or {})}
    named = [*(cuts or {}), *(scales or {})]
    options = _Options(by, cluster, cuts or {}, all_scales, named, questions, rules or {}, any_judge, any_template)
    places = (
        combinations(range(len(runs)), 2) if base is None else [(at, base) for at in range(len(runs)) if at != base]
    )
    pairs = [_pair(runs[a], runs[b], labels[a], labels[b], options) for a, b in places]
    return Comparison(
        runs=[run_facts(run, label) for run, label in zip(runs, labels, strict=True)],
        pairs=_adjusted(pairs) if len(pairs) > 1 else pairs,
        baseline=labels[base] if base is not None else None,
        by=by,
    )


_TELLS_APART: Final = (
    "there are no groups by {by}, because no question has the same {by} in both runs; `karenina stats --by {by}` shows "
    "the groups of each run"
)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a comparison. `named` lists the traits in the given cuts and scales."""

    by: str | None
    cluster: str | None
    cuts: Mapping[str, float]
    scales: Mapping[str, tuple[float, float]]
    named: Sequence[str]
    questions: BenchmarkQuestions | None
    rules: Rules
    any_judge: bool
    any_template: bool


def run_label(number: int) -> str:
    """Return the letter of a run: A, B, ..., Z, A1, B1, ..."""
    turn, letter = divmod(number, 26)
    return chr(ord("A") + letter) + (str(turn) if turn else "")


def _baseline(baseline: int | str | None, runs: Sequence[Run], labels: Sequence[str]) -> int | None:
    """Return the index of the baseline, or None if `baseline` is None. A string is a run's path, label or name. Raises
    `ConfigError` if there is no such run, or if the string matches several.
    """
    if baseline is None:
        return None
    if isinstance(baseline, int):
        if 0 <= baseline < len(runs):
            return baseline
    else:
        for names in ([run.source for run in runs], labels, [run.name for run in runs]):
            if names.count(baseline) == 1:
                return names.index(baseline)
    choices = [*labels, *(run.name for run in runs)]
    several = any(run.source == baseline for run in runs)
    problem = f"{baseline} contains several runs" if several else f"there is no run named {baseline!r}"
    raise ConfigError([f"{problem}; the baseline must be one of {', '.join(choices)}"])


def run_facts(run: Run, label: str) -> ComparedRun:
    """Return a run's models, counts, tokens, time and cost for the comparison. An unknown cost of 0 becomes None."""
    usage, cost = run.usage, run.journal_info.cost
    has_cost = cost is not None and (cost.known or cost.cost > 0)
    return ComparedRun(
        label=label,
        name=run.name,
        source=run.source,
        model=run.model,
        answering_model=run.results[0].metadata.answering_model,
        judges=list(dict.fromkeys(result.metadata.parsing_model for result in run.results)),
        summary=run.summary,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=run.seconds,
        cost_usd=float(to_dollars(cost.cost)) if cost is not None and has_cost else None,
        cost_is_whole=cost is not None and cost.known,
        missing_cost=run.missing_cost,
        cost_is_shared=run.shares_journal,
    )


def _pair(a: Run, b: Run, label_a: str, label_b: str, options: _Options) -> Pair:
    """Compare two runs, which are called `label_a` and `label_b` in the result. Raises `ConfigError` if they cannot be
    compared.
    """
    pairing = pair_runs(a, b, any_judge=options.any_judge, any_template=options.any_template)
    everything = [result for pair in pairing.questions.values() for side in pair for result in side]
    units = assign_units(everything, options.cluster, options.questions)
    metrics = [*verdict_metrics(everything), *trait_metrics(everything, options.cuts, options.scales)]
    check_trait_names(everything, options.named)
    seen = {metric.name: pair_values(metric, pairing) for metric in metrics}
    differences = [
        estimate
        for metric in metrics
        if (estimate := estimate_difference(metric, seen[metric.name], units.of, same_answers=pairing.same_answers))
        is not None
    ]
    main = metrics[0]
    lowest, highest = (
        estimate_difference(main, pair_values(main, read), units.of, same_answers=pairing.same_answers)
        if (read := read_undecided(pairing, in_favor_of=run)) is not None
        else None
        for run in (1, 0)
    )
    groups = None
    if options.by is not None:
        groups = _groups(main, pairing, options.by, units, options.questions)
    changes = find_changes(pairing, seen, options.rules)
    undecided = [change.undecided for change in changes]
    return Pair(
        a=label_a,
        b=label_b,
        judges=pairing.judges,
        same_answers=pairing.same_answers,
        unit=units.name,
        notes=[
            *pairing.notes,
            *units.notes,
            *find_unscaled(everything, options.scales),
            *_share_notes(pairing, (label_a, label_b)),
            *([_TELLS_APART.format(by=options.by)] if options.by is not None and groups is None else []),
        ],
        only_a=pairing.only_a,
        only_b=pairing.only_b,
        changed=pairing.changed,
        unpaired=[question.id for question in seen[main.name] if not question.is_complete],
        differences=[
            difference for difference in differences if difference.metric != NOT_JUDGED or difference.a or difference.b
        ],
        lowest=lowest,
        highest=highest,
        by_judge=_by_judge(main, pairing, units),
        groups=groups or [],
        changes=changes,
        more_undecided=(undecided.count(-1), undecided.count(1)),
        rescored=[label for run, label in ((a, label_a), (b, label_b)) if run.rescored],
    )


def _share_notes(pairing: Pairing, labels: tuple[str, str]) -> list[str]:
    """Return a warning if the runs' shares of undecided results differ, and one if those of results with a simulated
    user at fault differ.

    Such results are not part of any pass rate, so a model that causes more of them may look better than it is.
    """
    sides = [[result for pair in pairing.questions.values() for result in pair[side]] for side in (0, 1)]
    notes = []
    for state, counts in (
        ("are undecided", [sum(result.outcome is Outcome.UNDECIDED for result in side) for side in sides]),
        ("have a simulated user at fault", [count_faults(user_faults(side)) for side in sides]),
    ):
        shares = [count / len(side) if side else 0.0 for count, side in zip(counts, sides, strict=True)]
        shown = " and ".join(
            f"{count:,} of {len(side):,} results of {label} ({percent(share)})"
            for count, side, label, share in zip(counts, sides, labels, shares, strict=True)
        )
        if shares[0] != shares[1]:
            notes.append(
                f"warning: {shown} {state} and are not counted in any pass rate, so the run with more of them may look "
                "better than it is"
            )
    return notes


def _by_judge(main: Metric, pairing: Pairing, units: Units) -> dict[str, Difference]:
    """Return the difference in pass rates by each judge alone, or nothing for one judge or different judges."""
    if len(pairing.judges) < 2 or not pairing.same_judges:
        return {}
    by_judge = {}
    for judge in pairing.judges:
        estimate = estimate_difference(
            main, pair_values(main, pairing, [judge]), units.of, same_answers=pairing.same_answers
        )
        if estimate is not None:
            by_judge[judge] = estimate
    return by_judge


def _groups(
    main: Metric, pairing: Pairing, by: str, units: Units, questions: BenchmarkQuestions | None
) -> list[Group] | None:
    """Compare the questions with each value of the column `by`, sorted by value. If results of one question in one run
    have different values, as for replicates and judges, only the results with the value are compared. Values without a
    question that has a verdict in both runs are skipped. Returns None if no question has a value that is the same in
    both runs, although each run has values, as for different answering models. Raises `ConfigError` for an unknown
    column.
    """
    values = find_column(
        by, [result for pair in pairing.questions.values() for side in pair for result in side], questions
    )
    sides = [
        tuple({value for result in side for value in values(result)} for side in pair)
        for pair in pairing.questions.values()
    ]
    if any(a and b for a, b in sides) and not any(a & b for a, b in sides):
        return None
    ids: dict[str, list[str]] = defaultdict(list)
    for id, (ours, theirs) in pairing.questions.items():
        for value in dict.fromkeys(value for result in [*ours, *theirs] for value in values(result)):
            ids[value].append(id)
    differ = any(len(set(map(values, side))) > 1 for pair in pairing.questions.values() for side in pair)
    groups = []
    for value in sorted(ids):
        members = {id: pairing.questions[id] for id in ids[value]}
        if differ:
            members = {id: _results_with(value, values, pair) for id, pair in members.items()}
        group = _group(value, pair_values(main, replace(pairing, questions=members)), main, units)
        if group is not None:
            groups.append(group)
    return groups


def _results_with(value: str, values: Column, pair: tuple[Results, Results]) -> tuple[Results, Results]:
    """Return the results of both runs that have a value in a column."""
    a, b = ([result for result in side if value in values(result)] for side in pair)
    return a, b


def _group(value: str, questions: Sequence[PairedQuestion], main: Metric, units: Units) -> Group | None:
    """Return a group's pass rates and their difference, or None if no question has a verdict in both runs. A group of
    fewer than `LEAST_OF_A_GROUP` statistical units, which are usually questions, gets no interval.
    """
    difference = estimate_difference(main, questions, units.of)
    if difference is None:
        return None
    enough = difference.units >= LEAST_OF_A_GROUP
    return Group(
        value=value,
        questions=difference.questions,
        units=difference.units,
        a=difference.a,
        b=difference.b,
        difference=difference.difference,
        low=difference.low if enough else None,
        high=difference.high if enough else None,
    )


def _adjusted(pairs: Sequence[Pair]) -> list[Pair]:
    """Return copies of the pairs in which `p_adjusted` is each metric's p value, corrected for the number of pairs."""
    p_values: dict[str, dict[int, float]] = defaultdict(dict)
    for at, pair in enumerate(pairs):
        for difference in pair.differences:
            p_values[difference.metric][at] = difference.p
    adjusted = {
        metric: dict(zip(by_pair, adjust_by_holm(list(by_pair.values())), strict=True))
        for metric, by_pair in p_values.items()
    }
    return [
        pair.model_copy(
            update={
                "differences": [
                    difference.model_copy(update={"p_adjusted": adjusted[difference.metric][at]})
                    for difference in pair.differences
                ]
            }
        )
        for at, pair in enumerate(pairs)
    ]
