"""Choose an exporter, and open the results in a result file, a journal or an earlier export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_core.catalog import official_first
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_file import ROW_LINE, TABLE_LINE, read_header
from karenina_engine.results.result_set import read_results
from karenina_engine.results.table_columns import CALLS
from karenina_engine.results.tables import RESULT_TABLES, Table, result_table, unknown_table
from karenina_report.exports.exporter import Exporter
from karenina_report.exports.hookspecs import karenina_exporters
from karenina_report.runs import find_journal, is_journal, journal_results

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.plugins import Offer, Plugins


def built_in() -> Sequence[Exporter]:
    """Return the built-in exporters. Their modules are only imported now."""
    from karenina_report.exports.json_lines import JSON, JSONL, RECORDING
    from karenina_report.exports.junit import JUNIT
    from karenina_report.exports.markdown import MARKDOWN
    from karenina_report.exports.spreadsheets import CSV, EXCEL, PARQUET

    return (JSONL, JSON, CSV, EXCEL, PARQUET, JUNIT, MARKDOWN, RECORDING)


def choose(plugins: Plugins, name: str | None, output: Path | None) -> Exporter:
    """Return the exporter named `name`, or else the one for the suffix of `output`, or JSON lines without a suffix.
    Raises `ConfigError` if there is no such exporter, or more than one.
    """
    offered = plugins.offers(karenina_exporters, Exporter)
    if name is not None:
        fitting = [offer for offer in offered if offer.value.name == name]
        names = [offer.value.name for offer in offered]
        missing = (
            f"there is no export format {name!r}; the formats are {', '.join(names)}{did_you_mean(name, names, '')}"
        )
    elif output is None or not output.suffix:
        return choose(plugins, "jsonl", None)
    else:
        fitting = _with_suffix_of(output, offered)
        missing = (
            f"the format of {output} is not known; use one of the suffixes {_suffixes(offered)}, or choose a "
            "format with --format"
        )
    if not fitting:
        raise ConfigError([missing + not_loaded(plugins)])
    fitting.sort(key=lambda offer: official_first(offer.distribution))
    if len(fitting) > 1:
        both = " and ".join(f"{offer.distribution} {offer.version}" for offer in fitting)
        raise ConfigError(
            [
                f"several plugins provide the export format {fitting[0].value.name!r}: {both}. Block one of them "
                f'with [plugins] block = ["{fitting[-1].distribution}"]'
            ]
        )
    return fitting[0].value


def can_read(plugins: Plugins, path: Path) -> bool:
    """Return whether the file's suffix belongs to a format that can be read."""
    offered = plugins.offers(karenina_exporters, Exporter)
    return bool(_with_suffix_of(path, [offer for offer in offered if offer.value.read is not None]))


def _with_suffix_of(path: Path, offered: Sequence[Offer[Exporter]]) -> list[Offer[Exporter]]:
    """Return the formats for the longest suffix that the file name ends with, such as `.csv.gz` before `.gz`."""
    name = path.name.lower()
    matches = [(len(suffix), offer) for offer in offered for suffix in offer.value.suffixes if name.endswith(suffix)]
    return [offer for length, offer in matches if length == max(length for length, _ in matches)]


def read_export(plugins: Plugins, path: Path) -> Iterable[VerificationResult]:
    """Read the results from an exported file, whose suffix states its format. Raises `ConfigError` if the suffix is
    unknown or the format does not store whole results.
    """
    exporter = choose(plugins, None, path)
    if exporter.read is None:
        raise ConfigError(
            [f"cannot read results from {path} because the {exporter.name!r} format does not store whole results"]
        )
    return exporter.read(path)


def _suffixes(offered: Iterable[Offer[Exporter]]) -> str:
    return ", ".join(suffix for offer in offered for suffix in offer.value.suffixes)


_LINES: Final = (".jsonl", ".ndjson")
_LONGEST_LINE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ResultSource:
    """The results in a file, which is read again on each iteration.

    `journal` is the run's journal, or None. If `model` is set, only results of this answering model are yielded.
    `distributions` maps the run's distributions to their versions, and `run` is the run's id. `rescored` is true if the
    results differ from those in the journal.
    """

    path: Path
    open: Callable[[], Iterable[VerificationResult]]
    journal: Path | None = None
    model: str | None = None
    distributions: Mapping[str, str] = field(default_factory=dict)
    run: str | None = None
    rescored: bool = False

    def __iter__(self) -> Iterator[VerificationResult]:
        """Yield the results, or only those of `model` if it is set."""
        return (result for result in self.open() if self.model in (None, result.metadata.answering_id))

    def table(self, name: str) -> Table:
        """Return a table of the results, or the table `calls` of the journal. Raises `ConfigError` for an unknown name,
        or for `calls` without a journal.
        """
        if name == "calls" and self.journal is not None:
            return Table(name, CALLS, self._calls)
        if name not in RESULT_TABLES:
            raise ConfigError([unknown_table(name, [*RESULT_TABLES, "calls"])])
        return result_table(self, name)

    def _calls(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `calls` from the journal, which must be set. Raises `JournalError` if the journal
        cannot be read.
        """
        assert self.journal is not None
        with JournalView(self.journal) as view:
            yield from view.calls()


def open_results(path: Path, plugins: Plugins, note: Callable[[str], None], model: str | None = None) -> ResultSource:
    """Open the results in a journal, a result file, or an export that can be read. If a run's journal is in the same
    folder as its results, unless these are rescored, the journal is read instead, and `note` is called with a message.
    Raises `JournalError` if a journal cannot be read. Errors in other files are raised on iteration.
    """
    if is_journal(path):
        return _of_journal(path, path, model)
    if not can_read(plugins, path) or path.suffix.lower() in _LINES or _has_result_lines(path):
        beside, header = find_journal(path), read_header(path)
        if beside is not None and not header.get("rescored"):
            note(f"{path} is a result file; using its journal, {beside}.")
            return _of_journal(path, beside, model)
        run, rescored = header.get("id"), bool(header.get("rescored"))
        run = run if isinstance(run, str) else None
        return ResultSource(path, lambda: read_results(path), beside, model, _distributions(header), run, rescored)
    return ResultSource(path, lambda: read_export(plugins, path), model=model)


def _of_journal(path: Path, journal: Path, model: str | None) -> ResultSource:
    """Open the results in a journal. `path` is the file that the user named. Raises `JournalError` if the journal
    cannot be read.
    """
    with JournalView(journal) as view:
        distributions, run = view.status().distributions, view.run_digest()
    return ResultSource(path, lambda: journal_results(journal), journal, model, distributions, run)


def _has_result_lines(path: Path) -> bool:
    """Return whether a file starts like a result file from `karenina run`."""
    return _first_line(path).startswith((b'{"run":{', b'{"metadata":{', ROW_LINE, TABLE_LINE))


def _distributions(header: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the versions of the distributions in a result file's header."""
    versions = header.get("distributions")
    return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}


def _first_line(path: Path) -> bytes:
    """Return a file's first line, up to one million bytes, or nothing if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return file.readline(_LONGEST_LINE)
    except OSError:
        return b""  # the error is raised when the results are read
