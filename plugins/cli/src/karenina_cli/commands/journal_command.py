"""`karenina journal`: maintenance of journal files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_terminal import completion
from karenina_terminal.screen import get_screen

if TYPE_CHECKING:
    from karenina_engine.journal.repair import RepairReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_SHOWN = {"replies": "Replies", "results": "Results", "runs": "Runs", "spent": "Cost rows"}


@app.callback()
def _journal() -> None:
    """Repair a damaged journal: keep what can be read."""


@app.command()
def repair(
    ctx: typer.Context,
    journal: Annotated[
        Path,
        typer.Argument(metavar="JOURNAL", help="A journal of `karenina run`.", autocompletion=completion.journal_files),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the repaired journal to this file, and do not change JOURNAL.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Copy the readable rows of a damaged journal to a new journal in its place.

    Rows that are intact are kept; calls whose replies are lost are repeated when the run continues. The damaged file is
    kept under another name. A journal of an earlier version is converted to the current format.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_engine.journal.repair import repair as repaired

        found = repaired(journal, output)
        if as_json:
            screen.json(_as_json(found))
            return
        for line in _lines(found):
            screen.out.print(line, markup=False, soft_wrap=True)


def _as_json(found: RepairReport) -> dict[str, object]:
    return {
        "journal": str(found.journal),
        "repaired": str(found.repaired) if found.repaired is not None else None,
        "kept_as": str(found.kept_as) if found.kept_as is not None else None,
        "kept": dict(found.kept),
        "lost": dict(found.lost),
    }


def _lines(found: RepairReport) -> Iterator[str]:
    if found.repaired is None:
        yield f"{found.journal} is not damaged; nothing was changed."
        return
    if not found.kept:
        yield f"{found.journal}: completed a repair that was interrupted."
        return
    yield f"{found.repaired}: the repaired journal"
    for table, name in _SHOWN.items():
        yield f"  {name:<9} {found.kept[table]} kept, {found.lost[table] or 'none'} lost"
    if found.kept_as is not None:
        yield f"  Original  {found.kept_as}"
    if found.lost["replies"]:
        yield "  Continue  with the same `karenina run` command, which makes the calls of the lost replies again"
    elif found.lost["results"]:
        yield "  Continue  with the same `karenina run` command, which makes the lost results from the stored replies"
