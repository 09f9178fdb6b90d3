"""The printed form of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from karenina_engine.cost.price_source import format_cost, to_picodollars
from karenina_engine.results.summary_text import percent, seconds_text, short_number
from karenina_report.comparison.comparison_result import (
    Change,
    ComparedRun,
    Comparison,
    Difference,
    FieldValues,
    Group,
    Pair,
)
from karenina_report.comparison.pairing import ASKED
from karenina_report.estimators.paired import LEAST_FLIPS
from karenina_report.statistics.metrics import RATE
from karenina_terminal.notebook_html import sections_of
from karenina_terminal.text_layout import Block, Facts, Grid, Section, Title
from karenina_toolkit.printable import in_one_line, quantity, shorten

if TYPE_CHECKING:
    from karenina_engine.results.aggregate import GroupSummary

_FEW: Final = 20
"""Intervals over fewer units than this are called rough."""
_MOST_NAMES: Final = 5
_MOST_OF_A_QUESTION: Final = 300
_MOST_OF_A_VALUE: Final = 120


@sections_of.register(Comparison)
def comparison_sections(comparison: Comparison, most_changes: int = 5) -> Iterator[Section]:
    """Yield the printed sections of a comparison, with up to `most_changes` changes of each kind."""
    yield [Facts([(run.label, _run_name(run)) for run in comparison.runs])]
    missing = [
        ("Cost", in_one_line(f"of {run.label}: {run.missing_cost}")) for run in comparison.runs if run.missing_cost
    ]
    yield [Grid(_run_table(comparison.runs)), *([Facts(missing)] if missing else [])]
    if comparison.notes:
        yield [Facts([(in_one_line(note.name), in_one_line(note.text)) for note in comparison.notes])]
    rates = {run.label: run.summary.groups for run in comparison.runs}
    for pair in comparison.pairs:
        yield from _pair_sections(pair, rates, most_changes)
    if len(comparison.pairs) > 1:
        yield [Facts([("Note", _several_pairs_text(comparison))])]


def _run_name(run: ComparedRun) -> str:
    """Return a run's name, answering model, judges and file in one line, without repetition."""
    parts = [run.name, run.answering_model, f"judged by {', '.join(run.judges)}"]
    return in_one_line(", ".join([*dict.fromkeys(parts), *([run.source] if run.source is not None else [])]))


def _run_table(runs: Sequence[ComparedRun]) -> list[list[str]]:
    """Return the rows of the table of runs. Undecided items have rows only if there are any."""
    undecided = any(run.summary.undecided for run in runs)
    return [
        ["", *(run.label for run in runs)],
        *_rate_rows(runs, undecided=undecided),
        *([["Undecided", *(f"{run.summary.undecided:,}" for run in runs)]] if undecided else []),
        ["Items", *(f"{run.summary.items:,}" for run in runs)],
        ["Not judged", *(f"{run.summary.not_judged:,}" for run in runs)],
        ["Calls", *(f"{run.calls:,}" for run in runs)],
        ["Tokens in", *(_tokens(run, run.input_tokens) for run in runs)],
        ["Tokens out", *(_tokens(run, run.output_tokens) for run in runs)],
        ["Seconds per item", *(seconds_text(run.seconds / run.summary.items) for run in runs)],
        ["Cost", *(_cost(run) for run in runs)],
    ]


def _tokens(run: ComparedRun, count: int) -> str:
    """Return the count as text, or "-" if the run has calls, but no server reported such tokens."""
    return f"{count:,}" if count or not run.calls else "-"


def _rate_rows(runs: Sequence[ComparedRun], *, undecided: bool) -> Iterator[list[str]]:
    """Yield a row of pass rates, or one per judge if there are several judges. With `undecided`, a second row shows the
    pass rates with undecided results counted as wrong.
    """
    several = any(len(run.summary.groups) > 1 for run in runs)
    judges = dict.fromkeys(group.judge for run in runs for group in run.summary.groups) if several else [None]
    for judge in judges:
        rates = [
            next((group.pass_rate for group in run.summary.groups if judge in (None, group.judge)), None)
            for run in runs
        ]
        name = "Pass rate, all" if judge is None else f"Pass rate, {in_one_line(judge)}"
        yield [name, *("-" if rate is None else percent(rate.value) for rate in rates)]
        if undecided:
            yield [
                "  if undecided are wrong",
                *("-" if rate is None else percent(rate.if_undecided_wrong) for rate in rates),
            ]


def _cost(run: ComparedRun) -> str:
    """Return a run's cost as text, or `unknown`. `>=` marks a lower bound, `(all models)` a cost that several share."""
    if run.cost_usd is None:
        return "unknown"
    text = format_cost(to_picodollars(Decimal(run.cost_usd)))
    return f"{'' if run.cost_is_whole else '>= '}{text}{' (all models)' if run.cost_is_shared else ''}"


def _pair_sections(pair: Pair, rates: Mapping[str, Sequence[GroupSummary]], most_changes: int) -> Iterator[Section]:
    """Yield the sections for one pair, with up to `most_changes` changes of each kind. `rates` contains the pass rates
    of each run by judge.
    """
    yield [Title(f"{pair.a} - {pair.b}"), Facts([*_pair_facts(pair, rates)])]
    others = [difference for difference in pair.differences if difference.metric != RATE]
    if others:
        rows = [["", pair.a, pair.b, "difference", "95% CI", "p"], *map(_metric_row, others)]
        yield [Grid(rows), Facts([("", f"{other.metric}: {other.note}") for other in others if other.note])]
    if pair.groups:
        rows = [
            [
                in_one_line(group.value),
                str(group.questions),
                percent(group.a),
                percent(group.b),
                points(group.difference),
                _group_interval(group),
            ]
            for group in pair.groups
        ]
        head = ["", "questions", pair.a, pair.b, "difference", "95% CI"]
        note = "Groups are exploratory: no correction is made for the number of groups."
        yield [Grid([head, *rows]), Facts([("", note)])]
    yield from _change_sections(pair, most_changes)


def _pair_facts(pair: Pair, rates: Mapping[str, Sequence[GroupSummary]]) -> Iterator[tuple[str, str]]:
    """Yield the facts about a pair as names and texts. `rates` contains the pass rates of each run by judge."""
    yield from _left_out_facts(pair)
    main = pair.difference()
    if main is None:
        yield "Pass rate", "no question has a verdict in both runs"
    else:
        yield "Pass rate", f"{pair.a} {percent(main.a)}, {pair.b} {percent(main.b)} on {_size(main, pair.unit)}"
        yield "Difference", _difference_text(main)
        yield "", p_text(main)
        yield "Flips", _flips_text(main, pair)
    if any(group.pass_rate.undecided for label in (pair.a, pair.b) for group in rates[label]):
        yield "Undecided", _undecided_text(pair, rates)
    for difference, right, wrong in ((pair.highest, pair.a, pair.b), (pair.lowest, pair.b, pair.a)):
        if difference is not None:
            yield "", f"right in {right}, wrong in {wrong}: {_difference_text(difference)}"
    if main is not None:
        if main.bounds is not None:
            yield "Bounds", _bounds_text(main, pair)
        if main.power is not None:
            yield "Detectable", _power_text(main, pair.unit)
    for judge, difference in pair.by_judge.items():
        yield "By judge", f"{in_one_line(judge)}: {_difference_text(difference)}, {p_text(difference)}"
    if pair.same_answers:
        yield "Answers", "both runs have the same stored answers, so replicates are paired"


def _left_out_facts(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield pairs of a heading and a text: for the questions that were not compared, then for the pair's notes.

    They are printed first because the rates cannot be understood without them.
    """
    for what, ids in (
        (f"Only in {pair.a}", pair.only_a),
        (f"Only in {pair.b}", pair.only_b),
        ("Unpaired", pair.unpaired),
    ):
        if ids:
            yield what, f"{_names(ids)}; left out"
    if pair.changed:
        yield "Changed", _changed_text(pair)
    for note in pair.notes:
        yield "Note", in_one_line(note)


def _difference_text(difference: Difference) -> str:
    """Return the difference with its interval, which is called rough if there are fewer than 20 units. With a single
    unit, the text says that there is no interval.
    """
    if difference.low is None:
        unit = "question" if difference.questions == 1 else "unit"
        return f"{points(difference.difference)} points, without an interval because there is only one {unit}"
    rough = f" (rough: {quantity(difference.units, 'unit')})" if difference.units < _FEW else ""
    return f"{points(difference.difference)} points, 95% CI {interval(difference.low, difference.high)}{rough}"


def p_text(one: Difference) -> str:
    """Return the p value as text, followed by the adjusted one if there are several pairs."""
    how = "sign flip" if one.p_exact else "sign flip, 100,000 draws"
    adjusted = f"; {_p_equals(one.p_adjusted)} for all pairs (Holm)" if one.p_adjusted is not None else ""
    return f"{_p_equals(one.p)} ({how}; mid-{_p_equals(one.mid_p)}){adjusted}"


def _p_equals(p: float) -> str:
    text = p_value(p)
    return f"p {text}" if text[0] in "<>" else f"p = {text}"


def _size(difference: Difference, unit: str) -> str:
    """Return the number of questions, with the number of units and of results per question where they differ."""
    alike = (
        ""
        if difference.units == difference.questions
        else f" in {quantity(difference.units, 'unit')} of one {unit.replace('_', ' ')}"
    )
    each = f", {difference.replicates:.3g} results each" if difference.replicates > 1 else ""
    return f"{_questions(difference.questions)}{alike}{each}"


def _units(unit: str) -> str:
    """Return the plural name of a kind of statistical unit."""
    return "questions" if unit == "question" else f"units of one {unit.replace('_', ' ')}"


def _questions(count: int) -> str:
    return quantity(count, "question")


def _flips_text(difference: Difference, pair: Pair) -> str:
    """Return the number of questions that flipped, in total and in each direction."""
    flipped = difference.flipped
    return (
        f"{_questions(flipped.questions)}: {flipped.higher_in_a} better in {pair.a}, {flipped.higher_in_b} in {pair.b}"
    )


def _undecided_text(pair: Pair, rates: Mapping[str, Sequence[GroupSummary]]) -> str:
    """Return a text on how many questions are undecided more often in one run than in the other, and on pass rates with
    undecided results counted as wrong.
    """
    lower = ", ".join(
        f"{label} {percent(group.pass_rate.if_undecided_wrong)}"
        + (f" by {in_one_line(group.judge)}" if len(rates[label]) > 1 else "")
        for label in (pair.a, pair.b)
        for group in rates[label]
    )
    in_a, in_b = pair.more_undecided
    more = f"{_questions(in_a)} more often in {pair.a}, {in_b:,} in {pair.b}"
    if not in_a + in_b:
        more = f"every compared question as often in {pair.a} as in {pair.b}"
    return f"{more}; pass rates over all judged and undecided results, counting the latter as wrong: {lower}"


def _bounds_text(difference: Difference, pair: Pair) -> str:
    """Describe the bounds for results without a verdict. `difference.bounds` must be set."""
    bounds = difference.bounds
    assert bounds is not None
    depends = "does not depend" if bounds.sign_holds else "depends"
    return (
        f"not judged: {quantity(bounds.unjudged_a, 'result')} of {pair.a} and {bounds.unjudged_b:,} of {pair.b}; "
        f"depending on their verdicts, the difference is from {points(bounds.low)} to {points(bounds.high)} points, "
        f"and its sign {depends} on them"
    )


def _power_text(difference: Difference, unit: str) -> str:
    """Describe the smallest difference that can be found and the number of questions that others need. `unit` is the
    kind of statistical unit. `difference.power` must be set.
    """
    power = difference.power
    assert power is not None
    most = f"{100 * power.detectable:.1f} points" if power.detectable <= 1 else "no difference, not even 100 points"
    text = f"{most} (80% power)"
    if difference.units < LEAST_FLIPS:
        text = f"no difference, because p cannot be below 0.05 with fewer than {LEAST_FLIPS} {_units(unit)}"
    elif power.six_flips:
        text += ", which is more than the share of questions that flipped; at least 6 flips in one direction are needed"
    needed = ", ".join(f"{count:,} for {size}" for size, count in power.questions.items())
    text += f"; questions needed for a difference in points: {needed}"
    if power.within is None or power.at_best is None:
        why = "with one replicate, " if difference.replicates <= 1 else ""
        return f"{text}; {why}it is not known whether more replicates would help"
    return f"{text}; more replicates: {min(100.0, 100 * power.at_best):.1f} points at best"


def _group_interval(group: Group) -> str:
    """Return the group's interval, or `-` if it has none. With fewer than 20 units, it is called rough."""
    return ("rough " if group.low is not None and group.units < _FEW else "") + interval(group.low, group.high)


def _changed_text(pair: Pair) -> str:
    """Return a message that names the questions skipped because they changed, says what has changed, and states
    whether `karenina rescore` would make them comparable.
    """
    what = " or ".join(dict.fromkeys(name for names in pair.changed.values() for name in names))
    others = [label for label in (pair.a, pair.b) if label not in pair.rescored]
    cure = "not comparable without `karenina rescore`" + (f" of {others[0]} too" if len(others) == 1 else "")
    if not others:
        cure = "not comparable without `karenina rescore` of both with the same benchmark"
    if all(names <= ASKED for names in map(set, pair.changed.values())):
        cure = "the models were asked something else"
    return f"{_questions(len(pair.changed))} with a different {what}, left out ({cure}): {_ids(list(pair.changed))}"


def _names(ids: Sequence[str]) -> str:
    return f"{_questions(len(ids))}: {_ids(ids)}"


def _ids(ids: Sequence[str]) -> str:
    """Return the first 5 ids, followed by `...` if there are more."""
    return ", ".join(in_one_line(id) for id in ids[:_MOST_NAMES]) + (", ..." if len(ids) > _MOST_NAMES else "")


def _metric_row(difference: Difference) -> list[str]:
    """Return the table row for a metric. If there are several pairs, it shows the adjusted p value."""
    p = p_value(difference.p if difference.p_adjusted is None else difference.p_adjusted)
    return [
        in_one_line(difference.metric),
        percent(difference.a),
        percent(difference.b),
        points(difference.difference),
        interval(difference.low, difference.high),
        p,
    ]


def _change_sections(pair: Pair, most: int) -> Iterator[Section]:
    """Yield a section for each kind of change, with up to `most` questions each. There are none if `most` is 0."""
    for title, changes in (
        (f"Flips, {pair.a} -> {pair.b}", pair.flips),
        ("To and from undecided", [changed for changed in pair.changes if changed.undecided and not changed.flipped]),
        ("Other changes", [changed for changed in pair.changes if not changed.undecided and not changed.flipped]),
    ):
        if changes and most:
            blocks: list[Block] = [Title(f"{title} ({min(most, len(changes))} of {_questions(len(changes))})")]
            for change in changes[:most]:
                blocks += [Title(change.question_id, indent=2), Facts(_change_rows(change), indent=2)]
            yield blocks


def _change_rows(change: Change) -> list[tuple[str, str]]:
    """Return the rows for a changed question: its text, outcomes, extracted values and other differences."""
    rows = [("", shorten(change.question, _MOST_OF_A_QUESTION))]
    rows.append(("", f"{_outcomes(change.a.outcomes)} -> {_outcomes(change.b.outcomes)}"))
    rows += [("", _values_text(value)) for value in change.values]
    if change.changed:
        rows.append(("", f"changed: {', '.join(change.changed)}"))
    shown = {value.name for value in change.values}
    for name, (a, b) in (*change.metrics.items(), *change.fields.items()):
        if name != RATE and not (name in shown and {a, b} <= {0.0, 1.0, None}):
            rows.append(("", f"{in_one_line(name)}: {_share(a)} -> {_share(b)}"))
    return rows


def _values_text(values: FieldValues) -> str:
    """Return both runs' values with the ground truth and the rule, as in `40 -> 6, truth 40, rule ExactMatch`."""
    sides = (
        f"{_extracted_text(values.a)} -> {_extracted_text(values.b)}"
        if values.a != values.b
        else _extracted_text(values.a)
    )
    parts = [f"{in_one_line(values.name)}: {sides}"]
    if values.truths:
        parts.append(f"truth {' or '.join(shorten(text, _MOST_OF_A_VALUE) for text in values.truths)}")
    if values.rule is not None:
        parts.append(f"rule {shorten(values.rule, _MOST_OF_A_VALUE)}")
    return ", ".join(parts)


def _extracted_text(counts: Mapping[str, int]) -> str:
    """Return up to 5 extracted values, or `not extracted` if there are none. If there are several values, each is
    followed by its number of results.
    """
    several = len(counts) > 1
    shown = [
        shorten(text, _MOST_OF_A_VALUE) + (f" ({count} of {sum(counts.values())})" if several else "")
        for text, count in list(counts.items())[:_MOST_NAMES]
    ]
    return " or ".join(shown) or "not extracted"


def _share(value: float | None) -> str:
    return "not judged" if value is None else short_number(value)


def _outcomes(counts: object) -> str:
    """Return the counts of outcomes as text, such as `wrong` or `2 correct + 1 wrong`, or `no result` if there are
    none.
    """
    assert isinstance(counts, dict)
    if not counts:
        return "no result"
    if sum(counts.values()) == 1:
        return str(next(iter(counts)))
    return " + ".join(f"{count} {name}" for name, count in counts.items())


def _several_pairs_text(comparison: Comparison) -> str:
    """Return a text that explains how the p values are adjusted for several pairs."""
    which = f"each run against {comparison.baseline}" if comparison.baseline is not None else "all pairs"
    return (
        f"p values for all pairs are adjusted for {len(comparison.pairs)} comparisons ({which}), separately for each "
        "metric; intervals have 95% confidence each, not jointly."
    )


def points(share: float) -> str:
    """Format a difference between shares as signed percentage points, with more decimals if it would be zero."""
    texts = [f"{100 * (share or 0.0):+.{places}f}" for places in range(2, 8)]
    return next((text for text in texts if float(text) or not share), texts[0].replace("-", "+"))


def interval(low: float | None, high: float | None) -> str:
    """Format an interval of shares in percentage points, or return `-` if a bound is None."""
    return "-" if low is None or high is None else f"[{points(low)}, {points(high)}]"


def p_value(p: float) -> str:
    """Format a p value with three decimals, with four if it is below 0.01 or would be 0.050, or as `< 0.0001` or
    `> 0.999`.
    """
    if p < 0.0001 or 0.9995 <= p < 1:
        return "< 0.0001" if p < 1 / 2 else "> 0.999"
    text = f"{p:.3f}"
    return f"{p:.4f}" if p < 0.01 or text == "0.050" else text
