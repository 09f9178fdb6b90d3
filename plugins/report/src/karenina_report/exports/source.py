"""The results that a command exports or reports on, from a result file, a journal, or an earlier export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import ConfigError
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_file import read_header
from karenina_engine.results.result_set import read_results
from karenina_engine.results.table_columns import CALLS
from karenina_engine.results.tables import RESULT_TABLES, Table, result_table, unknown_table
from karenina_report.exports.registered import can_read, read_export
from karenina_report.runs import find_journal, is_journal, journal_results

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.plugins import Plugins

_LINES: Final = (".jsonl", ".ndjson")
_LONGEST_LINE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ResultSource:
    """The results in a file, which is read again for each iteration.

    `journal` is the journal of their run, if there is one, and `model` limits the results to one answering model.
    `distributions` maps the installed distributions of the run to their versions; `run` is the run's id. `rescored` is
    True if these results are not the ones in its journal.
    """

    path: Path
    open: Callable[[], Iterable[VerificationResult]]
    journal: Path | None = None
    model: str | None = None
    distributions: Mapping[str, str] = field(default_factory=dict)
    run: str | None = None
    rescored: bool = False

    def __iter__(self) -> Iterator[VerificationResult]:
        return (one for one in self.open() if self.model in (None, one.metadata.answering_id))

    def table(self, name: str) -> Table:
        """Return a table of the results, or `calls` from the journal. Raises `ConfigError` for an unknown name."""
        if name == "calls" and self.journal is not None:
            return Table(name, CALLS, self._calls)
        if name not in RESULT_TABLES:
            raise ConfigError([unknown_table(name, [*RESULT_TABLES, "calls"])])
        return result_table(self, name)

    def _calls(self) -> Iterator[dict[str, Any]]:
        assert self.journal is not None
        with JournalView(self.journal) as view:
            yield from view.calls()


def open_results(path: Path, plugins: Plugins, note: Callable[[str], None], model: str | None = None) -> ResultSource:
    """Return the results in a file: a journal, the results of a run, or an export that can be read back.

    If the journal of a run is beside its results, the journal is used, with a note, unless the results are rescored.
    Raises `ConfigError`.
    """
    if is_journal(path):
        return _of_journal(path, path, model)
    if not can_read(plugins, path) or path.suffix.lower() in _LINES or _has_result_lines(path):
        beside, header = find_journal(path), read_header(path)
        if beside is not None and not header.get("rescored"):
            note(f"{path} is a result file: its journal {beside} is used.")
            return _of_journal(path, beside, model)
        run, rescored = header.get("id"), bool(header.get("rescored"))
        run = run if isinstance(run, str) else None
        return ResultSource(path, lambda: read_results(path), beside, model, _distributions(header), run, rescored)
    return ResultSource(path, lambda: read_export(plugins, path), model=model)


def _of_journal(path: Path, journal: Path, model: str | None) -> ResultSource:
    with JournalView(journal) as view:
        distributions, run = view.status().distributions, view.run_digest()
    return ResultSource(path, lambda: journal_results(journal), journal, model, distributions, run)


def _has_result_lines(path: Path) -> bool:
    return _first_line(path).startswith((b'{"run":{', b'{"metadata":{'))


def _distributions(header: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the distributions in the header of a result file, with their versions."""
    found = header.get("distributions")
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(_LONGEST_LINE)
    except OSError:
        return b""  # reading the results reports what is wrong
