"""`karenina rescore`: score a run again from its journal, without a call of a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from karenina_cli.configuration import parse_columns
from karenina_cli.journal_paths import find_journal
from karenina_cli.model_specs import SPEC_HELP
from karenina_cli.options import Columns, ConfigFile, JournalFile, Settings
from karenina_cli.screen import Screen, clean, get_screen, quantity

if TYPE_CHECKING:
    from karenina_engine.offline.rescoring import Change, RescoreReport
    from karenina_engine.results.aggregate import Summary

MAX_ROWS = 200
"""The most changes that a table shows; `--json` has all."""


def rescore(
    ctx: typer.Context,
    journal: JournalFile,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[BENCHMARK]", help="The benchmark as it is now. Default: the file of your run."),
    ] = None,
    config: ConfigFile = None,
    settings: Settings = None,
    columns: Columns = None,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", "-j", metavar="SPEC", help=f"With --ask: a judge, under its id: {SPEC_HELP}"),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="List what changed, verdicts first.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the new results to this file, one JSON object per line.", show_default=False
        ),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Call models again for prompts that contain a truth which has changed."),
    ] = False,
    trust_all: Annotated[
        bool, typer.Option("--trust-all", help="Run the code in the benchmark's templates: only for your own files.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run again from its journal, without a call, after truths or tolerances changed.

    Weights, patterns and verify() may have changed too. Items are paired with those of the run by question, models and
    replicate. An item that needs a new judge call (another question, field or trait) ends in an error. The journal may
    be somebody else's: name the benchmark then.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.rescore_request import make_rescore_request
        from karenina_engine.offline.rescoring import rescore as scored_again

        target = output.absolute() if output is not None else None
        chosen = make_rescore_request(
            screen,
            find_journal(screen, journal),
            file,
            config=config,
            settings=settings,
            judges=judge,
            ask=ask,
            trust_all=trust_all,
            columns=parse_columns(columns),
        )
        found = scored_again(
            chosen.journal,
            chosen.benchmark,
            chosen.config,
            question_ids=chosen.ids,
            trust="all" if trust_all else None,
            output=target,
            ask=ask,
            processes=os.cpu_count() or 1,
            by_id=True,
        )
        if as_json:
            screen.json({**rescored_json(found), "output": str(output) if output is not None else None})
            return
        if diff:
            _print_changes(screen, found)
        _print_totals(screen, found, output)


def rescored_json(found: RescoreReport) -> dict[str, Any]:
    """Return what `--json` prints, without the output file."""
    return {
        "before": found.before.model_dump(mode="json"),
        "after": found.after.model_dump(mode="json"),
        "flips": [change_json(change) for change in found.flips],
        "changes": [change_json(change) for change in found.changes if not change.flipped],
        "missing": len(found.missing),
        "gone": found.gone,
        "new": found.new,
        "seconds": found.seconds,
    }


def change_json(change: Change) -> dict[str, Any]:
    """Return a change as JSON values."""
    question, answering, judge, replicate = change.item
    return {
        "question_id": question,
        "answering": answering,
        "judge": judge,
        "replicate": replicate,
        "before": change.before.value,
        "after": change.after.value,
        "fields": {name: list(pair) for name, pair in change.fields.items()},
        "traits": {name: list(pair) for name, pair in change.traits.items()},
        "granular": list(change.granular) if change.granular is not None else None,
        "missing": change.missing,
        "why": change.why,
    }


def _print_changes(screen: Screen, found: RescoreReport) -> None:
    flips = found.flips
    rows = [*flips, *(change for change in found.changes if not change.flipped)]
    if not rows:
        return
    table = Table(show_lines=False)
    for name in ("Question", "Models", "Replicate", "Before", "After", "Changed", "Why"):
        table.add_column(name, overflow="fold")
    for change in rows[:MAX_ROWS]:
        question, answering, judge, replicate = change.item
        models = answering if judge == answering else f"{answering}, judged by {judge}"
        cells = [
            question,
            models,
            str(replicate),
            change.before.value,
            change.after.value,
            _changes_text(change),
            change.why,
        ]
        table.add_row(*(Text(clean(cell)) for cell in cells), style="bold" if change.flipped else None)
    screen.out.print(table)
    if len(rows) > MAX_ROWS:
        screen.note(f"The table shows {MAX_ROWS} of {len(rows)} changes; --json prints all.")


def _changes_text(change: Change) -> str:
    parts = [f"{name}: {_passed_text(was)} -> {_passed_text(now)}" for name, (was, now) in change.fields.items()]
    parts += [f"{name}: {was} -> {now}" for name, (was, now) in change.traits.items()]
    if change.granular is not None:
        parts.append(f"granular: {_number(change.granular[0])} -> {_number(change.granular[1])}")
    return "\n".join(parts)


def _passed_text(passed: bool | None) -> str:
    return "-" if passed is None else "passes" if passed else "fails"


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _print_totals(screen: Screen, found: RescoreReport, output: Path | None) -> None:
    from karenina_cli.summary_output import share_text

    flips = found.flips
    better = sum(change.after.value == "correct" for change in flips)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("Before", Text(share_text(found.before) + _unjudged(found.before)))
    grid.add_row("After", Text(share_text(found.after) + _unjudged(found.after)))
    worse = len(flips) - better
    grid.add_row("Flips", f"{quantity(len(flips), 'item')}: {worse} no longer correct, {better} now correct")
    others = len(found.changes) - len(flips) - len(found.missing)
    if others:
        grid.add_row("Besides", f"{quantity(others, 'item')} changed in fields or scores, but not in the verdict")
    if found.missing:
        first = found.missing[0]
        grid.add_row(
            "Missing", Text(clean(f"{quantity(len(found.missing), 'item')} could not be judged again: {first.why}"))
        )
    if found.gone:
        grid.add_row("Left out", f"{quantity(found.gone, 'item')} of questions that the benchmark does not contain now")
    if found.new:
        grid.add_row("New", f"{quantity(found.new, 'question')} without a result; `karenina run` evaluates them")
    if output is not None:
        grid.add_row("Results", Text(clean(str(output))))
    screen.out.print(grid)
    saved = "" if output is not None else " Nothing was saved: -o FILE writes the new results."
    scored = f"Scored {quantity(found.after.items, 'item')} in {found.seconds:.1f} s"
    screen.note(f"{scored}; the journal was not changed.{saved}")


def _unjudged(summary: Summary) -> str:
    return f", {summary.not_judged} not judged" if summary.not_judged else ""
