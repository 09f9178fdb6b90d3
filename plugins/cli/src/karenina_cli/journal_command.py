"""`karenina journal`: what one does to a journal as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_cli.screen import get_screen

if TYPE_CHECKING:
    from karenina_engine.journal.repair import RepairReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_SHOWN = {"replies": "Replies", "results": "Results", "runs": "Runs", "spent": "Spending"}


@app.callback()
def _journal() -> None:
    """Repair a damaged journal: keep what can be read."""


@app.command()
def repair(
    ctx: typer.Context,
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="A journal of `karenina run`.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write a new journal there, and leave JOURNAL as it is.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Keep what can be read of a damaged journal, in a new one that takes its place.

    Each row is kept that is exactly as it was written; what is lost is asked again when the run goes on. The damaged
    file is kept under another name. A journal of an earlier version of Karenina is brought to the format of this one.
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
        yield f"{found.journal} is not damaged, and is left as it is."
        return
    if not found.kept:
        yield f"{found.journal}: a repair that was cut off is ended."
        return
    yield f"{found.repaired}: a journal of what could be read"
    for table, name in _SHOWN.items():
        yield f"  {name:<9} {found.kept[table]} kept, {found.lost[table] or 'none'} lost"
    if found.kept_as is not None:
        yield f"  Before    {found.kept_as} is the file as it was"
    if found.lost["replies"] or found.lost["results"]:
        yield "  To go on  the same `karenina run` command: what was lost is asked again"
