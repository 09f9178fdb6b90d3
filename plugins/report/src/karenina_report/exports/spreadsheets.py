"""Export to CSV, Excel and Parquet, and read these exports.

Spreadsheet programs may take text for a formula if it starts with a tab or a line break, or if its first visible
character is `=`, `+`, `-` or `@`, including full-width forms. Such text gets a leading apostrophe in CSV, and the text
type in Excel.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from unicodedata import category, normalize

from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError
from karenina_engine.results.result_lines import parse_result
from karenina_engine.results.table_columns import as_json
from karenina_engine.results.tables import LibraryMissing
from karenina_report.exports.exporter import Exporter
from karenina_toolkit.files import FileError, read_records
from karenina_toolkit.printable import NOT_XML, quantity, xml_text

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.table_columns import Cell
    from karenina_report.exports.exporter import ExportRequest

RESULT_COLUMN: Final = "result"
"""The last column of the result table, which contains whole results as JSON for `read_export`."""

_FORMULA_STARTS: Final = ("=", "+", "-", "\N{MINUS SIGN}", "@")
_CONTROLS: Final = ("\t", "\r", "\n")
_TABLES: Final = ("results", "fields", "traits", "excerpts", "stages")
_SHEET_OF_RESULTS: Final = "data"
_LONGEST_CELL: Final = 32_000
"""The maximum number of UTF-16 code units in a cell. Excel allows 32,767."""
_LONGEST_STORED: Final = 32_767
"""The number of characters at which openpyxl cuts text, without a word."""
_MOST_ROWS: Final = 1_048_575
_CODE: Final = re.compile("_(?=x[0-9A-Fa-f]{4}_)")
"""The beginning of a character in the notation of Excel, such as `_x000D_`."""


def _cell(value: Cell) -> str | int | float | bool | None:
    """Convert a value for a cell: lists to JSON, and times to ISO 8601."""
    if isinstance(value, list):
        return as_json(value)
    return value.isoformat() if isinstance(value, datetime) else value


def could_be_formula(text: str) -> bool:
    """Return whether a spreadsheet program could take `text` for a formula, even after leading whitespace."""
    if text.startswith(_CONTROLS):
        return True
    first = next((ch for ch in text if not ch.isspace() and category(ch) not in ("Cc", "Cf", "Zs")), "")
    return normalize("NFKC", first).startswith(_FORMULA_STARTS)


def protect(text: str) -> str:
    """Return `text` for a CSV cell, with a leading apostrophe if it could be taken for a formula."""
    return f"'{text}" if could_be_formula(text) else text


def fit_cell(text: str) -> str:
    """Return `text` as a cell of Excel can hold it: cut to 32,000 characters, of which emoji and the like count as two,
    and with U+FFFD in place of characters that XML does not allow.
    """
    text = xml_text(text)
    if len(text) <= _LONGEST_CELL // 2:
        return text
    return text.encode("utf-16-le")[: 2 * _LONGEST_CELL].decode("utf-16-le", "ignore")


def _csv_cell(value: Cell) -> str | int | float | bool | None:
    """Convert a value for a CSV cell. Text that could be taken for a formula gets a leading apostrophe."""
    cell = _cell(value)
    return protect(cell) if isinstance(cell, str) else cell


def escape_cell(text: str) -> str:
    """Return `text` as Excel stores it: text that looks like its notation for a character, such as `_x000D_`, with an
    escaped underscore, so that it is shown as it is.
    """
    return _CODE.sub("_x005F_", text)


def _write_csv(request: ExportRequest, file: BinaryIO) -> None:
    """Write the requested table, or `results` by default, as CSV, with text that a spreadsheet could take for a formula
    protected. With `with_results`, the last column of `results` contains whole results.
    """
    table = request.tables(request.table or "results")
    whole = request.with_results and table.name == "results"
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow([protect(column.name) for column in table.columns] + [RESULT_COLUMN] * whole)
    if whole:
        for row, result in zip(table, request.results, strict=True):
            writer.writerow([*map(_csv_cell, row.values()), result.model_dump_json()])
    else:
        writer.writerows(map(_csv_cell, row.values()) for row in table)
    text.detach()


def _read_csv(path: Path) -> Iterator[VerificationResult]:
    """Yield the results in the last column of a CSV file. Raises `ConfigError` if it has none, as with --no-whole."""
    return read_result_column(path, "CSV")


def read_result_column(path: Path, kind: str) -> Iterator[VerificationResult]:
    """Yield the whole results in the last column of an exported table. `kind` is the format's name for error messages.
    Raises `ConfigError` if the file cannot be read or has no such column.
    """
    try:
        with read_records(path, only=[RESULT_COLUMN], any_size=True, package="karenina-report") as records:
            if RESULT_COLUMN not in records.columns:
                raise ConfigError([no_results(path)])
            for record in records:
                yield parse_result(record.values[RESULT_COLUMN] or "", str(record))
    except FileError as error:
        raise ConfigError([f"{path} cannot be read as {kind}: {error.what}; {error.cure}"]) from error


def no_results(path: Path) -> str:
    """Return the error message for a table without whole results."""
    return (
        f"{path} contains a table but no whole results; `karenina export` adds whole results to the `results` "
        "table unless --no-whole is used"
    )


def _write_excel(request: ExportRequest, file: BinaryIO) -> None:
    """Write the chosen table, or all tables and, with `with_results`, whole results, as an Excel workbook, and warn
    about anything that does not fit. Raises `LibraryMissing` if openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise LibraryMissing(
            f"openpyxl is not installed; install it with: {install_command('karenina-report[excel]')}"
        ) from error
    book = Workbook(write_only=True)
    sheets = _Sheets(request, book)
    for name in (request.table,) if request.table is not None else _TABLES:
        sheets.add(name)
    if request.table is None and request.with_results:
        sheets.add_results()
    sheets.report()
    buffer = io.BytesIO()
    book.save(buffer)
    file.write(buffer.getvalue())


class _Sheets:
    """Writes tables to the sheets of a workbook, and counts the cells and rows that do not fit."""

    def __init__(self, request: ExportRequest, book: Any) -> None:
        self._request = request
        self._book = book
        self._cut = 0
        self._left_out: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Add a sheet with the given table. Rows beyond Excel's limit are skipped and counted."""
        table = self._request.tables(name)
        sheet = self._book.create_sheet(name)
        sheet.freeze_panes = "A2"
        sheet.append([self._text(sheet, column.name) for column in table.columns])
        for number, row in enumerate(table, 1):
            if number > _MOST_ROWS:
                self._left_out[name] = self._left_out.get(name, 0) + 1
            else:
                sheet.append([self._text(sheet, value) for value in row.values()])

    def add_results(self) -> None:
        """Add a sheet with the JSON of whole results for `read_export`, split into pieces that fit into cells. Each row
        has one piece and the number of its result. Results that do not fit on the sheet are skipped and counted.
        """
        sheet = self._book.create_sheet(_SHEET_OF_RESULTS)
        sheet.append(["result", "json"])
        rows = 0
        for number, result in enumerate(self._request.results, 1):
            text = NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", result.model_dump_json())
            text = _CODE.sub(r"\\u005f", text)
            size = _LONGEST_CELL if text.isascii() or max(text) <= "\uffff" else _LONGEST_CELL // 2
            pieces = [text[start : start + size] for start in range(0, len(text), size)]
            if rows + len(pieces) > _MOST_ROWS:
                self._left_out[_SHEET_OF_RESULTS] = self._left_out.get(_SHEET_OF_RESULTS, 0) + len(pieces)
                continue
            rows += len(pieces)
            for piece in pieces:
                sheet.append([number, self._text(sheet, piece)])

    def report(self) -> None:
        """Warn about truncated cells and skipped rows, if there were any, with one message for each table."""
        if self._cut:
            self._request.warn(
                f"truncated {quantity(self._cut, 'cell')} with more than {_LONGEST_CELL:,} characters; other formats "
                "do not truncate cells"
            )
        for name, rows in self._left_out.items():
            self._request.warn(
                f"{quantity(rows, 'row')} of the table {name!r} did not fit on a sheet; other formats have no limit"
            )

    def _text(self, sheet: Any, value: Cell) -> object:
        """Convert a value for a cell that Excel does not take for a formula. Text is cut to what fits, and the cuts are
        counted.
        """
        from openpyxl.cell import WriteOnlyCell

        cell = _cell(value)
        if not isinstance(cell, str):
            return cell
        text = fit_cell(cell)
        stored = escape_cell(text)
        self._cut += len(text) < len(cell) or len(stored) > _LONGEST_STORED
        if not could_be_formula(text):
            return stored
        text_cell = WriteOnlyCell(sheet, value=stored)
        text_cell.data_type = "s"
        text_cell.quotePrefix = True
        return text_cell


def _read_excel(path: Path) -> Iterator[VerificationResult]:
    """Yield the results on the sheet for them in an Excel workbook. Raises `ConfigError` if it has none."""
    try:
        with read_records(path, sheet=_SHEET_OF_RESULTS, any_size=True, package="karenina-report") as records:
            for number, pieces in groupby(records, lambda record: record.values["result"]):
                yield parse_result("".join(str(piece.values["json"]) for piece in pieces), f"{path}, result {number}")
    except FileError as error:
        if error.what.startswith("the file has no sheet"):
            raise ConfigError([no_results(path)]) from error
        raise ConfigError([f"{path} cannot be read as an Excel workbook: {error.what}; {error.cure}"]) from error


CSV = Exporter("csv", "one table as comma-separated values", (".csv",), _write_csv, takes_table=True, read=_read_csv)


EXCEL = Exporter(
    "excel", "every table on a separate sheet", (".xlsx",), _write_excel, is_binary=True, takes_table=True,
    read=_read_excel,
)  # fmt: skip


def _write_parquet(request: ExportRequest, file: BinaryIO) -> None:
    """Write the requested table, or `results` by default, as Parquet. With `with_results`, the last column of `results`
    contains whole results. Raises `LibraryMissing` if pyarrow is not installed.
    """
    table = request.tables(request.table or "results")
    frame = table.to_arrow()  # reports a missing pyarrow
    from pyarrow import array, string
    from pyarrow.parquet import write_table

    if request.with_results and table.name == "results":
        texts = [result.model_dump_json() for result in request.results]
        frame = frame.append_column(RESULT_COLUMN, array(texts, type=string()))
    write_table(frame, file)


def _read_parquet(path: Path) -> Iterator[VerificationResult]:
    """Yield the results in the last column of a Parquet file. Raises `ConfigError` if it has none."""
    return read_result_column(path, "Parquet")


PARQUET = Exporter(
    "parquet",
    "one table as Parquet",
    (".parquet",),
    _write_parquet,
    is_binary=True,
    takes_table=True,
    read=_read_parquet,
)
