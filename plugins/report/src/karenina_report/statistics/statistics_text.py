"""The statistics of a run as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from karenina_engine.results.summary_text import fault_bounds, number_text, percent, undecided_text
from karenina_report.statistics.statistics_result import Agreement, Coefficient, RunStatistics
from karenina_terminal.notebook_html import sections_of
from karenina_terminal.text_layout import Facts, Grid, Title
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_engine.results.rates import Rate
    from karenina_terminal.text_layout import Section


@sections_of.register(RunStatistics)
def statistics_sections(found: RunStatistics) -> Iterator[Section]:
    """Yield the sections printed by `karenina stats` for one run."""
    yield [Facts([*_fact_rows(found)])]
    several = len(found.judges) > 1
    if found.groups:
        with_judge = several and found.by != "judge"
        rows = [
            [
                in_one_line(group.value),
                *([in_one_line(group.judge)] if with_judge else []),
                *_rate_cells(group.rate),
                f"{group.not_judged:,}",
            ]
            for group in found.groups
        ]
        of = [found.by or "", *(["judge"] if with_judge else [])]
        head = [*of, "right", "judged", _units(found), "pass rate", "95% CI", "not judged"]
        if any(group.rate.undecided for group in found.groups):
            head += ["undecided", "if these are wrong"]
            for row, group in zip(rows, found.groups, strict=True):
                row += [f"{group.rate.undecided:,}", percent(group.rate.if_undecided_wrong)]
        yield [
            Grid([head, *rows], texts=range(len(of))),
            Facts([("", "Groups are exploratory: no correction is made for the number of groups.")]),
        ]
    if found.turns:
        cells = [
            [
                turn.turn,
                *([in_one_line(turn.judge)] if several else []),
                *_rate_cells(turn.rate),
                f"{turn.rate.undecided:,}",
                f"{turn.left_out:,}",
            ]
            for turn in found.turns
        ]
        judge = ["judge"] if several else []
        head = ["turn", *judge, "right", "judged", _units(found), "rate", "95% CI", "undecided", "left out"]
        yield [Title("Fields by turn of the conversation"), Grid([head, *cells])]
    if found.means:
        means = [
            [
                in_one_line(mean.metric),
                *([in_one_line(mean.judge)] if several else []),
                number_text(mean.value),
                _bounds(mean.low, mean.high),
                f"{mean.results:,}",
                f"{mean.missing:,}",
            ]
            for mean in found.means
        ]
        notes = dict.fromkeys(in_one_line(f"{mean.metric}: {mean.note}") for mean in found.means if mean.note)
        of = ["", *(["judge"] if several else [])]
        table = Grid([[*of, "mean", "95% CI", "results", "missing"], *means], texts=range(len(of)))
        yield [table, Facts([("", note) for note in notes])]
    if found.draws:
        drawn = [
            [str(draw.k), percent(draw.any_right), percent(draw.all_right), f"{draw.questions:,}", f"{draw.left_out:,}"]
            for draw in found.draws
        ]
        yield [Grid([["k", "pass@k", "pass^k", "questions", "left out"], *drawn])]
    if found.agreement:
        pairs = [Facts([*_agreement_facts(pair)]) for pair in found.agreement]
        yield [Title("Agreement of judges on the same answers"), *pairs]


def _fact_rows(statistics: RunStatistics) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each fact about a run. An empty name continues the fact before it.

    Facts that do not apply are left out.
    """
    names = [
        statistics.name,
        statistics.answering_model,
        *([statistics.source] if statistics.source is not None else []),
    ]
    yield "Run", in_one_line(", ".join(dict.fromkeys(names)))
    for place, (judge, rate) in enumerate(statistics.by_judge.items()):
        name = "" if statistics.pass_rate is not None else f"{in_one_line(judge)}: "
        yield "" if place else "Pass rate", name + _rate_text(rate, _units(statistics))
    if found_faults := statistics.user_faults:
        yield "Users", _user_text(found_faults, several_judges=len(statistics.judges) > 1)
        for group in statistics.summary.groups:
            if group.users is not None:
                judge = f"{in_one_line(group.judge)}: " if len(statistics.summary.groups) > 1 else ""
                yield "", f"{judge}{fault_bounds(group.users)}"
        if absent := statistics.conversations_ended.get("no_recorded_answer"):
            yield "", f"not known for {quantity(absent, 'conversation')} without a recorded answer"
    if statistics.summary.not_judged:
        yield "Not judged", f"{statistics.summary.not_judged:,} of {statistics.summary.items:,}"
    if found_ends := statistics.conversations_ended:
        yield "Ended", ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in found_ends.items())
    yield "Judges", in_one_line(", ".join(statistics.judges))
    yield "Variance", _variance_text(statistics)
    if statistics.fleiss is not None:
        yield "Fleiss' kappa", _coefficient_text(statistics.fleiss)
    if statistics.krippendorff is not None:
        yield "Krippendorff", f"alpha {_coefficient_text(statistics.krippendorff)}"
    for note in statistics.notes:
        yield "Note", in_one_line(note)


def _user_text(faults: Mapping[str, int], *, several_judges: bool) -> str:
    """Return a text with the number of simulated users at fault, in total and by kind of fault. With several judges, a
    user is counted once for each, since they also look for faults.
    """
    every, good = sum(faults.values()), faults.get("none", 0)
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in faults.items() if kind != "none")
    users = f"{quantity(every, 'item')} with a simulated user" if several_judges else quantity(every, "simulated user")
    share = f"{every - good:,} of {users} at fault ({percent((every - good) / every)})"
    return f"{share}, not judged: {kinds}" if kinds else share


def _rate_text(rate: Rate, units: str) -> str:
    """Return a pass rate with its interval and counts, or say that no item has a verdict. `units` is the plural name of
    what the interval is based on, such as *questions*.
    """
    if rate.value is None:
        return f"none: no item has a verdict{undecided_text(rate)}"
    rough = "rough " if rate.is_rough else ""
    return (
        f"{percent(rate.value)}, {rough}95% CI {_bounds(rate.low, rate.high, of_100=True)}: {rate.hits:,} of "
        f"{rate.out_of:,} judged, on {quantity(rate.clusters, units.removesuffix('s'))}{undecided_text(rate)}"
    )


def _units(statistics: RunStatistics) -> str:
    return f"{statistics.unit.replace('_', ' ')}s"


def _variance_text(statistics: RunStatistics) -> str:
    """Return the shares of the variance components, or the reason why they are not known."""
    variance = statistics.variance
    if variance is None and (statistics.draws or len(statistics.judges) > 1):
        return "the components are not known: fewer than two questions have all replicates judged by all judges"
    if variance is None:
        return "the components cannot be separated with one judge and one replicate"
    shares = ", ".join(f"{_whole_percent(share)} {name}" for name, share in variance.shares.items()) or "nothing varies"
    text = (
        f"{shares} ({quantity(variance.questions, 'question')} with {variance.judges} x {variance.replicates} verdicts)"
    )
    if variance.unknown:
        why = "one judge" if variance.judges == 1 else "one replicate"
        text += f"; with {why}, {' and '.join(variance.unknown)} cannot be separated"
    return text


def _whole_percent(share: float) -> str:
    """Return a share as a whole percentage, which is only 0% or 100% if the share is."""
    text = f"{share:.0%}"
    return "< 1%" if text == "0%" and share > 0 else "> 99%" if text == "100%" and share < 1 else text


def _agreement_facts(pair: Agreement) -> Iterator[tuple[str, str]]:
    """Yield labels and texts for two judges' raw agreement, their shares of correct verdicts, and Cohen's kappa."""
    yield "", in_one_line(f"{pair.a} and {pair.b}")
    raw = pair.raw
    yield "  agree", f"{percent(raw.value)} {_bounds(raw.low, raw.high, of_100=True)} of {raw.out_of:,} answers"
    yield "  correct", f"{percent(pair.correct_by_a)} and {percent(pair.correct_by_b)}"
    undefined = "undefined because all verdicts of a judge are the same"
    yield "  kappa", _coefficient_text(pair.kappa) if pair.kappa is not None else undefined


def _coefficient_text(coefficient: Coefficient) -> str:
    """Return a coefficient with its interval, or with the reason why it has none."""
    if coefficient.low is None or coefficient.high is None:
        why = "too few questions, or too few results with the rarer verdict"
        return f"{number_text(coefficient.value)}, without an interval: {why}"
    return f"{number_text(coefficient.value)} {_bounds(coefficient.low, coefficient.high)}"


def _rate_cells(rate: Rate) -> list[str]:
    """Return the table cells for a pass rate: correct, judged, units, rate and interval."""
    rough = "rough " if rate.is_rough and rate.low is not None else ""
    bounds = rough + _bounds(rate.low, rate.high, of_100=True)
    return [f"{rate.hits:,}", f"{rate.out_of:,}", f"{rate.clusters:,}", percent(rate.value), bounds]


def _bounds(low: float | None, high: float | None, *, of_100: bool = False) -> str:
    """Format an interval with three decimals, or in percent if `of_100`. Returns `-` if there is none."""
    if low is None or high is None:
        return "-"
    return f"[{percent(low)}, {percent(high)}]" if of_100 else f"[{number_text(low)}, {number_text(high)}]"
