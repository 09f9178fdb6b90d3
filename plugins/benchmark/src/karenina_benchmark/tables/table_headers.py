"""Detection of tables whose first row is not a header, but data, or text above the header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from karenina_benchmark.tables.column_roles import QUESTION, find_role
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from karenina_benchmark.tables.table_reader import Row

_LOOKED_AT: Final = 9
"""The number of rows below the first one that are examined."""
_PATH: Final = re.compile(r"(?:[\w.~-]*[/\\])+[^/\\]*\.\w{1,5}")
_NUMBER: Final = re.compile(r"-?[0-9]+[.,][0-9]+|[0-9]{5,}")
_ASKS: Final = re.compile(r"\S+(?:\s+\S+){3,}\?")
_LIKE_DATA: Final = (_PATH, _NUMBER, _ASKS)
_LONGEST: Final = 60


def find_header_problem(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, str] | None:
    """Return why the first row of a table is not a header, and how to fix it; None if it may be one.

    It always is one if it has a column name for the question. It is not a header if one of the next rows has such a
    name, or if one of its cells occurs in the rows below, or is a number, a path or a question like the cells below.
    """
    if find_role(columns, QUESTION) is not None:
        return None
    for row in rows[:_LOOKED_AT]:
        names = [str(cell) for cell in row.values.values() if cell is not None]
        if len(names) > 1 and len(set(names)) == len(names) and find_role(names, QUESTION) is not None:
            return f"the header seems to be in {row.where()}", "delete the lines above it"
    below = [row.values for row in rows if [*map(str, row.values.values())] != [*columns]]
    alike = next((column for column in columns if _is_data(column, [str(one.get(column)) for one in below])), None)
    if alike is None:
        return None
    what = f"the first row looks like data, not like a header: {shorten(alike, _LONGEST)!r} is like the cells below it"
    return what, "insert a row with the column names above it, such as question,answer"


def _is_data(column: str, cells: Sequence[str]) -> bool:
    first = cells[:_LOOKED_AT]
    return column in cells or any(
        like.fullmatch(column) and first and all(like.fullmatch(cell) for cell in first) for like in _LIKE_DATA
    )
