"""How money is printed: what a run has spent on what, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from karenina_cli.screen import clean
from karenina_engine.cost.ledger import UNKNOWN_COST, SpendCounts, sum_counts
from karenina_engine.cost.price_source import format_cost, to_dollars

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from karenina_engine.cost.ledger import Ledger, LedgerLine
    from karenina_engine.scheduling.session import RunSession


def cost_json(run: RunSession) -> dict[str, Any]:
    """`money` as `--json` prints it: the ledger of a run, and its budget in US dollars, null where it has none."""
    budget = run.budget
    limit = float(to_dollars(budget.limit)) if budget is not None else None
    return {"budget_usd": limit, "budget_spent": budget is not None and budget.exhausted, **run.ledger.to_dict()}


def print_ledger(console: Console, ledger: Ledger) -> None:
    """Print what was spent now by model, stage and judge, what it adds to, and where the prices are from."""
    spent, kept, earlier = ledger.total(), ledger.cached_total(), ledger.earlier
    if not spent.calls and not kept.calls:
        return
    lines = [line for line in ledger.lines if line.spent.calls]
    if lines:
        console.print(ledger_table(lines, spent))
    said = [f"Cost: {spent.format_cost()} for {spent.calls:,} calls."]
    if kept.calls:
        worth = f", which had cost {kept.format_cost()}" if kept.cost or kept.unpriced else ""
        said.append(f"{kept.calls:,} replies were kept from before{worth}: they cost nothing now.")
    if earlier.calls:
        said.append(f"Earlier runs with this journal spent {earlier.format_cost()}.")
    console.print(Text(" ".join(said)), soft_wrap=True)
    for name, price in ledger.prices.snapshot()["models"].items():
        console.print(Text(clean(f"Price of {name}: {price['from']}"), style="dim"), soft_wrap=True)


def ledger_table(lines: Iterable[LedgerLine], total: SpendCounts) -> Table:
    """A row for each line of a ledger, and their sum."""
    table = Table("Model", "Stage", "Judge")
    for name in ("Calls", "Tokens in", "from cache", "out", "Cost"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(clean(line.model), clean(line.stage), clean(line.judge) or "all", *_cells(line.spent))
    table.add_section()
    table.add_row("All", "", "", *_cells(total))
    return table


def spent_text(ledger: Ledger) -> str | None:
    """What was spent so far, for the progress of a run; None while there is nothing to tell."""
    total = ledger.total()
    if not total.calls:
        return None
    words = total.format_cost()
    return "cost unknown" if words == UNKNOWN_COST else f"{words} spent"


def read_spending(files: Sequence[Path]) -> list[LedgerLine] | None:
    """What the runs spent that wrote these result files, from the journals beside them; None where one has none."""
    from karenina_engine.journal.file import JournalError
    from karenina_engine.journal.view import JournalView
    from karenina_engine.results.result_file import default_journal

    found: list[LedgerLine] = []
    for file in files:
        try:
            with JournalView(default_journal(file)) as view:
                command = view.command()
                if command is None or command.get("output") != str(file.absolute()):
                    return None
                found += view.spent()
        except JournalError:
            return None
    return found


def cost_text(lines: Sequence[LedgerLine] | None) -> str:
    """What was spent, and by which model, in one line."""
    if lines is None:
        return f"{UNKNOWN_COST}: the journal of the run does not stand beside its results (`karenina status JOURNAL`)"
    total = sum_counts(line.spent for line in lines)
    by_model: dict[str, SpendCounts] = {}
    for line in lines:
        by_model.setdefault(line.model, SpendCounts()).merge(line.spent)
    each = ", ".join(f"{clean(model)} {count.format_cost()}" for model, count in sorted(by_model.items()))
    return f"{total.format_cost()} for {total.calls:,} calls in all runs of the journal" + (f": {each}" if each else "")


def budget_hint(run: RunSession) -> str:
    """How a run whose budget is spent goes on."""
    assert run.budget is not None
    where = f"`karenina resume {run.journal.path} --budget MORE`" if run.journal is not None else "the same command"
    return f"More than {format_cost(run.budget.limit)} goes on from here: {where}; no call that was paid is made twice."


def _cells(count: SpendCounts) -> tuple[str, ...]:
    numbers = (count.calls, count.input_tokens, count.cached_tokens, count.output_tokens)
    return (*(f"{number:,}" for number in numbers), count.format_cost())
