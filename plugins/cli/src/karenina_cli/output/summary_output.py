"""The summary of a run, as text and as JSON values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from karenina_engine.results.summary_text import GROUP_TEXTS, Summarized, group_table, summary_rows
from karenina_terminal.screen import print_rows
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.aggregate import Totals


def print_summary(
    console: Console,
    results: Summarized,
    path: Path | None = None,
    *,
    cost: str | None = None,
    notes: Sequence[tuple[str, str]] = (),
    all_failures: bool = False,
) -> None:
    """Print the pass rate of each group with its denominator and interval, unjudged items, bounds, and tokens.

    `path` is the result file, if there is one, `cost` the cost as text, and `notes` are names and texts to print below
    the pass rate. With `all_failures`, every reason why items were not judged is printed.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    groups = group_table(results.summary())
    if groups:
        print_rows(console, groups, GROUP_TEXTS)
    found = [*summary_rows(results, all_failures=all_failures)]
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


def result_json(result: VerificationResult) -> dict[str, Any]:
    """Return a result as JSON values for `--json`: in full, with `question_id` at the top level."""
    return {"question_id": result.question_id, **json.loads(result.model_dump_json())}


def summary_json(results: Totals) -> dict[str, Any]:
    """Return `summary` as JSON values for `--json`, with usage and failures."""
    usage = results.usage()
    return {
        "summary": {
            **results.summary().model_dump(mode="json"),
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "calls": usage.calls,
            },
            "failures": [{"items": one.items, "error": one.error} for one in results.failures()],
        }
    }
