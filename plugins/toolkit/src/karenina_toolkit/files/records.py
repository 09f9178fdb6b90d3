"""Reading the records of a file one at a time."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, Self

from karenina_toolkit.files import bounded_files, json_values, libraries, tables, texts
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.files.tables import Record

LINES: Final = (".jsonl", ".ndjson")
TABLES: Final = (".csv", ".tsv", ".xlsx")
SUFFIXES: Final = (*TABLES, ".parquet", *LINES, ".json")
"""The file name extensions of record files."""
_MOST_SHOWN: Final = 5
_BLANK: Final = " \t\r\n\ufeff"


class Records(Iterator[Record]):
    """The records of an open file, which can only be read once. The file is closed at the end.

    - `columns`: the column names of a table or a Parquet file. It is empty for JSON, where each row has its own keys.
    - `metadata`: the metadata of a Parquet file.
    - `encoding_note`: the encoding, if it was guessed from the text. It is empty for UTF-8, or if the file or the
      caller states the encoding.
    - `other_sheets`: the workbook's other sheets that have cells, if the caller did not name a sheet.
    - `warnings`: warnings about hidden columns and rows, merged cells and formulas without a value in a sheet.

    Iterating raises `FileError` if a row cannot be read.
    """

    def __init__(
        self,
        path: Path,
        rows: Generator[Any, None, None],
        max_bytes: int | None,
        sheet: libraries.SheetFacts | None = None,
    ) -> None:
        self.path = path
        self._rows = rows
        self._max_bytes = max_bytes
        with bounded_files.limit_file_size(max_bytes):
            columns, metadata, note = next(rows)
        self.columns: tuple[str, ...] = columns
        self.metadata: Mapping[bytes, bytes] = metadata
        self.encoding_note: str = note
        self.other_sheets: tuple[str, ...] = tuple(sheet.others) if sheet is not None else ()
        self.warnings: tuple[str, ...] = () if sheet is None else tuple(_sheet_warnings(sheet, columns))

    def __iter__(self) -> Iterator[Record]:
        return self if self._max_bytes is not None else self._rows

    def __next__(self) -> Record:
        if self._max_bytes is None:
            return self._next()
        with bounded_files.limit_file_size(self._max_bytes):  # only for this file, not for others that the caller reads
            return self._next()

    def _next(self) -> Record:
        record: Record = next(self._rows)
        return record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. No more records can be read."""
        self._rows.close()


def read_records(
    path: str | Path,
    *,
    suffix: str | None = None,
    sheet: str | None = None,
    rows: str | None = None,
    only: Collection[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    surrogates: bool = False,
    keep_problems: bool = False,
    any_size: bool = False,
    max_bytes: int | None = None,
    package: str = "karenina-toolkit",
    is_unit: Callable[[str], object] | None = None,
) -> Records:
    """Open a file of records: CSV, TSV, Excel, Parquet, JSON lines or JSON, depending on `suffix` or the file name's
    extension, and return its columns and records, which are read while iterating. Raises `FileError`, which states the
    location and a fix, if the file, or later a record, cannot be read or exceeds a limit.

    JSON lines, CSV and Parquet are read row by row, in constant memory. A JSON document is read as a whole.

    - CSV: the first row that is not empty contains the column names. `delimiter` defaults to the most frequent of
      comma, semicolon and tab in the header, or else to a vertical bar. Empty cells are None, and short rows are filled
      with None. An empty row becomes a record in which all cells are None. Empty rows at the end of the file are
      dropped.
    - Excel: `sheet` is read, or the first sheet that is not hidden. Cells have their own types: strings, numbers,
      booleans, dates and times. Numbers whose number format adds a text for which `is_unit` is true, such as `0 "mg"`,
      and dates that are shown without their day or year, are strings.
    - JSON lines: each line is any JSON value. Blank lines are skipped.
    - JSON: the items of a list, or the items at the path `rows` in a document, such as `examples`, `*` (for rows keyed
      by id) or `data.*.paragraphs.*.qas.*`. The scalars of the objects that enclose a row are its `outer` values.

    In tables, columns without a name are named after their position, such as `Unnamed: 0`. Use `only` to limit the
    columns of the rows.

    Text is decoded as UTF-8 or with `encoding`, unless there is a byte-order mark. With `encoding="auto"`, cp1252 and
    UTF-16 without a byte-order mark are recognized and reported in `encoding_note`. Set `surrogates` to allow unpaired
    surrogates in JSON, which cannot be written back to a file. With `keep_problems`, unreadable JSON lines and rows
    with too many cells do not raise an exception. They become records with a `problem`.

    The limits are:

    - a file: 100 MB (Excel and Parquet: unpacked)
    - a line: 64 MB; a CSV row: 16 million characters
    - a table: five million cells; short rows count as filled, and each row counts as five additional cells
    - JSON: ten million values
    - Excel: 250,000 XML elements in one row, and as many outside of rows

    `max_bytes` or the environment variable `KARENINA_MAX_FILE_BYTES` changes these limits, except those on lines and
    CSV rows. `any_size` disables them for files written by the user, except for JSON documents, pipes and the lines of
    text files. `package` is the distribution whose `excel` and `parquet` extras install the libraries, for use in
    messages.

    Raises `FileError`, which states the location and a fix, if the file cannot be read, the encoding is unknown, the
    delimiter is not a single character, there are no rows at the path, two columns have the same name, or a row has
    more cells than there are columns.
    """
    file = Path(path)
    ending = (suffix or file.suffix).lower()
    if sheet is not None and ending != ".xlsx":
        raise FileError(file, "", "only Excel files have sheets", "remove the `sheet` option")
    if rows is not None and ending != ".json":
        raise FileError(file, "", "only JSON documents can have a path to their rows", "remove the `rows` option")
    reader: Generator[Any, None, None]
    facts = libraries.SheetFacts()
    if ending in (".csv", ".tsv"):
        reader = _read_csv(file, encoding, delimiter, only, any_size, keep_problems=keep_problems)
    elif ending == ".xlsx":
        sheet_cells = libraries.read_excel(file, sheet, facts, any_size=any_size, package=package, is_unit=is_unit)
        reader = _read_table(file, sheet_cells, "row", only, any_size, keep_problems=keep_problems)
    elif ending == ".parquet":
        reader = _read_parquet(file, only, any_size, package)
    elif ending in LINES:
        reader = _read_lines(file, encoding, surrogates, keep_problems, any_size)
    elif ending == ".json":
        reader = _read_document(file, rows, encoding, surrogates)
    else:
        what = f"tables with the file extension {ending!r} are not supported"
        raise FileError(file, "", what, f"convert the file to {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    return Records(file, reader, max_bytes, facts)


def _sheet_warnings(sheet: libraries.SheetFacts, columns: tuple[str, ...]) -> Iterator[str]:
    """Yield a warning if formulas have no stored value, one if cells of several rows are merged, one if there are
    hidden columns, and one if there are hidden rows, each with the first few names.
    """
    if sheet.without_value:
        count, first = len(sheet.without_value), ", ".join(sheet.without_value[:_MOST_SHOWN])
        more = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
        what = (
            "the formula has no stored value and was read as empty"
            if count == 1
            else "the formulas have no stored values and were read as empty"
        )
        yield (
            f"{first}{more}: {what} (the program that wrote the file does not calculate formulas); open the file in "
            "a spreadsheet program and save it"
        )
    if sheet.merged:
        more = f" and {len(sheet.merged) - _MOST_SHOWN} more" if len(sheet.merged) > _MOST_SHOWN else ""
        yield (
            "merged cells have a value only in their first row, and were read as empty in the others: "
            f"{', '.join(sheet.merged[:_MOST_SHOWN])}{more}; unmerge them, and fill in the value if it belongs to all "
            "rows"
        )
    hidden = [columns[at] for at in sheet.hidden if at < len(columns) and not tables.is_unnamed(columns[at])]
    if hidden:
        more = f" and {len(hidden) - _MOST_SHOWN} more" if len(hidden) > _MOST_SHOWN else ""
        names = ", ".join(map(repr, hidden[:_MOST_SHOWN])) + more
        yield f"hidden columns were read like visible ones: {names}; delete any columns that should not be used"
    rows = sheet.hidden_rows
    if rows:
        more = f" and {len(rows) - _MOST_SHOWN} more" if len(rows) > _MOST_SHOWN else ""
        numbers = ", ".join(rows[:_MOST_SHOWN]) + more
        yield f"hidden rows were read like visible ones: {numbers}; delete any rows that should not be used"


def _read_csv(
    path: Path,
    encoding: str | None,
    delimiter: str | None,
    only: Collection[str] | None,
    any_size: bool,
    *,
    keep_problems: bool,
) -> Generator[Any, None, None]:
    """Yield the columns, metadata and encoding note of a CSV file as one item, then its records. The parameters are
    explained in `read_records`.
    """
    with texts.open_text(path, any_size=any_size) as file:
        encoding, note = _recognize(file, path, encoding)
        cells = tables.read_csv(file, path, encoding, delimiter, any_size=any_size)
        yield from _read_table(path, cells, "line", only, any_size, note, keep_problems=keep_problems)


def _recognize(file: IO[bytes], path: Path, encoding: str | None) -> tuple[str | None, str]:
    """Resolve the encoding `auto`, and return any other unchanged. Return the encoding (None for UTF-8) and a note,
    which is empty unless the encoding was guessed.
    """
    if encoding != texts.AUTO:
        return encoding, ""
    recognized, note = texts.recognize_encoding(file, path)
    return (recognized if recognized != texts.UTF8 else None), note


def _read_table(
    path: Path,
    cells: tables.Cells,
    unit: str,
    only: Collection[str] | None,
    any_size: bool,
    note: str = "",
    *,
    keep_problems: bool,
) -> Generator[Any, None, None]:
    """Yield the columns, metadata and encoding note of a table as one item, then its records. `cells` contains all
    rows, including the header, and `unit` is the word for a row in messages. The other parameters are explained in
    `read_records`.
    """

    def where(number: int) -> str:
        return f"{unit} {number}"

    columns = tables.read_header(path, cells if any_size else tables.limit_cells(path, cells, where), where)
    yield columns, {}, note
    rows = cells if any_size else tables.limit_cells(path, cells, where, len(columns))  # short rows are filled
    yield from tables.iter_records(path, columns, rows, where, only, keep_problems=keep_problems)


def _read_parquet(path: Path, only: Collection[str] | None, any_size: bool, package: str) -> Generator[Any, None, None]:
    """Yield the columns, metadata and encoding note of a Parquet file as one item, then its records. All columns are
    listed, even with `only`. The parameters are explained in `read_records`.
    """
    with bounded_files.open_file(path, any_size=any_size) as file:
        parquet = libraries.ParquetRows(file, path, only, any_size=any_size, package=package)
        yield parquet.columns, parquet.metadata, ""
        rows: Iterator[tuple[int, Mapping[str, Any]]] = enumerate(parquet, 1)
        if not any_size:  # a few bytes can represent any number of equal rows
            rows = _limit_rows(path, rows, len(parquet.columns))
        for number, values in rows:
            yield Record(path, f"row {number}", number, values)


def _limit_rows(
    path: Path, rows: Iterator[tuple[int, Mapping[str, Any]]], width: int
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the numbered rows of `width` columns unchanged. Raises `FileError` if they have too many cells in total."""
    cells = [None] * width
    counted = tables.limit_cells(path, ((number, [values, *cells]) for number, values in rows), "row {}".format)
    return ((number, cells[0]) for number, cells in counted)


def _read_lines(
    path: Path, encoding: str | None, surrogates: bool, keep_problems: bool, any_size: bool
) -> Generator[Any, None, None]:
    """Yield the columns (none), metadata (none) and encoding note of a JSON lines file as one item, then its records.
    The parameters are explained in `read_records`.
    """
    with texts.open_text(path, any_size=any_size) as file:
        encoding, note = _recognize(file, path, encoding)
        name, mark = texts.find_encoding(file.read(4) or b"", path, encoding)
        file.seek(mark if name == texts.UTF8 else 0)
        yield (), {}, note
        lines: Iterator[str | bytes] = (
            bounded_files.iter_lines(file, path, any_size=any_size)
            if name == texts.UTF8  # so that one line that cannot be decoded does not end reading
            else texts.iter_lines(file, path, encoding, any_size=any_size)
        )
        limit = None if any_size else tables.CellLimit(path)
        for number, line in enumerate(lines, 1):
            where = f"line {number}"
            record: Record | None = None
            try:
                text = _decode_line(line, path, where)
                if text:
                    value = json_values.parse_json(text, path, where, surrogates=surrogates)
                    record = Record(path, where, number, value)
            except FileError as error:
                if not keep_problems:
                    raise
                record = Record(path, where, number, problem=error)
            if limit is not None:
                limit.count(None if record is None or record.problem else record.value, where)
            if record is not None:
                yield record


def _decode_line(line: str | bytes, path: Path, where: str) -> str:
    """Return the text of a line, stripped; it may be blank. Raises `FileError` if the line is not UTF-8."""
    if isinstance(line, str):
        return line.strip(_BLANK)
    try:
        return str(line.removeprefix(BOM_UTF8), texts.UTF8).strip(_BLANK)
    except UnicodeDecodeError as error:
        raise texts.encoding_error(path, error, texts.UTF8, None, where) from error


def _read_document(path: Path, rows: str | None, encoding: str | None, surrogates: bool) -> Generator[Any, None, None]:
    """Yield the columns (none), metadata (none) and encoding note of a JSON document as one item, then its records.
    `rows` is the path to them within the document, which is read as a whole.
    """
    data = bounded_files.read_bytes(path)
    encoding, note = _recognize(io.BytesIO(data), path, encoding)
    document = json_values.parse_json(data, path, encoding=encoding, surrogates=surrogates)
    yield (), {}, note
    yield from json_values.iter_rows(document, rows, path)
