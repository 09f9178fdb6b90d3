"""The summary of a run on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from karenina_engine.results.summary_text import Summarized, summary_rows
from karenina_toolkit.printable import clean


def print_summary(
    console: Console,
    results: Summarized,
    path: Path | None = None,
    *,
    cost: str | None = None,
    notes: Sequence[tuple[str, str]] = (),
) -> None:
    """Print the pass rate with its denominator and interval, unjudged items, bounds, and tokens.

    `path` is the result file, if there is one, `cost` the cost as text, and `notes` are names and texts to print below
    the pass rate.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    found = [*summary_rows(results)]
    rows = [*found[:1], *notes, *found[1:], ("Cost", cost or ""), ("Results", str(path) if path is not None else "")]
    for name, text in rows:
        if text:
            grid.add_row(name, Text(clean(text)))
    console.print(grid)
