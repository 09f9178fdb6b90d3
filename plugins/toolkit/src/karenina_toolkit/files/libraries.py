"""File formats that require a library: Excel and Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from karenina_core.catalog import install_command
from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.files.tables import CELLS_PER_ROW, Cells, cell_limit, too_many_cells_error

if TYPE_CHECKING:
    from openpyxl.reader.excel import ExcelReader

EXCEL: Final = "excel"
PARQUET: Final = "parquet"
_BATCH: Final = 1000
_MIN_ELEMENT_LIMIT: Final = 250_000
_CELLS_PER_ELEMENT: Final = 20
"""The number of cells per XML element. The limit on elements at a time is the cell limit divided by this number.

By default, this is 250,000 elements.
"""
_CURRENCY: Final = re.compile(r"\[\$([^\]-]+)(?:-[^\]]*)?\]|[$\u20ac\u00a3\u00a5\u20b9](?!-)")
"""A currency sign in a cell's number format, as in `[$EUR-407]` and `"$"#,##0`. `[$-409]` is a language."""
_LITERAL: Final = re.compile(r'"[^"]*"|\\.')
"""Text in a cell's number format that is shown as it is, as in `0.0"%"` and `0\\%`."""
_LITERAL_OR_SPACE: Final = re.compile(rf"({_LITERAL.pattern})|[_*].")
"""A literal text (group 1), or a character that only takes up space or fills the cell, as in `0 _\u20ac`."""
_UNIT: Final = re.compile(rf"(?:General|[0#?])\s*((?:{_LITERAL.pattern}|\s)+)(?=;|\Z)")
"""The literals after the digits in a section of a number format, such as the unit in `0 "mg"`. After a comma, which
divides the number by a thousand (`0,"k"`), the text is not a unit."""
_COLOR: Final = re.compile(r"\[(?![hms]+\])[^\]]*\]", re.IGNORECASE)
"""A color, a language or a condition in a cell's number format, but not hours that count on, as in `[h]:mm`."""
_CONTROL_CODE: Final = re.compile(r"_x00([01][0-9A-Fa-f])_|_x005F_(?=x[0-9A-Fa-f]{4}_)")
"""The notation of Excel for a control character in a text, such as `_x000D_`, or for the first `_` of a literal one."""
_EXPONENT: Final = re.compile(r"[-\N{MINUS SIGN}]?(?:[0-9]+|n)")
"""Matches a superscript that is an exponent, but not the charge of an ion (`2+`, `+2`) or the end of an ordinal (`th`).
"""
_BASE: Final = re.compile(r"[^\W_]|[])}|°]")
"""Matches a character that an exponent can follow. A superscript elsewhere is the mass number of an isotope."""
_SUPERSCRIPTS: Final = str.maketrans("0123456789-\N{MINUS SIGN}n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻ⁿ")
_SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_DAY: Final = re.compile(r"(?<!d)dd?(?!d)")
"""The day of the month in a number format. Longer runs are days of the week."""
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_LONGEST_FORMAT: Final = 255
_BUFFER: Final = 1 << 16
_SHEETS: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LONGEST_REASON: Final = 200
_MOST_HIDDEN: Final = 1000
_TRUE: Final = ("1", "true")
_MOST_FORMULAS: Final = 1000
_MOST_MERGED: Final = 1000
_ROWS_OF_RANGE: Final = re.compile(r"[A-Z]{1,3}([0-9]{1,7}):[A-Z]{1,3}([0-9]{1,7})")


@dataclass(slots=True)
class SheetFacts:
    """Facts about a workbook in addition to the cells that are read. With `any_size`, they are not collected.

    `hidden` contains the indexes of hidden columns, `hidden_rows` the numbers of hidden rows with values,
    `without_value` the cells with formulas but no stored value, `merged` the ranges of merged cells that span several
    rows, and `others` the titles of other sheets that have cells.
    """

    hidden: list[int] = field(default_factory=list)
    hidden_rows: list[str] = field(default_factory=list)
    without_value: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def read_excel(
    path: Path,
    sheet: str | None,
    facts: SheetFacts,
    *,
    any_size: bool,
    package: str,
    is_unit: Callable[[str], object] | None,
) -> Cells:
    """Yield each row of a sheet with its number, and fill in `facts`. `sheet` is its title, and defaults to the first
    sheet that is not hidden. Percentages, amounts, durations and numbers with a unit become strings, as shown in the
    sheet. Raises `FileError` if the file cannot be read, has no such sheet or, unless `any_size` is set, exceeds a
    limit.

    Units are texts in a number's format for which `is_unit` is true. Times of day become strings as well, and empty
    strings None. `package` is the distribution whose extra installs the library, for use in messages.
    """
    try:
        from defusedxml import DefusedXmlException

        reader_class = _make_reader_class()
    except ImportError as error:
        raise missing_library(path, "Excel files", error, f"{package}[{EXCEL}]") from error
    try:
        with bounded_files.open_file(path, any_size=any_size) as opened:
            parts = {} if any_size else _check_parts(path, opened, package)
            reader = reader_class(opened, read_only=True, data_only=True, rich_text=True)
            reader.read()
            with closing(reader.wb) as book:
                names = [worksheet.title for worksheet in book.worksheets]
                if not names or (sheet is not None and sheet not in names):
                    what = "the file has no sheet with rows" if sheet is None else f"the file has no sheet {sheet!r}"
                    if sheet in book.sheetnames:
                        what = f"the sheet {sheet!r} is a chart and has no rows"
                    cure = f"choose one of these sheets: {', '.join(names)}" if names else "add a sheet with rows"
                    raise FileError(path, "", what, cure)
                shown = [worksheet for worksheet in book.worksheets if worksheet.sheet_state == "visible"]
                page = book[sheet] if sheet is not None else (shown or book.worksheets)[0]
                page.reset_dimensions()  # the dimensions that a file states may be far too large
                for worksheet in book.worksheets:
                    part = parts.get(str(getattr(worksheet, "_worksheet_path", "")).lstrip("/"))
                    if part is not None and worksheet.title == page.title:
                        facts.hidden, facts.hidden_rows = part.hidden, part.hidden_rows
                        facts.without_value, facts.merged = part.without_value, part.merged
                    elif part is not None and part.has_values and sheet is None:
                        facts.others.append(worksheet.title)
                for number, cells in enumerate(page.iter_rows(), 1):
                    yield number, [_shown_value(cell, is_unit) for cell in cells]
    except FileError:
        raise
    # With a damaged or hostile file, openpyxl, zipfile and the XML parser raise exceptions of many types.
    except Exception as error:
        cause = _first_cause(error)
        reason = f"{type(cause).__name__}: {_one_line(cause)}"
        if isinstance(cause, DefusedXmlException):
            reason = "the XML declares entities, which spreadsheet programs never do"
        cure = "save the file as .xlsx or .csv in a spreadsheet program"
        raise FileError(path, "", f"the Excel file cannot be read: {reason}", cure) from error


def _make_reader_class() -> type[ExcelReader]:
    """Return a workbook reader class that skips chart sheets, because openpyxl cannot always read them. Raises
    `ImportError` if openpyxl is not installed.
    """
    from openpyxl import chartsheet
    from openpyxl.reader.excel import ExcelReader  # uses defusedxml if it is installed

    class Reader(ExcelReader):
        """A reader that skips chart sheets but keeps their positions, because names refer to them."""

        def read_chartsheet(self, sheet: Any, rel: Any) -> None:
            """Add a chart sheet without reading it."""
            book: Any = self.wb  # the stubs lack a method that openpyxl's own reader uses
            book._add_sheet(chartsheet.Chartsheet(parent=book, title=sheet.name))

    return Reader


def _shown_value(cell: Any, is_unit: Callable[[str], object] | None) -> Any:
    """Return a cell's value, with percentages, amounts of money, numbers with a unit in their format (for which
    `is_unit` is true), times of day, durations and dates without a day or year formatted as in the sheet. An empty
    string is converted to None.
    """
    value = cell.value
    if isinstance(value, time | timedelta | datetime):
        shape = _COLOR.sub("", _LITERAL.sub("", str(cell.number_format or ""))).casefold()
        return _shown_date(value, shape) if isinstance(value, datetime) else _shown_time(value, shape)
    if isinstance(value, list):
        value = _join_runs(value)
    if isinstance(value, str) and "_x00" in value:
        value = _CONTROL_CODE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "_", value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value if value != "" else None
    shape = _LITERAL_OR_SPACE.sub(r"\1", str(cell.number_format or "")[:_LONGEST_FORMAT])
    if "%" in shape:
        is_fraction = "%" in _LITERAL.sub("", shape)
        return f"{value * 100 if is_fraction else value:.15g}%"
    sign = _CURRENCY.search(shape)
    if sign is not None:
        return f"{(sign[1] or sign[0]).strip()} {value:.15g}"
    units = {_text_of(match[1]) for match in _UNIT.finditer(shape)}
    unit = units.pop() if len(units) == 1 else ""
    return f"{value:.15g} {unit}" if unit and is_unit is not None and is_unit(unit) else value


def _text_of(literals: str) -> str:
    """Return the text that literals in a number format show."""
    return "".join(literal.strip('"').removeprefix("\\") for literal in _LITERAL.findall(literals)).strip()


def _join_runs(runs: Iterable[Any]) -> str:
    """Return the text of a cell with differently formatted parts. Superscripts that are exponents become characters
    (10⁵, not 105), and so do digits that are subscripts of a number (101₂), but not mass numbers of isotopes (14C).
    """
    text = ""
    for align, parts in groupby(runs, lambda run: getattr(getattr(run, "font", None), "vertAlign", None)):
        part = "".join(map(str, parts))
        if align == "superscript" and _EXPONENT.fullmatch(part.strip()) and _BASE.fullmatch(text[-1:]):
            part = part.translate(_SUPERSCRIPTS)
        elif align == "subscript" and text[-1:].isdecimal():
            part = part.translate(_SUBSCRIPTS)
        text += part
    return text


def _shown_date(value: datetime, shape: str) -> datetime | str | int:
    """Return a date as its number format, `shape`, shows it if that lacks the day or the year: March 2024, 5 March or
    2024. Spreadsheet programs add a day or a year to what was typed. Other dates are returned unchanged.
    """
    has_day, has_month, has_year = _DAY.search(shape), "m" in shape, "y" in shape or "e" in shape
    if "h" in shape or "s" in shape or (has_day and has_year) or not (has_month or has_year):
        return value
    if not has_month:
        return value.year
    parts = (str(value.day) if has_day else "", _MONTHS[value.month - 1], str(value.year) if has_year else "")
    return " ".join(filter(None, parts))


def _shown_time(value: time | timedelta, shape: str) -> str:
    """Return a time of day or a duration as its number format, `shape`, shows it: 9:05, 09:05, 2:05 PM, 26:30, 90:00.
    Hours and seconds that are not 0 are added if the format lacks them.
    """
    passed = value if isinstance(value, timedelta) else datetime.combine(date.min, value) - datetime.min
    total = round(abs(passed).total_seconds())
    hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
    is_half = isinstance(value, time) and ("am/pm" in shape or "a/p" in shape)
    if "h" in shape or (isinstance(value, time) and hours):
        shown = hours % 12 or 12 if is_half else hours
        parts = [f"{shown:02}" if "hh" in shape else str(shown), f"{minutes:02}"]
    else:
        parts = [str(total // 60)] if "m" in shape else []
    if "s" in shape or seconds:
        parts.append(f"{seconds:02}" if parts else str(total))
    half = f" {'PM' if hours % 24 >= 12 else 'AM'}" if is_half else ""
    return f"{'-' if passed < timedelta() else ''}{':'.join(parts)}{half}"


def plain_cell(cell: Any) -> Any:
    """Convert an Excel or Parquet cell to a JSON value. Whole numbers become integers, times become strings in ISO 8601
    format (only the date if the time is midnight), durations become hours, minutes and seconds (26:30:00), and bytes
    become text if they are UTF-8, and otherwise a string that states their number. Other values that JSON cannot
    represent become strings.
    """
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    if isinstance(cell, bytes):
        return _text_of_bytes(cell)
    if isinstance(cell, timedelta):
        hours, rest = divmod(abs(cell), timedelta(hours=1))
        return f"{'-' if cell < timedelta() else ''}{hours}{str(rest)[1:]}"
    text: str = cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    return text.removesuffix("T00:00:00")


def _text_of_bytes(data: bytes) -> str:
    """Return bytes as text if they are UTF-8 without null characters, or otherwise their number in brackets."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if "\0" not in text else f"[{len(data):,} bytes]"


def _first_cause(error: BaseException) -> BaseException:
    """Return the innermost error in a chain of causes."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _check_parts(path: Path, opened: IO[bytes], package: str) -> dict[str, _PartCheck]:
    """Check all parts of an Excel file, also that each has its stated size, and return the checks keyed by the part's
    name. Raises `FileError` if there are too many bytes, cells or elements.

    openpyxl cannot unpack more than that afterwards, because this also checks that every part has its stated size.
    """
    from karenina_toolkit.files.archives import open_archive

    parts = {}
    with open_archive(path, opened, kind="Excel file", zstandard_extra=package) as archive:
        for name in archive.names:  # any of them can be a sheet, whatever its name
            parts[name] = _PartCheck(path, name)
            parts[name].read(archive.pieces(name))
    return parts


class _PartCheck:
    """Counts the cells and XML elements in a part of an Excel file, and collects data for `SheetFacts`.

    The limits are needed because openpyxl builds a tree for each part, and only frees a row or shared string when it is
    complete.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._cell_limit = cell_limit()
        self._element_limit = max(_MIN_ELEMENT_LIMIT, self._cell_limit // _CELLS_PER_ELEMENT)
        self._dropped = ""
        self._level = self._cells = self._inside = self._outside = 0
        self.hidden: list[int] = []
        self.hidden_rows: list[str] = []
        self._hidden_row = ""
        """The current row, if it is hidden and no value in it has been seen yet."""
        self.without_value: list[str] = []
        self.merged: list[str] = []
        self.has_values = False
        self._cell = ""
        self._formula: str | None = None
        """The current cell, if it has a formula whose value has not been seen yet."""

    def read(self, content: Iterable[bytes]) -> None:
        """Read the part to its end, and count its cells and elements as far as it is XML. Raises `FileError` if there
        are too many, and `EntitiesForbidden` if the XML declares entities.
        """
        from xml.parsers.expat import ExpatError, ParserCreate

        parser = self._parser = ParserCreate(namespace_separator="}")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = _refuse_entity
        is_xml = True
        for piece in content:  # to the end, because reading checks the size
            if is_xml:
                try:
                    parser.Parse(piece, False)
                except ExpatError:  # openpyxl uses the same parser, and reads no further
                    is_xml = False

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Count an element at its start tag: those inside the current row or shared string, and in total those outside.
        Raises `FileError` if one of these counts is too large, or that of the cells, to which each row adds some.
        """
        if tag.startswith(_SHEETS):
            self._note_cell(tag.removeprefix(_SHEETS), attributes)
        self._dropped = self._dropped or _SHEETS + ("si" if tag == f"{_SHEETS}sst" else "row")
        if self._level:
            self._level += 1
            self._inside += 1
            self._cells += self._level == 2  # a cell, as a child of a row
        elif tag == self._dropped:
            self._level, self._inside = 1, 0
            self._cells += CELLS_PER_ROW
        else:
            self._outside += 1
        if self._cells > self._cell_limit:
            raise too_many_cells_error(self._path, self._name, self._cell_limit)
        if max(self._inside, self._outside) > self._element_limit:
            what = (
                "in a single row or string"
                if self._level
                else "outside its rows (for example, for formats and merged cells)"
            )
            what = f"the part has more than {self._element_limit:,} XML elements {what}"
            raise FileError(self._path, self._name, what, "save the table as .csv in a spreadsheet program")

    def _note_cell(self, name: str, attributes: Mapping[str, str]) -> None:
        """Record what the start of an element in a sheet's XML shows: hidden columns and rows, merged rows, values, and
        formulas that have no value so far.
        """
        if name == "c":
            self._formula = None
            # A formula with a text result has this type, and the text may be empty.
            self._cell = attributes.get("r", "") if attributes.get("t") != "str" else ""
        elif name == "f":
            self._formula = self._cell or None
        elif name in ("v", "is"):
            self.has_values = True
            if self._hidden_row and len(self.hidden_rows) < _MOST_HIDDEN:
                self.hidden_rows.append(self._hidden_row)
            self._hidden_row = ""
            if self._formula is not None:
                self._parser.CharacterDataHandler = self._value
        elif name == "mergeCell" and len(self.merged) < _MOST_MERGED:
            rows = _ROWS_OF_RANGE.fullmatch(attributes.get("ref", ""))
            self.merged += [rows[0]] if rows is not None and rows[1] != rows[2] else []
        elif name == "row":
            self._hidden_row = attributes.get("r", "?") if attributes.get("hidden") in _TRUE else ""
        elif name == "col" and attributes.get("hidden") in _TRUE and len(self.hidden) < _MOST_HIDDEN:
            with suppress(ValueError):
                last = min(int(attributes["max"]), int(attributes["min"]) + _MOST_HIDDEN)
                self.hidden += range(int(attributes["min"]) - 1, last)

    def _value(self, text: str) -> None:
        """Record that the formula in the current cell has a value, unless `text` is blank."""
        if text.strip():
            self._formula = None

    def _end(self, tag: str) -> None:
        """Handle an end tag. At the end of a cell, record a formula without a value."""
        self._level = max(self._level - 1, 0)
        if tag == f"{_SHEETS}c":
            if self._formula is not None and len(self.without_value) < _MOST_FORMULAS:
                self.without_value.append(self._formula)
            self._formula = None
            self._parser.CharacterDataHandler = None


def _refuse_entity(*declaration: Any) -> None:
    """Raise `EntitiesForbidden`. The XML parser calls this for each entity that the XML declares."""
    from defusedxml import EntitiesForbidden

    name, _is_parameter, value, base, system_id, public_id, notation = declaration
    raise EntitiesForbidden(name, value, base, system_id, public_id, notation)


class ParquetRows:
    """The rows of a Parquet file, with its `columns` and `metadata`. A float32 becomes the shortest number that stands
    for it: 1.1, not 1.100000023841858.

    Set `only` to read some of the columns. `columns` still lists all of them. `any_size` disables the limit on the
    unpacked size. `package` is the distribution whose extra installs the library, for use in messages. Raises
    `FileError`, possibly during iteration, if the file cannot be read or is too large.
    """

    def __init__(
        self, file: IO[bytes], path: Path, only: Collection[str] | None, *, any_size: bool, package: str
    ) -> None:
        try:
            import pyarrow
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise missing_library(path, "parquet", error, f"{package}[{PARQUET}]") from error
        self._path = path
        # The last two are for cells that Python cannot represent, such as texts that are not UTF-8.
        self._errors = (OSError, pyarrow.ArrowException, ValueError, ArithmeticError)
        try:
            # By default, the whole file is in memory.
            self._file = ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
            about, schema = self._file.metadata, self._file.schema_arrow
            self.columns: tuple[str, ...] = tuple(schema.names)
            self.metadata: Mapping[bytes, bytes] = schema.metadata or {}
            size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        except self._errors as error:
            raise self._error(error, 0) from error
        if not any_size:
            bounded_files.check_unpacked_size(path, size)
        self._only = None if only is None else [name for name in self.columns if name in only]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        count = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH, columns=self._only):
                rows = batch.to_pylist()
                for at, column in enumerate(batch.schema):
                    if "map<" in str(column.type):
                        for values in rows:
                            values[column.name] = _with_objects(values[column.name], column.type)
                    elif str(column.type) == "float":
                        numbers = batch.column(at).cast("string").cast("double").to_pylist()
                        for values, number in zip(rows, numbers, strict=True):
                            values[column.name] = number
                for values in rows:
                    count += 1
                    yield values
        except self._errors as error:
            raise self._error(error, count) from error

    def _error(self, error: BaseException, count: int) -> FileError:
        """Return the exception for data that cannot be read after `count` rows."""
        what = f"the Parquet data cannot be read: {_one_line(error)}"
        return FileError(self._path, f"after row {count}" if count else "", what, "get a new copy of the file")


def _with_objects(value: Any, kind: Any) -> Any:
    """Return a Parquet value of the Arrow type `kind` with objects in place of lists of keys and values. A key that is
    repeated has its last value.
    """
    if value is None or "map<" not in str(kind):
        return value
    if hasattr(kind, "key_type"):
        return {key: _with_objects(item, kind.item_type) for key, item in value}
    if isinstance(value, Mapping):
        return {name: _with_objects(item, kind.field(name).type) for name, item in value.items()}
    return [_with_objects(item, kind.value_type) for item in value]


def missing_library(path: Path, what: str, error: ImportError, package: str) -> FileError:
    """Return the exception for a missing library. `what` describes the files that require it. `error` contains the name
    of the library. `package` is the distribution to install.
    """
    name = (error.name or "a library").partition(".")[0]
    cure = f"install it with: {install_command(package)}"
    return FileError(path, "", f"reading {what} requires {name}, which is not installed", cure)


def _one_line(error: BaseException) -> str:
    """Return the error message on a single line of at most 200 characters."""
    return " ".join(str(error).split())[:_LONGEST_REASON]
