"""Reads the rows of a question file: CSV, Excel, Parquet, JSON lines, or a JSON document with rows.

`karenina run`, `check`, `draft`, `judge` and `import` all use this. `find_header_problem` detects tables whose first
row is not a header, but data or a title.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from karenina_benchmark.errors import BenchmarkFileError, Problems, read_text, to_checkpoint_error
from karenina_benchmark.tables.column_roles import CHOICES, ID, QUESTION, find_role
from karenina_benchmark.yaml_files import read as read_yaml
from karenina_toolkit.files import (
    AUTO,
    SUFFIXES,
    Record,
    Records,
    bounded_files,
    find_column,
    iter_rows,
    parse_json,
    plain_cell,
    read_records,
    recognize_encoding,
    suggest_rows,
)
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.printable import quantity, shorten

_JSON: Final = ".json"
_YAML: Final = (".yaml", ".yml")
_PARQUET: Final = ".parquet"
_EXCEL: Final = ".xlsx"
_ZIP: Final = b"PK\x03\x04"
_OLD_EXCEL: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MOST_SHEETS: Final = 8
_LOOKED_AT: Final = 20
"""The number of rows at a path in a JSON document that are checked for a question."""
_ROWS_EXAMINED: Final = 9
"""The number of rows below the first one that are examined."""
_PATH_CELL: Final = re.compile(r"(?:[\w.~-]*[/\\])+[^/\\]*\.\w{1,5}")
_NUMBER_CELL: Final = re.compile(r"-?[0-9]+[.,][0-9]+|[0-9]{5,}")
_QUESTION_CELL: Final = re.compile(r"\S+(?:\s+\S+){3,}\?")
_DATA_CELLS: Final = (_PATH_CELL, _NUMBER_CELL, _QUESTION_CELL)
_LONGEST_SHOWN: Final = 60
_SCORES: Final = "target_scores"
_SCORED: Final = frozenset(("target", "choices"))
COLUMNS_NOT_ROWS: Final = (
    "the file contains a list for each column, not a list of rows",
    "write one object per row, with pandas: pandas.DataFrame(json.load(open(FILE))).to_json(FILE, orient='records')",
)
"""The problem of a JSON document with columns, and a fix."""


class Row(NamedTuple):
    """A row of a file, with its values by column and its place.

    `line` is the line of the file (or the row of the sheet) where the row ends. `place` describes the place in words,
    such as `data.0.qas.1` in a JSON document, and is empty if the line number is enough (`where`). If the row cannot be
    read, it has no values, `problem` is the reason, and `cure` says how to fix it. `is_short` is true for a CSV row
    with fewer cells than the header.
    """

    line: int
    values: Mapping[str, Any]
    place: str = ""
    problem: str = ""
    is_short: bool = False
    cure: str = ""

    def where(self) -> str:
        """Return the location for use in messages."""
        return self.place or f"line {self.line}"


class Table(NamedTuple):
    """The rows and columns of a file, in order.

    `notes` describes what was detected, such as the encoding, and `warnings` what may be wrong. `problems` contains the
    errors for rows that cannot be read, which are not in `rows`.
    """

    file: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[BenchmarkFileError, ...] = ()


@dataclass
class TableRows(Iterator[Row]):
    """Iterates over the rows of an open file. `columns` is empty for JSON, because each row has its own keys.

    `notes` is complete after the first row. Iterating raises `BenchmarkFileError` if a row cannot be read.
    """

    file: Path
    columns: tuple[str, ...]
    notes: list[str]
    _rows: Iterator[Row] = field(repr=False)
    warnings: tuple[str, ...] = ()

    def __next__(self) -> Row:
        """Return the next row. Raises `BenchmarkFileError` if it cannot be read."""
        try:
            return next(self._rows)
        except FileError as error:
            raise to_checkpoint_error(error) from error


def open_rows(
    path: str | Path,
    *,
    rows: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    suffix: str | None = None,
    max_bytes: int | None = None,
    keep_problems: bool = False,
    package: str = "karenina-benchmark",
) -> TableRows:
    """Open a file of rows, and return an iterator that reads them. Raises `BenchmarkFileError` if an option does not
    apply to the file, or if it cannot be opened; a JSON document is only opened when its first row is read. For the
    rules and arguments, see `karenina_toolkit.files.read_records`.

    By default, UTF-8, cp1252 and UTF-16 are detected. Unless `rows` is given, the rows of a JSON document are the only
    list in it whose items have a question. These rows also contain the scalars of the objects that enclose them, and
    their key as `id`. Cells in Excel and Parquet become JSON values, with dates and times in ISO 8601.

    If `keep_problems` is set, a line that cannot be read becomes a row with a `problem`, and strings in a JSON document
    may contain lone surrogates. YAML is read like JSON, but only if it is specified with `suffix`.
    """
    file = Path(path)
    ending = (suffix or file.suffix).lower()
    if ending not in SUFFIXES and not (suffix is not None and ending in _YAML):
        what = f"tables with the file extension {ending!r} are not supported"
        raise BenchmarkFileError(file, "", what, f"convert the file to one of {', '.join(SUFFIXES)}")
    if sheet is not None and ending != _EXCEL:
        raise BenchmarkFileError(file, "", "only Excel files have sheets", "remove --sheet (`sheet` in YAML)")
    if rows is not None and ending not in (_JSON, *_YAML):
        raise BenchmarkFileError(file, "", "--rows applies only to JSON documents", "remove --rows")
    _check_content(file, ending)
    notes: list[str] = []
    if ending in (_JSON, *_YAML):
        table_rows = _read_document(file, ending, rows, encoding, notes, max_bytes, surrogates=keep_problems)
        return TableRows(file, (), notes, table_rows)
    from karenina_template.templates.primitives.units import find_unit

    try:
        records = read_records(
            file,
            suffix=ending,
            sheet=sheet,
            encoding=None if ending in (_EXCEL, _PARQUET) else encoding or AUTO,
            max_bytes=max_bytes,
            keep_problems=keep_problems,
            package=package,
            is_unit=find_unit,
        )
    except FileError as error:
        raise to_checkpoint_error(error) from error
    notes += [records.encoding_note] if records.encoding_note else []
    if records.other_sheets:
        others = ", ".join(map(repr, records.other_sheets[:_MOST_SHEETS]))
        more = len(records.other_sheets) - _MOST_SHEETS
        others += f" and {more} more" if more > 0 else ""
        notes.append(
            f"only the first sheet of {file.name} was read, but other sheets also have rows: {others} (use "
            "--sheet NAME)"
        )
    table_rows = _plain_rows(records, ending, keep_problems=keep_problems)
    not_read = _warn_of_others(file) if ending == _EXCEL else []
    return TableRows(file, records.columns, notes, table_rows, (*records.warnings, *not_read))


def _warn_of_others(file: Path) -> list[str]:
    """Return warnings about pictures and notes in the Excel file `file`, which are not in cells that can be read."""
    with ZipFile(file) as parts:
        names = parts.namelist()
    found = []
    if many := sum(name.startswith("xl/media/") for name in names):
        cure = "save them as files, and name them in a column `attachments`"
        found.append(
            f"the workbook contains {quantity(many, 'picture')} that {'is' if many == 1 else 'are'} not read; {cure}"
        )
    if any(name.startswith(("xl/comments", "xl/threadedComments/")) for name in names):
        cure = "write in a column what belongs to a question"
        found.append(f"the workbook contains notes or comments on cells that are not read; {cure}")
    return found


def _check_content(file: Path, ending: str) -> None:
    """Raise `BenchmarkFileError` for a workbook in the old format, a workbook whose `ending` is not `.xlsx`, or a text
    file with this ending. A file that cannot be opened is not an error here.
    """
    if not file.is_file():
        return  # the reader reports what is wrong
    try:
        with bounded_files.open_file(file, any_size=True) as content:
            start = content.read(len(_OLD_EXCEL)) or b""
    except FileError:
        return
    is_zip, is_old = start.startswith(_ZIP), start == _OLD_EXCEL
    if is_old or (is_zip and ending not in (_EXCEL, _PARQUET)):
        cure = (
            "save the workbook as .xlsx with a spreadsheet program"
            if is_old
            else "rename the file so that its name ends in .xlsx"
        )
        what = "the file is an Excel workbook" + (" in the old format (.xls)" if is_old else "")
        raise BenchmarkFileError(file, "", what, cure)
    if ending == _EXCEL and start and not is_zip and b"\0" not in start:
        cure = "rename the file so that its name ends in .csv, or save it as a workbook"
        raise BenchmarkFileError(file, "", "the file is not an Excel workbook; it may be a CSV file", cure)


def read_rows(
    path: str | Path,
    sheet: str | None = None,
    *,
    rows: str | None = None,
    encoding: str | None = None,
    max_bytes: int | None = None,
    keep_problems: bool = False,
) -> Table:
    """Read all rows of a file. Raises a single `BenchmarkFileError` that contains all errors, also if there are no
    rows; with `keep_problems`, the errors for rows are in the table's `problems` instead, unless no row can be read.

    The other arguments are the same as for `open_rows`.
    """
    in_lines = Path(path).suffix.lower() != _JSON
    opened = open_rows(path, rows=rows, encoding=encoding, sheet=sheet, max_bytes=max_bytes, keep_problems=in_lines)
    problems, good = Problems(), []
    try:
        for row in opened:
            if row.problem:
                problems.found.append(BenchmarkFileError(opened.file, row.where(), row.problem, row.cure))
            else:
                good.append(row)
    except BenchmarkFileError as error:  # nothing after this place can be read
        problems.found.append(error)
        problems.raise_all()
    table_rows = tuple(good)
    if not keep_problems or not table_rows:
        problems.raise_all()
    columns = opened.columns or tuple(dict.fromkeys(name for row in table_rows for name in row.values))
    if not table_rows and not opened.columns:
        cure = "; ".join(opened.notes) or "write one JSON object per line"
        raise BenchmarkFileError(opened.file, "", "the file is empty", cure)
    if not table_rows:
        what = f"the table has the columns {', '.join(columns)} but no rows"
        raise BenchmarkFileError(
            opened.file, "", what, "; ".join(["write a question in the second row", *opened.notes])
        )
    if not columns:
        raise BenchmarkFileError(opened.file, "", "all rows are empty", 'write objects such as {"question": ...}')
    return Table(opened.file, columns, table_rows, tuple(opened.notes), opened.warnings, tuple(problems.found))


def _plain_rows(records: Records, ending: str, *, keep_problems: bool) -> Iterator[Row]:
    """Yield the records as rows, and close them at the end. `ending` is the file's suffix: cells of Excel and Parquet
    files become JSON values. If `keep_problems` is set, invalid records become rows, too; otherwise, `FileError` is
    raised.
    """
    with records:
        classes = _read_classes(records.metadata)
        for record in records:
            try:
                values = record.values
            except FileError as error:
                if not keep_problems:
                    raise
                yield Row(record.number, {}, error.where or record.where, error.what, cure=error.cure)
                continue
            if ending in (_EXCEL, _PARQUET):
                values = name_classes({str(name): _plain_value(cell) for name, cell in values.items()}, classes)
            values = _with_columns(values)
            place = record.where if record.where != f"line {record.number}" else ""  # the default: saves memory
            yield Row(record.number, values, place, is_short=record.is_short)


def _read_document(
    path: Path,
    ending: str,
    rows: str | None,
    encoding: str | None,
    notes: list[str],
    max_bytes: int | None,
    *,
    surrogates: bool,
) -> Iterator[Row]:
    """Yield the rows of a JSON or YAML document, which is read when the first row is requested. Descriptions of what
    was detected are added to `notes`.
    """
    if ending == _JSON:
        data = bounded_files.read_bytes(path, max_bytes=max_bytes)
        if encoding is None:
            encoding, note = recognize_encoding(BytesIO(data), path)
            notes += [note] if note else []
        document = parse_json(data, path, encoding=encoding, surrogates=surrogates)
    else:
        document = read_yaml(read_text(path), path).value
    chosen = rows or find_rows(document, path)
    if chosen is not None and not rows:
        notes.append(f"the rows were read from `{chosen}` in {path.name}; to read other rows, use --rows")
    yield from (_row_of(record) for record in iter_rows(document, chosen, path))


def find_rows(document: Any, path: Path) -> str | None:
    """Return the path to the list in a JSON document whose rows have a question, or None if the document is itself a
    list. Raises `FileError` with the possible paths unless there is exactly one.
    """
    if isinstance(document, list):
        return None
    if has_columns(document):
        raise FileError(path, "", *COLUMNS_NOT_ROWS)
    paths = suggest_rows(document)
    fitting = [place for place in paths if _has_questions(document, place, path)]
    if len(fitting) == 1:
        return fitting[0]
    if not paths:
        cure = "pass a file with a list of rows; `karenina import` reads other tools' files"
        raise FileError(path, "", "the file is neither a benchmark nor a list of rows", cure)
    cure = (
        f"specify the path to the rows with {' or '.join(f'--rows {shlex.quote(place)}' for place in fitting or paths)}"
    )
    what = (
        "the file is not a list of rows, and no row in it has a question"
        if not fitting
        else "the file contains several lists of rows"
    )
    raise FileError(path, "", what, cure)


def has_columns(document: Any) -> bool:
    """Return whether a JSON document is a table by columns: an object of lists of equal length, or of objects with
    equal keys, as pandas writes, with a name for the question. None of the lists contains rows, which have a question
    each.
    """
    if not isinstance(document, Mapping) or find_role(map(str, document), QUESTION) is None:
        return False
    columns = list(document.values())
    are_lists = all(isinstance(column, list) and not (column and _are_rows(column[:1])) for column in columns)
    are_objects = all(isinstance(column, Mapping) and "0" in column for column in columns)
    same = {len(column) for column in columns} if are_lists or are_objects else set()
    return len(columns) > 1 and len(same) == 1 and same != {0}


def _has_questions(document: Any, rows: str, path: Path) -> bool:
    """Return whether each of the first 20 rows at the path `rows` in a document has a question. Returns False for an
    invalid path.
    """
    try:
        values = [row.value for row in islice(iter_rows(document, rows, path), _LOOKED_AT)]
    except FileError:
        return False
    return _are_rows(values)


def _are_rows(values: Sequence[Any]) -> bool:
    """Return whether all values are objects with a question."""
    return all(isinstance(value, Mapping) and find_role(map(str, value), QUESTION) is not None for value in values)


def _row_of(record: Record) -> Row:
    """Convert a record of a document to a row. It includes the scalars that enclose the record, and its key as `id`,
    unless the record has these names itself. A record that is not an object becomes a row with a `problem`.
    """
    if not isinstance(record.value, Mapping):
        return Row(record.number, {}, record.where, "the row is not a JSON object")
    around = {name.rpartition(".")[2]: value for name, value in record.outer.items()}
    own = {str(name): value for name, value in record.value.items()}
    values = {**{name: value for name, value in around.items() if find_column(own, name) is None}, **own}
    if record.key is not None and find_role(own, ID) is None:
        values[ID] = record.key
    values = {**_with_columns(values)}
    return Row(record.number, values, f"row {record.where}" if record.where.isdecimal() else record.where)


def _with_columns(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a row, with a question that is an object with a `stem` and `choices`, as in ARC, as columns
    of its own, and with the options in `target_scores`, as in BIG-bench, as `choices`, and the letter of the one with
    the score 1 as `target`, if all others have the score 0. Other rows are returned unchanged.
    """
    question, scores = values.get(QUESTION), values.get(_SCORES)
    if isinstance(question, Mapping) and isinstance(question.get("stem"), str):
        own = {str(name): value for name, value in question.items() if name != "stem" and str(name) not in values}
        return {**values, QUESTION: question["stem"], **own}
    if not isinstance(scores, Mapping) or not 2 <= len(scores) <= len(ascii_uppercase) or _SCORED & values.keys():
        return values
    points = list(scores.values())
    if not all(isinstance(point, int | float) and point in (0, 1) for point in points) or sum(points) != 1:
        return values
    rest = {name: value for name, value in values.items() if name != _SCORES}
    return {**rest, CHOICES: [*map(str, scores)], "target": ascii_uppercase[points.index(1)]}


def _plain_value(value: Any) -> Any:
    """Return an Excel or Parquet cell, or a value in one, as a JSON value."""
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    return plain_cell(value)


def _read_classes(metadata: Mapping[bytes, bytes]) -> dict[str, list[Any]]:
    """Return the class names of columns, which the `datasets` library stores in a file's metadata, or an empty dict."""
    try:
        description = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        return {}
    info = description.get("info") if isinstance(description, Mapping) else None
    features = info.get("features") if isinstance(info, Mapping) else None
    return find_classes(features) if isinstance(features, Mapping) else {}


def find_classes(types: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the class names for each column of class numbers, given the types of all columns as a Hugging Face dataset
    states them.
    """
    return {
        name: kind["names"]
        for name, kind in types.items()
        if isinstance(kind, Mapping) and kind.get("_type") == "ClassLabel" and isinstance(kind.get("names"), list)
    }


def name_classes(values: Mapping[str, Any], classes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Replace class numbers in the values of a row with names."""
    return {key: _class_name(value, classes[key]) if key in classes else value for key, value in values.items()}


def _class_name(value: Any, names: list[Any]) -> Any:
    """Return the name of a class, or None for -1, which stands for a class that is not published. A value that is not a
    class number is returned unchanged.
    """
    if value == -1 and not isinstance(value, bool):
        return None
    is_class = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return names[value] if is_class else value


def find_header_problem(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, str] | None:
    """Return the problem and a fix if the first row of a table is probably not a header, or None if it may be one.

    A row that has a column name for the question is always a header. Any other row is not a header if one of the next
    rows has such a name, if one of its cells also occurs in the rows below, or if a cell is a number, a path or a
    question like the cells below it.
    """
    if find_role(columns, QUESTION) is not None:
        return None
    for row in rows[:_ROWS_EXAMINED]:
        names = [str(cell) for cell in row.values.values() if cell is not None]
        if len(names) > 1 and len(set(names)) == len(names) and find_role(names, QUESTION) is not None:
            return f"the header seems to be in {row.where()}", "delete the lines above it"
    below = [row.values for row in rows if [*map(str, row.values.values())] != [*columns]]
    alike = next((column for column in columns if _is_data_cell(column, [str(row.get(column)) for row in below])), None)
    if alike is None:
        return None
    shown = repr(shorten(alike, _LONGEST_SHOWN))
    what = f"the first row looks like data, not like a header: {shown} looks like the cells below it"
    return what, "insert a row with the column names above the first row, such as question,answer"


def _is_data_cell(column: str, cells: Sequence[str]) -> bool:
    """Return whether `column`, a cell in the first row, equals one of the `cells` below it, or is a path, number or
    question like each of the first nine of them.
    """
    first = cells[:_ROWS_EXAMINED]
    return column in cells or any(
        like.fullmatch(column) and first and all(like.fullmatch(cell) for cell in first) for like in _DATA_CELLS
    )
