"""Read the rows of a table of questions: a CSV, Excel or JSON lines file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.text_files import to_checkpoint_error
from karenina_toolkit.bounded_files import FileError
from karenina_toolkit.files import LINES, TABLES, plain_cell, read_records

_SUFFIXES: Final = (*TABLES, *LINES)


@dataclass(frozen=True)
class Row:
    """A row of a table: its values by column, and the line of the file (or of the sheet) where it ends."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows and the columns of a file, in order."""

    file: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_rows(path: str | Path, sheet: str | None = None, *, max_bytes: int | None = None) -> Table:
    """Read a table: CSV, TSV, Excel or JSON lines, by the suffix of the file.

    `karenina_toolkit.files.read_records` states the rules, and the bounds that `max_bytes` changes. Cells of Excel are
    values of JSON: whole numbers without a fraction, dates and times in ISO 8601. `sheet` names a sheet of an Excel
    file (its first one by default). Raises `CheckpointError`.
    """
    file = Path(path)
    if file.suffix.lower() not in _SUFFIXES:
        what = f"tables with the file name ending {file.suffix.lower()!r} are not supported"
        raise CheckpointError(file, "", what, "convert the file to .csv, .tsv, .xlsx or .jsonl")
    try:
        with read_records(file, sheet=sheet, max_bytes=max_bytes, package="karenina-benchmark") as records:
            columns = records.columns
            found = [(one.number, one.values) for one in records]
    except FileError as error:
        raise to_checkpoint_error(error) from error
    if file.suffix.lower() in LINES:
        if not found:
            raise CheckpointError(file, "", "the file is empty", "write one JSON object per line")
        columns = tuple(dict.fromkeys(name for _, values in found for name in values))
    elif file.suffix.lower() == ".xlsx":
        found = [(line, {name: plain_cell(cell) for name, cell in values.items()}) for line, values in found]
    return Table(file, columns, tuple(Row(line, values) for line, values in found))
