"""Finding the label file for results without reading it. Commands that print a pass rate use this."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from karenina_engine.journal.view import JournalView, find_journal
from karenina_engine.results.result_file import read_header
from karenina_report.runs import base_name

SUFFIX: Final = ".labels.jsonl"


def default_labels(results: Path) -> Path:
    """Return the default label file for results: `<name>.labels.jsonl` next to the result file."""
    return results.with_name(base_name(results) + SUFFIX)


def find_labels_file(results: Path) -> Path:
    """Return the path of the label file next to the results, which need not exist. If the results were rescored and
    have no label file, the path is that of the original results' label file, or still their own if the run's journal is
    not found.
    """
    own = default_labels(results)
    if own.exists() or not read_header(results).get("rescored"):
        return own
    journal = find_journal(results)
    if journal is None:
        return own
    with JournalView(journal) as view:
        output = (view.command() or {}).get("output")
    return default_labels(results.with_name(Path(output).name)) if isinstance(output, str) else own


def has_labels(sources: Iterable[Path | None]) -> bool:
    """Return whether any of the given result files has a label file."""
    return any(source is not None and find_labels_file(source).exists() for source in sources)
