"""`karenina status` and `karenina journal`: show a run's progress from its journal, and repair journals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_cli.input.named_files import find_journal
from karenina_cli.input.options import JournalFile
from karenina_terminal import completion
from karenina_terminal.options import JSONObject, output_option
from karenina_terminal.screen import get_screen, print_rows
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_engine.journal.repair import RepairReport
    from karenina_engine.journal.view import Status

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_TABLES = {"replies": "Replies", "results": "Results", "runs": "Runs", "spent": "Cost rows"}


def status(ctx: typer.Context, journal: JournalFile, as_json: JSONObject = False) -> None:
    """Show the progress of a run from its journal, even while it is running."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.output.summary_output import ledger_rows
        from karenina_engine.cost.ledger import make_spending_report, sum_counts
        from karenina_engine.journal.view import JournalView

        journal = find_journal(screen, journal)
        with JournalView(journal) as view:
            progress = view.status()
        if as_json:
            facts = asdict(replace(progress, spent=()))
            screen.json({"journal": str(journal), **facts, "spent": make_spending_report(progress.spent)})
            return
        for line in _status_lines(journal, progress):
            screen.out.print(clean(line), markup=False, soft_wrap=True)
        if progress.spent:
            print_rows(
                screen.out,
                ledger_rows(progress.spent, sum_counts(line.spent for line in progress.spent)),
                texts=(0, 1, 2),
            )


def _status_lines(journal: Path, progress: Status) -> Iterator[str]:
    """Yield the lines that `status` prints."""
    from karenina_engine.results.summary_text import percent

    if progress.pid is not None:
        state = f"running in process {progress.pid}" if progress.pid else "running"
    elif progress.began is None:
        state = "no run has started"
    elif progress.ended is not None:
        state = f"finished {_time(progress.ended)}"
    else:
        state = "stopped"
    since = f", started {_time(progress.began)}" if progress.began is not None else ""
    yield f"{journal}: {state}{since}"
    share = f" ({percent(progress.done / progress.items)})" if progress.items else ""
    yield f"  Items     {progress.done} of {progress.items} done{share}{_listed(progress.outcomes)}"
    if progress.again:
        yield f"  Again     {progress.again} of the finished items will run again because a call or a stage failed"
    if progress.failures:
        yield f"  Failures  {quantity(sum(progress.failures.values()), 'call')} failed{_listed(progress.failures)}"
    unusable = f", {progress.unusable} of which cannot be used for another run" if progress.unusable else ""
    yield (
        f"  Replies   {progress.calls} stored{unusable}, with {progress.input_tokens:,} input and "
        f"{progress.output_tokens:,} output tokens"
    )
    if progress.pid is None and progress.began is not None and (progress.done < progress.items or progress.again):
        yield f"  Continue  karenina resume {quote(str(journal))}"


def _listed(counts: Mapping[str, int]) -> str:
    """Return counts for the end of a line, such as `: 3 correct, 1 incorrect`, or an empty string."""
    return ": " + ", ".join(f"{count} {name}" for name, count in counts.items()) if counts else ""


def _time(seconds: float) -> str:
    """Format a Unix time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@app.callback()
def _journal() -> None:
    """Repair a damaged journal: keep what can be read."""


@app.command()
def repair(
    ctx: typer.Context,
    journal: Annotated[
        Path,
        typer.Argument(
            metavar="JOURNAL", help="A journal written by `karenina run`.", autocompletion=completion.journal_files
        ),
    ],
    output: Annotated[
        Path | None, output_option("Write the repaired journal to this file, and do not change JOURNAL.")
    ] = None,
    as_json: JSONObject = False,
) -> None:
    """Copy the readable rows of a damaged journal to a new journal in its place, and keep the old file under another
    name.

    Calls whose replies are lost are repeated when the run continues. A journal from an earlier version is converted to
    the current format.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_engine.journal.repair import repair as repaired

        report = repaired(journal, output)
        if as_json:
            screen.json(_repair_json(report))
            return
        for line in _repair_lines(report):
            screen.out.print(line, markup=False, soft_wrap=True)


def _repair_json(report: RepairReport) -> dict[str, object]:
    """Return the JSON that `repair` prints with `--json`."""
    return {
        "journal": str(report.journal),
        "repaired": str(report.repaired) if report.repaired is not None else None,
        "kept_as": str(report.kept_as) if report.kept_as is not None else None,
        "kept": dict(report.kept),
        "lost": dict(report.lost),
    }


def _repair_lines(report: RepairReport) -> Iterator[str]:
    """Yield the lines that `repair` prints."""
    if report.repaired is None:
        yield f"{report.journal} is not damaged; nothing was changed."
        return
    if not report.kept:
        yield f"{report.journal}: completed a repair that was interrupted."
        return
    yield f"{report.repaired}: the repaired journal"
    for table, name in _TABLES.items():
        yield f"  {name:<9} {report.kept[table]} kept, {report.lost[table] or 'none'} lost"
    if report.kept_as is not None:
        yield f"  Original  {report.kept_as}"
    if report.lost["replies"]:
        yield "  Continue  with the same `karenina run` command, which repeats the calls whose replies were lost"
    elif report.lost["results"]:
        yield "  Continue  with the same `karenina run` command, which computes the lost results from stored replies"
