"""Notes about checks next to pass rates: patches that were not used, and checks without a report at the start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_engine.results.result_file import is_header
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import is_journal, iterate_results
from karenina_toolkit.printable import quantity
from karenina_toolkit.shown_work import OWNER, check_troubles

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_OWNER: Final = re.compile(rf'"{OWNER}"\s*:'.encode())
"""The key of the result fields of karenina-sandbox. Records of stages name it as a value only."""


def check_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note for each run whose result file has patches that were not used, or checks that may be broken."""
    notes = []
    for run in runs:
        found = _count_troubles(run)
        texts = [f"{quantity(count, noun)} {text}" for (noun, text), count in found.items()]
        if texts:
            name = f"Checks {run.label}" if run.label else "Checks"
            values = {text: count for (_, text), count in found.items()}
            notes.append(RunNote(name, "; ".join(texts), values))
    return notes


def _count_troubles(run: NotedRun) -> Mapping[tuple[str, str], int]:
    """Return how often each trouble occurs in a run's result file, keyed by the noun and text of `check_troubles`, or
    nothing without a file. Results are only parsed if the file contains work or checks.
    """
    found: Counter[tuple[str, str]] = Counter()
    if run.source is None or not _mentions_checks(run.source):
        return found
    for result in iterate_results(run.source):
        if run.model in (None, result.metadata.answering_id):
            found.update(check_troubles(result))
    return found


def _mentions_checks(source: Path) -> bool:
    """Return whether a file may contain a result with work or checks. This is always so for journals. The header of a
    result file does not count, since it names all distributions of a run.
    """
    if is_journal(source):
        return True
    with source.open("rb") as file:
        return any(_OF_OWNER.search(line) and not is_header(line) for line in file)
