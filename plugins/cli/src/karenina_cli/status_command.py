"""`karenina status`: how far a run is, from its journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_cli.journal_paths import find_journal
from karenina_cli.options import JournalFile
from karenina_cli.screen import clean, get_screen

if TYPE_CHECKING:
    from karenina_engine.journal.view import Status


def status(
    ctx: typer.Context,
    journal: JournalFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell how far a run is, from its journal, also while it lasts."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.cost_output import ledger_table
        from karenina_engine.cost.ledger import make_spending_report, sum_counts
        from karenina_engine.journal.view import JournalView

        journal = find_journal(screen, journal)
        with JournalView(journal) as view:
            found = view.status()
        if as_json:
            facts = asdict(replace(found, spent=()))
            screen.json({"journal": str(journal), **facts, "spent": make_spending_report(found.spent)})
            return
        for line in _lines(journal, found):
            screen.out.print(clean(line), markup=False, soft_wrap=True)
        if found.spent:
            screen.out.print(ledger_table(found.spent, sum_counts(line.spent for line in found.spent)))


def _lines(journal: Path, found: Status) -> Iterator[str]:
    """What `status` prints, a line at a time."""
    if found.pid is not None:
        state = f"process {found.pid} is working on it" if found.pid else "a process is working on it"
    elif found.began is None:
        state = "no run has begun"
    elif found.ended is not None:
        state = f"finished {_time(found.ended)}"
    else:
        state = "stopped"
    since = f", begun {_time(found.began)}" if found.began is not None else ""
    yield f"{journal}: {state}{since}"
    share = f" ({found.done / found.items:.1%})" if found.items else ""
    yield f"  Items     {found.done} of {found.items} done{share}{_listed(found.outcomes)}"
    if found.again:
        yield f"  Again     {found.again} of them run again: a call or a stage failed"
    if found.failures:
        yield f"  Failures  {sum(found.failures.values())} calls brought no reply{_listed(found.failures)}"
    unusable = f", {found.unusable} of them of no use for another run" if found.unusable else ""
    yield (
        f"  Replies   {found.calls} calls are kept{unusable}, with {found.input_tokens:,} input and "
        f"{found.output_tokens:,} output tokens"
    )
    if found.pid is None and found.began is not None and (found.done < found.items or found.again):
        yield f"  To go on  karenina resume {journal}"


def _listed(counts: Mapping[str, int]) -> str:
    return ": " + ", ".join(f"{count} {name}" for name, count in counts.items()) if counts else ""


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
