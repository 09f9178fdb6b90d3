"""`karenina status`: print the progress of a run from its journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from karenina_cli.input.named_files import find_journal
from karenina_cli.input.options import JournalFile
from karenina_terminal.options import JSONObject
from karenina_terminal.screen import get_screen, print_rows
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_engine.journal.view import Status


def status(
    ctx: typer.Context,
    journal: JournalFile,
    as_json: JSONObject = False,
) -> None:
    """Show the progress of a run from its journal, also while it runs."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.output.cost_output import ledger_rows
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
            print_rows(
                screen.out, ledger_rows(found.spent, sum_counts(line.spent for line in found.spent)), texts=(0, 1, 2)
            )


def _lines(journal: Path, found: Status) -> Iterator[str]:
    """Yield the lines that `status` prints."""
    if found.pid is not None:
        state = f"running in process {found.pid}" if found.pid else "running"
    elif found.began is None:
        state = "no run has started"
    elif found.ended is not None:
        state = f"finished {_time(found.ended)}"
    else:
        state = "stopped"
    since = f", started {_time(found.began)}" if found.began is not None else ""
    yield f"{journal}: {state}{since}"
    share = f" ({found.done / found.items:.1%})" if found.items else ""
    yield f"  Items     {found.done} of {found.items} done{share}{_listed(found.outcomes)}"
    if found.again:
        yield f"  Again     {found.again} of them will run again, because a call or a stage failed"
    if found.failures:
        yield f"  Failures  {quantity(sum(found.failures.values()), 'call')} failed{_listed(found.failures)}"
    unusable = f", {found.unusable} of them not usable for another run" if found.unusable else ""
    yield (
        f"  Replies   {found.calls} stored{unusable}, with {found.input_tokens:,} input and "
        f"{found.output_tokens:,} output tokens"
    )
    if found.pid is None and found.began is not None and (found.done < found.items or found.again):
        yield f"  Continue  karenina resume {quote(str(journal))}"


def _listed(counts: Mapping[str, int]) -> str:
    return ": " + ", ".join(f"{count} {name}" for name, count in counts.items()) if counts else ""


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
