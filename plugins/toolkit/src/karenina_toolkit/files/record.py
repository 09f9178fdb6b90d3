"""`Record`: a row of a file, with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karenina_toolkit.files.bounded_files import FileError


@dataclass(slots=True)
class Record:
    """A row of a record file, with its place in the file for messages.

    `where` is the place in the `file`: `line 3` of text (the line where the row ends), `row 3` of a sheet or of
    Parquet, or `data.0.qas.1` in a JSON document. `number` is the line or the row as a number; in JSON documents, rows
    are counted from 1.

    `value` is a mapping from columns to cells, where empty cells are None, or any JSON value. Values from Excel and
    Parquet have their own types, such as dates. `around` are the objects that enclose the row in a JSON document, the
    innermost last, each with its path without `*`; `key` is the row's key if rows are the values of an object.
    `is_short` says whether a row of text had fewer cells than the header; the missing ones are None. `problem` says why
    a row could not be read; such a row has no value.
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
        """The value, which must be a mapping. Raises `FileError` if it is not, or if the row could not be read."""
        if self.problem is not None:
            raise self.problem
        if isinstance(self.value, Mapping):
            return self.value
        kind = "line" if self.where.startswith("line ") else "row"
        raise FileError(self.file, self.where, f"the {kind} is not a JSON object", f"write one object per {kind}")

    @property
    def outer(self) -> Mapping[str, Any]:
        """The scalars of the objects that enclose the row, by path without `*`, such as `data.title`."""
        return {
            f"{path}.{name}" if path else name: value
            for path, one in self.around
            for name, value in one.items()
            if not isinstance(value, dict | list)
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column, else the scalar in the innermost enclosing object that has it, else `default`.

        Case is ignored, but an exact match is preferred. For enclosing objects, `name` may be a path (`data.title`).
        """
        values = self.values
        column = find_column(values, name)
        if column is not None:
            return values[column]
        for path, one in reversed(self.around):
            start = f"{path}." if path else ""
            is_path = name.casefold().startswith(start.casefold())
            for wanted in (name, name[len(start) :]) if is_path else (name,):
                column = find_column(one, wanted)
                if column is not None and not isinstance(one[column], dict | list):
                    return one[column]
        return default

    def __str__(self) -> str:
        return f"{self.file}, {self.where}" if self.where else str(self.file)


def find_column(columns: Iterable[str], name: str) -> str | None:
    """Return the column with this name, else the first one that differs only in case; None if there is none."""
    folded, near = name.casefold(), None
    for column in columns:
        if column == name:
            return column
        if near is None and column.casefold() == folded:
            near = column
    return near
