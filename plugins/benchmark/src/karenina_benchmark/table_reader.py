"""Read the rows of a table: a CSV, Excel or JSON lines file."""

from __future__ import annotations

import csv
import io
import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.text_files import read_text, to_checkpoint_error
from karenina_toolkit import bounded_files
from karenina_toolkit.value_limits import find_problem_in_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = b" \t\r\n"
_DELIMITERS = (",", ";", "\t")
_CELLS_PER_ROW = 5
_MIN_CELL_LIMIT = 100_000
_BYTES_PER_CELL = 20
"""The limit on cells is the limit on bytes divided by this: five million cells by default."""


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

    CSV is UTF-8, with or without a byte-order mark; the delimiter is the most frequent of comma, semicolon and tab in
    the header. The first row of CSV and Excel names the columns; empty cells are None, and empty rows at the end are
    dropped. `sheet` names a sheet of an Excel file (its first one by default).

    At most 100 MB (of Excel: unpacked) and five million cells are read; `max_bytes` or the environment variable
    `KARENINA_MAX_FILE_BYTES` changes both limits. Raises `CheckpointError`.
    """
    with bounded_files.limit_file_size(max_bytes):
        return _read_rows(Path(path), sheet)


def _read_rows(file: Path, sheet: str | None) -> Table:
    ending = file.suffix.lower()
    if sheet is not None and ending != ".xlsx":
        raise CheckpointError(file, "", "only Excel files have sheets", "leave `sheet` out")
    if ending in (".csv", ".tsv"):
        return _make_table(file, _read_csv(file))
    if ending == ".xlsx":
        return _make_table(file, _read_excel(file, sheet))
    if ending in (".jsonl", ".ndjson"):
        return _read_json_lines(file)
    what = f"tables with the file name ending {ending!r} are not supported"
    raise CheckpointError(file, "", what, "convert the file to .csv, .tsv, .xlsx or .jsonl")


def _read_csv(file: Path) -> Iterator[tuple[int, list[Any]]]:
    text = read_text(file)
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=lambda character: _count_unquoted(header, character))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, [cell if cell != "" else None for cell in cells]
    except csv.Error as error:
        raise CheckpointError(
            file, f"line {reader.line_num}", f"the CSV is not valid: {error}", "correct the quotes there, or use JSONL"
        ) from error


def _count_unquoted(line: str, character: str) -> int:
    return sum(part.count(character) for part in line.split('"')[::2])


def _read_excel(file: Path, sheet: str | None) -> Iterator[tuple[int, list[Any]]]:
    try:
        import openpyxl  # uses defusedxml if it is installed
        from defusedxml import DefusedXmlException
    except ImportError as error:
        raise CheckpointError(
            file,
            "",
            f"reading Excel files needs {error.name}, which is not installed",
            'install it: pip install "karenina-benchmark[excel]"',
        ) from error
    try:
        with bounded_files.open_file(file) as opened:
            _check_unpacked(file, opened)
            with closing(openpyxl.load_workbook(opened, read_only=True, data_only=True)) as book:
                if sheet is not None and sheet not in book.sheetnames:
                    cure = f"use one of its sheets: {', '.join(book.sheetnames)}"
                    raise CheckpointError(file, "", f"the file has no sheet {sheet!r}", cure)
                page = book[sheet] if sheet is not None else book.worksheets[0]
                page.reset_dimensions()  # the dimensions that a file states may be far too large
                for number, cells in enumerate(page.iter_rows(values_only=True), 1):
                    yield number, [_convert_excel_value(cell) for cell in cells]
    except CheckpointError:
        raise
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    # With a damaged or hostile file, openpyxl, zipfile and the XML parser raise exceptions of many types.
    except Exception as error:
        cause = _first_cause(error)
        reason = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
        if isinstance(cause, DefusedXmlException):
            reason = "its XML declares entities, which no spreadsheet program writes"
        what = f"the Excel file cannot be read: {reason}"
        raise CheckpointError(file, "", what, "save it as .xlsx or .csv with a spreadsheet program") from error


def _first_cause(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _check_unpacked(file: Path, opened: IO[bytes]) -> None:
    """Raise if an Excel file is larger than the limit when unpacked. zipfile unpacks no more than the stated sizes."""
    limit = bounded_files.max_file_bytes()
    with ZipFile(opened) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > limit:
        unpacked, allowed = bounded_files.format_size(size), bounded_files.format_size(limit)
        raise bounded_files.too_large_error(file, f"it has {unpacked} unpacked, and at most {allowed} are read", limit)


def _convert_excel_value(cell: Any) -> Any:
    if cell is None or cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    if isinstance(cell, str | bool | int | float):
        return cell
    text: str = cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    return text.removesuffix("T00:00:00")


def _limit_cells(file: Path, lines: Iterator[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows; raise if there are too many cells. Each row counts for some cells, even if it is empty."""
    limit = max(_MIN_CELL_LIMIT, bounded_files.max_file_bytes() // _BYTES_PER_CELL)
    cells = 0
    for line, row in lines:
        cells += len(row) + _CELLS_PER_ROW
        if cells > limit:
            cure = f"delete empty rows and columns, or {bounded_files.size_limit_cure(bounded_files.max_file_bytes())}"
            raise CheckpointError(file, f"line {line}", f"the table has more than {limit:,} cells", cure)
        yield line, row


def _make_table(file: Path, lines: Iterator[tuple[int, list[Any]]]) -> Table:
    found = list(_limit_cells(file, lines))
    while found and all(cell is None for cell in found[-1][1]):
        found.pop()
    first = next((place for place, (_, cells) in enumerate(found) if any(cell is not None for cell in cells)), None)
    if first is None:
        raise CheckpointError(file, "", "the file is empty", "write the names of the columns in the first row")
    line, header = found[first]
    while header and header[-1] is None:
        header.pop()
    columns = [str(cell).strip() if cell is not None else "" for cell in header]
    seen: set[str] = set()
    for place, column in enumerate(columns, 1):
        if not column:
            raise CheckpointError(file, f"line {line}", f"column {place} has no name", "name it in the first row")
        if column in seen:
            raise CheckpointError(file, f"line {line}", f"two columns are named {column!r}", "rename one of them")
        seen.add(column)
    rows = []
    for number, cells in found[first + 1 :]:
        if any(cell is not None for cell in cells[len(columns) :]):
            raise CheckpointError(
                file,
                f"line {number}",
                f"the row has {len(cells)} cells, but the file has {len(columns)} columns",
                "put texts that contain the delimiter into quotes",
            )
        padded = cells[: len(columns)] + [None] * (len(columns) - len(cells))
        rows.append(Row(number, dict(zip(columns, padded, strict=True))))
    return Table(file, tuple(columns), tuple(rows))


def _read_json_lines(file: Path) -> Table:
    rows: list[Row] = []
    columns: dict[str, None] = {}
    try:
        with bounded_files.open_file(file) as opened:
            for number, line in enumerate(bounded_files.iter_lines(opened, file), 1):
                if not line.strip(_BLANK):
                    continue
                values = _parse_row(line.removeprefix(BOM_UTF8) if number == 1 else line, file, number)
                columns.update(dict.fromkeys(values))
                rows.append(Row(number, values))
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    if not rows:
        raise CheckpointError(file, "", "the file is empty", "write one JSON object per line")
    return Table(file, tuple(columns), tuple(rows))


def _parse_row(line: bytes, file: Path, number: int) -> dict[str, Any]:
    where = f"line {number}"
    try:
        text = line.decode()
        values = json.loads(text)
    except UnicodeDecodeError as error:
        raise CheckpointError(file, where, "the text is not UTF-8", "save it with the encoding UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(file, where, f"the JSON is not valid: {error}", "write one object per line") from error
    if not isinstance(values, dict):
        raise CheckpointError(file, where, "the line is not a JSON object", "write one object per line")
    trouble = find_problem_in_json(text, values)
    if trouble is not None:
        raise CheckpointError(file, where, trouble.what, trouble.cure)
    return values
