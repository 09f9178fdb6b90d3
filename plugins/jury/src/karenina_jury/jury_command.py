"""The command `karenina jury`, which prints how the judges of a jury voted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_engine.cost.price_source import format_cost, to_picodollars
from karenina_engine.results.summary_text import percent, undecided_text
from karenina_report.options import config_error
from karenina_terminal.completion import result_files
from karenina_terminal.options import JSONObject
from karenina_terminal.screen import get_screen
from karenina_terminal.text_layout import Facts, Grid
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_engine.results.rates import Rate
    from karenina_jury.jury_result import JuryStatistics
    from karenina_terminal.text_layout import Section


def jury_sections(found: Sequence[JuryStatistics]) -> Iterator[Section]:
    """Yield the sections that `karenina jury` prints for each jury and answering model."""
    for statistics in found:
        yield [Facts([*_facts(statistics)])]
        head = ["judge", "asked", "failed", "pass rate", "95% CI", "agrees with the jury"]
        rows = [
            [
                in_one_line(statistics.jury),
                f"{statistics.answers - statistics.unasked:,}",
                f"{statistics.failed - statistics.unasked:,}",
                *_cells(statistics.pass_rate),
                "-",
            ]
        ]
        for judge in statistics.judges:
            name = in_one_line(judge.judge) + (" (if escalated)" if judge.decides else "")
            rows.append([name, f"{judge.asked:,}", f"{judge.failed:,}", *_cells(judge.pass_rate), _short(judge.agrees)])
        yield [Grid([head, *rows])]
        fields = [[in_one_line(name), *_cells(rate), f"{rate.out_of:,}"] for name, rate in statistics.fields.items()]
        if fields:
            yield [Grid([["vote on", "all judges agree", "95% CI", "answers"], *fields])]


def _facts(statistics: JuryStatistics) -> Iterator[tuple[str, str]]:
    """Yield the label and text of each fact. Unjudged answers and escalation are omitted where they do not apply."""
    yield (
        "Answers",
        f"{statistics.answers:,} of {in_one_line(statistics.answering)}, judged by {in_one_line(statistics.jury)}",
    )
    yield "Pass rate", _long(statistics.pass_rate, "judged answers correct")
    if statistics.not_judged:
        why = "no quorum, undecided, or an error" if statistics.pass_rate.undecided else "no quorum, or an error"
        yield "Not judged", f"{statistics.not_judged:,}: {why}"
    if statistics.unasked:
        yield "Not asked", f"{statistics.unasked:,} of these, without an answer or a valid template; left out below"
    yield "Unanimous", _long(statistics.unanimous, "answers")
    if statistics.escalate_to is None:
        return
    yield "Escalated", f"{_long(statistics.escalated, 'answers')}, to {in_one_line(statistics.escalate_to)}"
    if statistics.saved_calls:
        cost = "" if statistics.saved_usd is None else f", {format_cost(to_picodollars(Decimal(statistics.saved_usd)))}"
        tokens = quantity(statistics.saved_tokens, "token")
        yield "Saved", f"about {quantity(statistics.saved_calls, 'call')} and {tokens} of that judge{cost}"
    else:
        spared = statistics.escalated.out_of - statistics.escalated.hits
        yield (
            "Saved",
            f"{quantity(spared, 'answer')} not escalated; the usage that escalation would have added is unknown",
        )


def _long(rate: Rate, what: str) -> str:
    """Format a rate with its confidence interval and counts, as in "80.0%, 95% CI [...]: 8 of 10 answers". A rate
    without a value becomes "none of 0 answers".
    """
    if rate.value is None or rate.low is None or rate.high is None:
        return f"none of 0 {what}{undecided_text(rate)}"
    rough = "rough " if rate.is_rough else ""
    bounds = f"[{percent(rate.low)}, {percent(rate.high)}]"
    return (
        f"{percent(rate.value)}, {rough}95% CI {bounds}: {rate.hits:,} of {rate.out_of:,} {what}{undecided_text(rate)}"
    )


def _cells(rate: Rate) -> list[str]:
    """Return a rate's table cells: its value with any undecided answers, and its interval or "-". An interval that is
    based on few questions is called rough.
    """
    rough = "rough " if rate.is_rough else ""
    bounds = "-" if rate.value is None else f"{rough}[{percent(rate.low)}, {percent(rate.high)}]"
    return [f"{percent(rate.value)}{undecided_text(rate)}", bounds]


def _short(rate: Rate) -> str:
    return f"{percent(rate.value)} of {rate.out_of:,}"


def jury(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A result file or journal of a run with a jury.", autocompletion=result_files
        ),
    ],
    as_json: JSONObject = False,
) -> None:
    """Print how a jury voted: its pass rate, each judge's, their agreement, and what escalation saved."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_jury.jury_result import describe_juries, mean_call_costs
        from karenina_report.runs import iterate_results

        juries = describe_juries(iterate_results(file), mean_call_costs(file))
        if not juries:
            raise config_error(f"{file} contains no jury results; set `jury` in the run configuration")
        if as_json:
            screen.json({"juries": [statistics.model_dump(mode="json") for statistics in juries]})
            return
        from karenina_terminal.text_layout import format_sections

        for line in format_sections(jury_sections(juries), screen.out.width):
            typer.echo(line)
