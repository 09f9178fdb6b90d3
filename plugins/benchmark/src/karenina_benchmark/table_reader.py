"""Read the rows of a CSV, Excel or JSONL file."""

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
from karenina_toolkit.value_limits import trouble_in_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = b" \t\r\n"
_DELIMITERS = (",", ";", "\t")
_CELLS_OF_A_ROW = 5
_CELLS_AT_LEAST = 100_000
_BYTES_OF_A_CELL = 20
"""A file of the largest size may have one cell for so many bytes: five million, as long as nobody raises the bound."""


@dataclass(frozen=True)
class Row:
    """One row: the line of the file (of the sheet, in Excel) where it ends, and its values by column."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of a file, and its columns in their order."""

    file: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_rows(path: str | Path, sheet: str | None = None, *, max_bytes: int | None = None) -> Table:
    """Read a table: `.csv`, `.tsv`, `.xlsx` or `.jsonl` (`.ndjson`) by its ending.

    CSV is UTF-8, with or without a byte-order mark; the delimiter is comma, semicolon or tab, whichever stands in the
    header most. The first row of CSV and Excel names the columns; their empty cells are None, and empty rows at the
    end do not count. `sheet` names a sheet of an Excel file (its first one by default).

    At most 100 MB are read, unpacked, and five million cells; `max_bytes` or the environment variable
    `KARENINA_MAX_FILE_BYTES` sets another bound for both. Raises `CheckpointError`.
    """
    with bounded_files.allowing(max_bytes):
        return _read_rows(Path(path), sheet)


def _read_rows(file: Path, sheet: str | None) -> Table:
    ending = file.suffix.lower()
    if sheet is not None and ending != ".xlsx":
        raise CheckpointError(file, "", "only Excel files have sheets", "leave `sheet` out")
    if ending in (".csv", ".tsv"):
        return _table(file, _csv_rows(file))
    if ending == ".xlsx":
        return _table(file, _excel_rows(file, sheet))
    if ending in (".jsonl", ".ndjson"):
        return _jsonl(file)
    raise CheckpointError(file, "", f"the ending {ending!r} is none of .csv, .tsv, .xlsx, .jsonl", "convert the file")


def _csv_rows(file: Path) -> Iterator[tuple[int, list[Any]]]:
    text = read_text(file)
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=lambda mark: _outside_quotes(header, mark))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, [cell if cell != "" else None for cell in cells]
    except csv.Error as error:
        raise CheckpointError(
            file, f"line {reader.line_num}", f"this is no CSV: {error}", "correct the quotes there, or give JSONL"
        ) from error


def _outside_quotes(line: str, mark: str) -> int:
    return sum(part.count(mark) for part in line.split('"')[::2])


def _excel_rows(file: Path, sheet: str | None) -> Iterator[tuple[int, list[Any]]]:
    try:
        import openpyxl  # uses defusedxml where it finds it
        from defusedxml import DefusedXmlException
    except ImportError as error:
        raise CheckpointError(
            file,
            "",
            f"reading Excel needs {error.name}, which is not installed",
            'pip install "karenina-benchmark[excel]"',
        ) from error
    try:
        with bounded_files.open_file(file) as opened:
            _check_unpacked(file, opened)
            with closing(openpyxl.load_workbook(opened, read_only=True, data_only=True)) as book:
                if sheet is not None and sheet not in book.sheetnames:
                    cure = f"it has {', '.join(book.sheetnames)}"
                    raise CheckpointError(file, "", f"there is no sheet {sheet!r}", cure)
                page = book[sheet] if sheet is not None else book.worksheets[0]
                page.reset_dimensions()  # what the file says of them may be far too much
                for number, cells in enumerate(page.iter_rows(values_only=True), 1):
                    yield number, [_excel_value(cell) for cell in cells]
    except CheckpointError:
        raise
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    # A damaged or hostile file makes openpyxl, zipfile and the XML parser raise whatever their code runs into.
    except Exception as error:
        cause = _first_cause(error)
        said = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
        if isinstance(cause, DefusedXmlException):
            said = "its XML declares entities, which no spreadsheet program writes"
        what = f"this is not an Excel file that can be read: {said}"
        raise CheckpointError(file, "", what, "save it as .xlsx or .csv with a spreadsheet program") from error


def _first_cause(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _check_unpacked(file: Path, opened: IO[bytes]) -> None:
    """Raise if the parts of an Excel file are larger than the bound. No more of a part is unpacked than it states."""
    most = bounded_files.max_file_bytes()
    with ZipFile(opened) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > most:
        raise bounded_files.too_large(
            file, f"it has {bounded_files.size(size)} unpacked, and at most {bounded_files.size(most)} are read", most
        )


def _excel_value(cell: Any) -> Any:
    if cell is None or cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    if isinstance(cell, str | bool | int | float):
        return cell
    text: str = cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    return text.removesuffix("T00:00:00")


def _counted(file: Path, lines: Iterator[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows, and raise beyond the cells that are read: a row takes some, even if it is empty."""
    most = max(_CELLS_AT_LEAST, bounded_files.max_file_bytes() // _BYTES_OF_A_CELL)
    cells = 0
    for line, row in lines:
        cells += len(row) + _CELLS_OF_A_ROW
        if cells > most:
            cure = f"delete empty rows and columns, or {bounded_files.cure(bounded_files.max_file_bytes())}"
            raise CheckpointError(file, f"line {line}", f"the table has more than {most:,} cells", cure)
        yield line, row


def _table(file: Path, lines: Iterator[tuple[int, list[Any]]]) -> Table:
    found = list(_counted(file, lines))
    while found and all(cell is None for cell in found[-1][1]):
        found.pop()
    first = next((place for place, (_, cells) in enumerate(found) if any(cell is not None for cell in cells)), None)
    if first is None:
        raise CheckpointError(file, "", "the file is empty", "its first row names the columns")
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
                f"the row has {len(cells)} cells and the file {len(columns)} columns",
                "put a text that holds the delimiter into quotes",
            )
        padded = cells[: len(columns)] + [None] * (len(columns) - len(cells))
        rows.append(Row(number, dict(zip(columns, padded, strict=True))))
    return Table(file, tuple(columns), tuple(rows))


def _jsonl(file: Path) -> Table:
    rows: list[Row] = []
    columns: dict[str, None] = {}
    try:
        with bounded_files.open_file(file) as opened:
            for number, line in enumerate(bounded_files.lines_of(opened, file), 1):
                if not line.strip(_BLANK):
                    continue
                values = _row(line.removeprefix(BOM_UTF8) if number == 1 else line, file, number)
                columns.update(dict.fromkeys(values))
                rows.append(Row(number, values))
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    if not rows:
        raise CheckpointError(file, "", "the file is empty", "one JSON object a line")
    return Table(file, tuple(columns), tuple(rows))


def _row(line: bytes, file: Path, number: int) -> dict[str, Any]:
    where = f"line {number}"
    try:
        text = line.decode()
        values = json.loads(text)
    except UnicodeDecodeError as error:
        raise CheckpointError(file, where, "the text is not UTF-8", "save it with the encoding UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(file, where, f"this is no JSON: {error}", "one object a line") from error
    if not isinstance(values, dict):
        raise CheckpointError(file, where, "the line holds no JSON object", "one object a line")
    trouble = trouble_in_json(text, values)
    if trouble is not None:
        raise CheckpointError(file, where, trouble.what, trouble.cure)
    return values
