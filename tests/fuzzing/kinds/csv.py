"""Tables as CSV."""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import Any, Final

from fuzzing.engine import Kind
from fuzzing.mutation import Pairs, Raw, Tree, documents, dump_json, parse_tree
from fuzzing.tables import ROWS, import_options


def write_csv(rows: Tree, delimiter: str = ",") -> str:
    """Rows as CSV. What is no list of rows is written as one cell."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    for row in rows if isinstance(rows, list) and not isinstance(rows, Pairs) else [[rows]]:
        writer.writerow([_cell(cell) for cell in row] if isinstance(row, list) else [_cell(row)])
    return text.getvalue()


def _cell(value: Tree) -> Any:
    if isinstance(value, Raw):
        return value.text
    return dump_json(value) if isinstance(value, list) else value


_SEED = write_csv(parse_tree(ROWS)).encode()
_SEMICOLONS = write_csv(parse_tree(ROWS), ";").encode("utf-8-sig")
KIND: Final = Kind(
    "csv",
    documents([ROWS], write_csv, texts=[_SEED, _SEMICOLONS, b"text\tgold\nWhich?\tBCL2\n"]),
    partial(import_options, ending=".csv"),
    valid=[_SEED, _SEMICOLONS],
    regressions=[b"\n" * 200_000 + _SEED, b",".join(b"c%d" % number for number in range(100_000)) + b",text,c1\n"],
)
