"""The results of a run with their summary, and functions that read result files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_core import from_json, to_json

from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import Usage
from karenina_engine.results.aggregate import Failure, GroupKey, GroupSummary, Summary, Totals
from karenina_engine.results.reference_results import Rows, convert_rows, find_rows, is_own, is_row
from karenina_engine.results.result_file import is_header
from karenina_engine.results.result_lines import LineReader, LineWriter, ResultFileError, parse_result
from karenina_engine.results.result_text import set_html
from karenina_engine.results.summary_text import GROUP_TEXTS, group_table, summary_rows
from karenina_engine.results.tables import Table, result_table
from karenina_terminal.text_layout import Facts, Grid, Title, format_repr
from karenina_toolkit.files import bounded_files, read_json, read_records, replace_file
from karenina_toolkit.printable import quantity
from karenina_toolkit.raising import raises

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_SQLITE: Final = b"SQLite format 3\0"
_OF_BENCHMARKS: Final = (".yaml", ".yml", ".jsonld", ".csv", ".xlsx")

logger = logging.getLogger("karenina")


class VerificationResultSet:
    """A list of results in memory, with their summary.

    Use `save` and `load` to store them in JSONL files, with one JSON object per line.
    """

    def __init__(self, results: Iterable[VerificationResult] = ()) -> None:
        self.results = list(results)

    def __iter__(self) -> Iterator[VerificationResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        """Return the number of results, the groups and the summary as text with several lines."""
        title = Title(f"VerificationResultSet of {quantity(len(self), 'result')}")
        totals = self.totals()
        groups = group_table(totals.summary())
        return format_repr([[title, *([Grid(groups, GROUP_TEXTS)] if groups else []), Facts([*summary_rows(totals)])]])

    def _repr_html_(self) -> str:
        """Return the summary and a table of the results as HTML for notebooks."""
        return set_html(self, self.totals())

    def __getitem__(self, index: int) -> VerificationResult:
        return self.results[index]

    def filter(self, keep: Callable[[VerificationResult], bool]) -> Self:
        """Return the results for which `keep` returns True."""
        return type(self)(result for result in self.results if keep(result))

    def totals(self) -> Totals:
        """Return the totals of all results."""
        totals = Totals()
        for result in self.results:
            totals.add(result)
        return totals

    def summary(self) -> Summary:
        """Return the counts and, for each group, the pass rate with its interval and bounds. A group is an answering
        model and a judge. If there are several groups, the overall `pass_rate` is None.
        """
        return self.totals().summary()

    def by_models(self) -> dict[GroupKey, GroupSummary]:
        """Return the summary of each group, by the ids of its answering model and judge."""
        return self.totals().by_models()

    def failures(self) -> list[Failure]:
        """Return the reasons why items were not judged, most frequent first."""
        return self.totals().failures()

    def failed_checks(self) -> list[Failure]:
        """Return the reasons why checks of answers were not performed although they were planned, most frequent first.
        The items went on without the check.
        """
        return self.totals().failed_checks()

    def usage(self) -> Usage:
        """Return the total number of calls and tokens of all results. An answer shared by several judges is only
        counted once.
        """
        return self.totals().usage()

    def table(self, name: str = "results") -> Table:
        """Return a table of the results, or of their fields, traits, excerpts or stages. Raises `ConfigError` for any
        other `name`. For the columns of these tables, see `karenina_engine.results.table_columns`.
        """
        return result_table(self.results, name)

    def to_pandas(self, table: str = "results") -> pandas.DataFrame:
        """Return a table as a pandas DataFrame. Raises `LibraryMissing` if pandas is not installed."""
        return self.table(table).to_pandas()

    def to_polars(self, table: str = "results") -> polars.DataFrame:
        """Return a table as a Polars DataFrame. Raises `LibraryMissing` if Polars is not installed."""
        return self.table(table).to_polars()

    def to_arrow(self, table: str = "results") -> pyarrow.Table:
        """Return a table as an Arrow table. Raises `LibraryMissing` if pyarrow is not installed."""
        return self.table(table).to_arrow()

    def save(self, path: str | Path, *, full: bool = False) -> None:
        """Write all results to a JSONL file, replacing an existing file once everything has been written. If `full` is
        set, each line contains all fields of its result; otherwise, fields that results share are written once (see
        `karenina_engine.results.result_lines`). Links are followed, and a missing folder is created. Raises `OSError`
        if the file cannot be written.
        """
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        writer = LineWriter()
        lines = (
            line.encode() + b"\n"
            for result in self.results
            for line in ([result.model_dump_json()] if full else writer.lines(result))
        )
        replace_file(file, lambda new: new.writelines(lines), follow=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the results in a file. Raises `ResultFileError` if the file cannot be read."""
        return cls(read_results(path))


class StoredResults:
    """A lazy view of the `length` results in a file. Each iteration reads the file again."""

    def __init__(self, path: Path, length: int) -> None:
        self._path = path
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[VerificationResult]:
        """Iterate over the results, reading them one at a time."""
        return read_results(self._path)


def read_results(path: str | Path) -> Iterator[VerificationResult]:
    """Yield the results in a file, one at a time. Raises `ResultFileError`, with the line, if the file cannot be read
    or contains anything else. An incomplete last line after other results, left by a killed run, is skipped with a
    warning.

    The file can have any size, but the length of its lines is limited. There are also warnings for repeated results,
    and for lines that were copied without the table rows that contain the names of models and stages. JSON documents
    and files of the reference implementation are read as a whole, up to the size limit for files.
    """
    count, reader, searched, noted = 0, LineReader(), False, False
    rows = _read_rows(Path(path))
    if rows is not None:
        yield from _parse_rows(rows, Path(path))
        return
    repeated = _Repeated(Path(path))
    try:
        with bounded_files.open_file(Path(path), any_size=True) as opened:
            for number, line in enumerate(bounded_files.iter_lines(opened, Path(path), any_size=True), 1):
                if number == 1:
                    _check_is_result_file(line, Path(path))
                if not line.strip():
                    continue
                if is_header(line):
                    reader.add_rows(line)
                    continue
                if count and not line.endswith(b"\n") and raises(ValueError, from_json, line):
                    repeated.report()
                    logger.warning(
                        "%s ends within line %d, which was skipped; the results before that line (%d) are complete. "
                        "If a run was stopped, `karenina resume` with its journal writes the rest",
                        *(path, number, count),
                    )
                    return
                place = f"{path}, line {number}"
                result = reader.read(line, place)
                if reader.nameless and not noted:
                    if not searched:  # the rows may come later, as in a sorted file
                        searched, reader.nameless = True, False
                        _add_all_rows(reader, Path(path))
                        result = reader.read(line, place)
                    if reader.nameless:
                        noted = True
                        _note_missing_rows(place)
                repeated.add(result, f"line {number}")
                yield result
                count += 1
        repeated.report()
        if not count:
            logger.warning("%s contains no results", path)
    except bounded_files.FileError as error:
        raise ResultFileError(f"the result file {error.path} cannot be read: {error.what}; {error.cure}") from error


def count_results(path: Path) -> int:
    """Return the number of results in a file. Lines are not parsed, but an incomplete last line after others is not
    counted. If the file cannot be read to the end, returns the number of results found so far.
    """
    rows = _read_rows(path)
    if rows is not None:
        return sum(not _is_header_row(row) for _, row in rows)
    count, last = 0, b""
    try:
        with bounded_files.open_file(path, any_size=True) as opened:
            for line in bounded_files.iter_lines(opened, path, any_size=True):
                if line.strip() and not is_header(line):
                    count, last = count + 1, line
    except bounded_files.FileError:
        return count  # `read_results` reports what is wrong
    return count - 1 if count > 1 and not last.endswith(b"\n") and raises(ValueError, from_json, last) else count


def is_of_reference(path: Path) -> bool:
    """Return whether a readable file contains results of the reference implementation. Such results have no journal."""
    rows = _read_rows(path) if path.is_file() else None
    return bool(rows) and not any(is_own(row) for _, row in rows or ())


def _read_rows(path: Path) -> Rows | None:
    """Return the results in a JSON document or in a file of the reference implementation, with their locations, or None
    for other and unreadable files.
    """
    try:
        with bounded_files.open_file(path, any_size=True) as opened:
            first = next(iter(bounded_files.iter_lines(opened, path, any_size=True)), b"")
        row = _parse_or_none(first)
        if is_row(row):
            if is_own(row):
                return None
            with read_records(path, suffix=".jsonl") as records:
                return [(record.where, record.value) for record in records]
        if first.lstrip()[:1] not in (b"{", b"[") or (row is not None and is_header(first)):
            return None
        return find_rows(read_json(path, surrogates=True))
    except bounded_files.FileError:
        return None  # the caller reads it again, and reports what is wrong


def _parse_or_none(text: bytes) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None


def _parse_rows(rows: Rows, path: Path) -> Iterator[VerificationResult]:
    """Yield the results in the given JSON values, converting them if all come from the reference implementation. Raises
    `ResultFileError`, with the location, if a value is not a result. Logs a warning if there are none.
    """
    if not rows:
        logger.warning("%s contains no results", path)
    if not rows or any(is_own(row) for _, row in rows):
        reader, noted, repeated = LineReader(), False, _Repeated(path)
        for _, row in rows:
            if _is_header_row(row):  # the lines of a result file as one document, as `jq --slurp` writes them
                reader.add_rows(to_json(row))
        for place, row in rows:
            if not _is_header_row(row):
                result = reader.read(to_json(row), f"{path}, {place}")
                if reader.nameless and not noted:
                    noted = True
                    _note_missing_rows(f"{path}, {place}")
                repeated.add(result, place)
                yield result
        repeated.report()
        return
    _note_reference(path, len(rows))
    try:
        for place, values in convert_rows(rows):
            yield parse_result(to_json(values), f"{path}, {place}")
    except ResultFileError:
        raise
    except ValueError as error:
        raise ResultFileError(f"{path}, {error}") from error


def _is_header_row(row: Any) -> bool:
    """Return whether a JSON value is a header or table line."""
    return isinstance(row, Mapping) and next(iter(row), None) in ("run", "table")


def _add_all_rows(reader: LineReader, path: Path) -> None:
    """Read all table rows in a file into `reader`. Raises `FileError` if the file cannot be read."""
    with bounded_files.open_file(path, any_size=True) as opened:
        for line in bounded_files.iter_lines(opened, path, any_size=True):
            reader.add_rows(line)


class _Repeated:
    """Finds results that occur more than once, for example because overlapping files were joined."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[int] = set()
        self._first = ""
        self._count = 0

    def add(self, result: VerificationResult, place: str) -> None:
        """Record a result, and whether the same one was added before. `place` is its location in the file."""
        digest = hash((result.item, result.metadata.result_id))  # takes less memory than the ids
        if digest in self._seen:
            self._first = self._first or place
            self._count += 1
        self._seen.add(digest)

    def report(self) -> None:
        """Log a warning if any results occurred more than once."""
        if self._count:
            _note_repeated(self._path, self._first, self._count)


@cache
def _note_repeated(path: Path, place: str, count: int) -> None:
    """Log that a file contains repeated results. This is only logged once per process."""
    logger.warning(
        "%s contains %s more than once, the first at %s. A repeated result counts each time; remove the repeated lines",
        path,
        quantity(count, "result"),
        place,
    )


@cache
def _note_missing_rows(place: str) -> None:
    """Log that a line lacks the names of models and stages. This is only logged once per process."""
    logger.warning(
        "%s does not contain the names of its models and stages, which are in the lines at the start of "
        'the file that the run wrote ({"table": ...}). The outcome, answer, fields and times were read, but the names '
        "are 'unknown'. Other such lines are read in the same way. `--full` writes lines that can be read on their own",
        place,
    )


@cache
def _note_reference(path: Path, count: int) -> None:
    """Log that results keep the verdicts of the reference implementation. This is only logged once per process."""
    logger.warning(
        "%s was written by the reference implementation; its results (%d) keep their verdicts",
        path,
        count,
    )


def _check_is_result_file(line: bytes, path: Path) -> None:
    """Raise `ResultFileError` if the first line belongs to another kind of file. The message names the command that can
    read that file.
    """
    if line.startswith(_SQLITE):
        raise ResultFileError(
            f"{path} is a journal, not a result file; use `karenina status {quote(str(path))}` to show the progress "
            f"of its run, or `karenina export {quote(str(path))}` to write its results"
        )
    if not line.lstrip().startswith(b"{") or path.suffix.lower() in _OF_BENCHMARKS:
        raise ResultFileError(
            f"{path} is not a result file, which has one JSON object on each line (`karenina run` writes result files)"
            + (f"; if it is a benchmark, run it with `karenina run {quote(str(path))}`" if path.suffix else "")
        )
