"""Records and tables. The first row of a table contains the column names."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.files.texts import iter_lines
from karenina_toolkit.printable import quantity, shorten

Cells = Iterator[tuple[int, list[Any]]]
"""The rows of a table, each with its number."""
DELIMITERS: Final = (",", ";", "\t")
UNNAMED: Final = "Unnamed: "
"""The name prefix for columns without a name. pandas uses it too, and writes its index without a name."""
_MOST_UNNAMED: Final = 20
"""The maximum number of unnamed columns after the last named one. Spreadsheets may have thousands of empty ones."""
_LONGEST_ROW: Final = 16_000_000
"""The maximum number of characters in a CSV row. Python's reader needs about 10 bytes for each."""
CELLS_PER_ROW: Final = 5
"""The number of cells that each row counts as, in addition to its own cells."""
_MIN_CELL_LIMIT: Final = 100_000
_BYTES_PER_CELL: Final = 20
"""The number of bytes per cell. The limit on cells is the size limit divided by this number.

By default, this is five million cells.
"""


@dataclass(slots=True)
class Record:
    """A row of a file, with its location for use in messages.

    `where` is the location in the `file`: `line 3` in text (the line in which the row ends), `row 3` in a sheet or
    Parquet file, or `data.0.qas.1` in a JSON document. `number` is the number of the line or row. In JSON documents,
    rows are counted from 1.

    `value` is any JSON value, or a mapping from columns to cells, with None for empty cells. Values from Excel and
    Parquet have their own types, such as dates. `around` contains the objects that enclose the row in a JSON document,
    innermost last, each with its path without `*`. `key` is the row's key if the rows are the values of an object.
    `is_short` is true if a row of text has too few cells. If the row could not be read, `problem` is the reason, and
    there is no value.
    """

    file: Path
    where: str
    number: int
    value: Any = None
    around: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    key: str | None = None
    problem: FileError | None = None
    is_short: bool = False

    @property
    def values(self) -> Mapping[str, Any]:
        """The row as a mapping. Raises `FileError` if the row is not a mapping or could not be read."""
        if self.problem is not None:
            raise self.problem
        if isinstance(self.value, Mapping):
            return self.value
        kind = "line" if self.where.startswith("line ") else "row"
        raise FileError(self.file, self.where, f"the {kind} is not a JSON object", f"write one object per {kind}")

    @property
    def outer(self) -> Mapping[str, Any]:
        """Return the scalars of the objects that enclose the row, keyed by path without `*`, such as `data.title`."""
        return {
            f"{path}.{name}" if path else name: value
            for path, enclosing in self.around
            for name, value in enclosing.items()
            if not isinstance(value, dict | list)
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column of the row or, if there is none, a scalar of an object that encloses the row
        (innermost first; `name` may be a path in it, as in `data.title`), or `default`. Case is ignored unless there is
        an exact match. An empty cell is None, whatever the `default`. Raises `FileError` if the row is not a mapping or
        could not be read.
        """
        values = self.values
        column = find_column(values, name)
        if column is not None:
            return values[column]
        for path, enclosing in reversed(self.around):
            start = f"{path}." if path else ""
            is_path = name.casefold().startswith(start.casefold())
            for candidate in (name, name[len(start) :]) if is_path else (name,):
                column = find_column(enclosing, candidate)
                if column is not None and not isinstance(enclosing[column], dict | list):
                    return enclosing[column]
        return default

    def __str__(self) -> str:
        """Return the file and the record's location in it."""
        return f"{self.file}, {self.where}" if self.where else str(self.file)


def find_column(columns: Iterable[str], name: str) -> str | None:
    """Return the column with the given name, or None. Case is ignored unless there is an exact match."""
    folded, near = name.casefold(), None
    for column in columns:
        if column == name:
            return column
        if near is None and column.casefold() == folded:
            near = column
    return near


def read_csv(file: IO[bytes], path: Path, encoding: str | None, delimiter: str | None, *, any_size: bool) -> Cells:
    """Yield the rows of a CSV file, each with the number of the line in which it ends. Empty cells are None. Raises
    `FileError` if the delimiter or the CSV is invalid, or if the file or a row is too long; `any_size` allows files of
    any size and longer rows. Also raises the field limit of `csv` for the whole process.

    `delimiter` defaults to the most frequent of comma, semicolon and tab in the first line that is not blank, or to a
    vertical bar if that line contains none of them. A line that begins with a bar is one of a Markdown table.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        what = (
            "the delimiter must be a single character other than a quote or line break, not "
            f"{shorten(repr(delimiter), 40)}"
        )
        raise FileError(path, "", what, 'use a delimiter such as "," or ";"')
    # This limit is for the whole process, and 131,072 characters by default, which is too low for texts in tables.
    csv.field_size_limit(max(csv.field_size_limit(), bounded_files.LONGEST_LINE))
    longest = bounded_files.LONGEST_LINE if any_size else _LONGEST_ROW
    lines = iter_lines(file, path, encoding, newline="", any_size=any_size, longest=longest)
    start = []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    header = start[-1] if start else ""
    unquoted = "".join(header.split('"')[::2])
    usual = max(DELIMITERS, key=unquoted.count)
    has_bars = "|" in unquoted and not unquoted.lstrip().startswith("|")
    chosen = delimiter or ("|" if has_bars and usual not in unquoted else usual)
    length = 0

    def limit_row() -> Iterator[str]:
        """Yield the lines. Raises `FileError` if a row, which may span several lines, is too long."""
        nonlocal length
        for line in chain(start, lines):
            length += len(line)
            if length > longest:
                what, cure = (
                    f"the row is longer than {longest:,} characters",
                    "close any open quotes in the row, or use JSONL",
                )
                raise FileError(path, f"line {reader.line_num + 1}", what, cure)
            yield line

    reader = csv.reader(limit_row(), delimiter=chosen, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, [cell or None for cell in cells]
            length = 0
    except csv.Error as error:
        what, cure = f"the CSV is not valid: {error}", "correct the quotes in this line, or use JSONL"
        raise FileError(path, f"line {reader.line_num}", what, cure) from error


def limit_cells(path: Path, rows: Cells, where: Callable[[int], str], width: int = 0) -> Cells:
    """Yield the rows unchanged. Raises `FileError`, with the location that `where` returns for a row's number, if they
    have more cells in total than `cell_limit()`; each row counts as at least `width` cells, plus `CELLS_PER_ROW`.
    """
    limit, count = cell_limit(), 0
    for number, cells in rows:
        count += max(len(cells), width) + CELLS_PER_ROW
        if count > limit:
            raise too_many_cells_error(path, where(number), limit)
        yield number, cells


class CellLimit:
    """Counts the cells in a JSON file, with the same limit as for tables.

    Each row counts as `CELLS_PER_ROW` cells in addition to its own cells.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._limit = self._left = cell_limit()

    def count(self, value: Any, where: str, rows: int = 1) -> None:
        """Count the items of `value`, or one cell for a scalar, and `CELLS_PER_ROW` more for each of `rows`. Raises
        `FileError` at `where` if there are too many cells in total.
        """
        self._left -= rows * CELLS_PER_ROW + (len(value) if isinstance(value, dict | list) else 1)
        if self._left < 0:
            raise too_many_cells_error(self._path, where, self._limit)


def cell_limit() -> int:
    """Return the maximum number of cells in a table, based on the current size limit."""
    return max(_MIN_CELL_LIMIT, bounded_files.max_file_bytes() // _BYTES_PER_CELL)


def too_many_cells_error(path: Path, where: str, limit: int) -> FileError:
    """Return the exception for a table with more than `limit` cells."""
    cure = f"delete empty rows and columns, or {bounded_files.size_limit_cure(bounded_files.max_file_bytes())}"
    return FileError(path, where, f"the table has more than {limit:,} cells", cure)


def read_header(path: Path, rows: Cells, where: Callable[[int], str]) -> tuple[str, ...]:
    """Return the column names in the first row that is not empty. Columns without a name get a generated name. Raises
    `FileError` if all rows are empty or two columns have the same name.
    """
    number = 0
    for number, cells in rows:
        if any(cell is not None for cell in cells):
            return _name_columns(path, cells, where(number))
    what = "all rows are empty" if number else "the file is empty"
    raise FileError(path, "", what, "write the column names in the first row")


def is_unnamed(column: str) -> bool:
    """Return whether a column's name was generated (such as `Unnamed: 0`)."""
    return column.startswith(UNNAMED) and column.removeprefix(UNNAMED).isdecimal()


def _name_columns(path: Path, cells: list[Any], place: str) -> tuple[str, ...]:
    """Return the column names, with generated names for columns that have none. Raises `FileError` if two columns have
    the same name. Modifies `cells`: of the unnamed columns after the last named one, only 20 remain.
    """
    named = max(place for place, cell in enumerate(cells, 1) if cell is not None)
    del cells[named + _MOST_UNNAMED :]
    columns = [str(cell).strip() if cell is not None else "" for cell in cells]
    columns = [column or f"{UNNAMED}{number}" for number, column in enumerate(columns)]
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise FileError(path, place, f"two columns are named {column!r}", "rename one of them")
        seen.add(column)
    return tuple(columns)


def iter_records(
    path: Path,
    columns: Iterable[str],
    rows: Cells,
    where: Callable[[int], str],
    only: Collection[str] | None,
    *,
    keep_problems: bool = False,
) -> Iterator[Record]:
    """Yield the rows below the header as records of the columns in `only` (by default, all), filling short rows with
    None. Empty rows become records whose values are all None, but are dropped at the end of the file. If a row has a
    value beyond the last column, `FileError` is raised or, with `keep_problems`, the record has a `problem`.

    Even then, it is raised if the first row is a single cell above the others, which is a title and not the header.
    """
    columns = tuple(columns)
    width = len(columns)
    names = [column if only is None or column in only else None for column in columns]
    empty = array("Q")
    has_rows = False
    for number, cells in rows:
        if cells.count(None) == len(cells):
            empty.append(number)
            continue
        for blank in empty:
            yield Record(path, where(blank), blank, {name: None for name in names if name is not None})
        del empty[:]
        if len(cells) > width and any(cell is not None for cell in cells[width:]):
            what = f"the row has {len(cells)} cells, but the file has {quantity(width, 'column')}"
            is_sheet = where(number).startswith("row")
            above = f"delete {'rows' if is_sheet else 'lines'} above the column names, such as a title"
            cure = "name the column" if is_sheet else "put values that contain the delimiter in quotes"
            error = FileError(path, where(number), what, cure)
            if width == 1 and not has_rows:
                raise FileError(path, where(number), what, f"{above}, or {cure}")
            if not keep_problems:
                raise error
            yield Record(path, where(number), number, problem=error)
            continue
        has_rows = True
        missing = width - len(cells)
        values = dict(zip(names, [*cells, *[None] * missing], strict=False))
        values.pop(None, None)
        yield Record(path, where(number), number, values, is_short=missing > 0)
