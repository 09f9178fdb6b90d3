"""The summary of a run on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from karenina_cli.screen import print_rows
from karenina_engine.results.summary_text import GROUP_TEXTS, Summarized, group_table, summary_rows
from karenina_toolkit.printable import clean


def print_summary(
    console: Console,
    results: Summarized,
    path: Path | None = None,
    *,
    cost: str | None = None,
    notes: Sequence[tuple[str, str]] = (),
) -> None:
    """Print the pass rate of each group with its denominator and interval, unjudged items, bounds, and tokens.

    `path` is the result file, if there is one, `cost` the cost as text, and `notes` are names and texts to print below
    the pass rate.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    groups = group_table(results.summary())
    if groups:
        print_rows(console, groups, GROUP_TEXTS)
    found = [*summary_rows(results)]
    first = 0 if groups else 1
    rows = [
        *found[:first],
        *notes,
        *found[first:],
        ("Cost", cost or ""),
        ("Results", str(path) if path is not None else ""),
    ]
    for name, text in rows:
        if text:
            grid.add_row(name, Text(clean(text)))
    console.print(grid)
