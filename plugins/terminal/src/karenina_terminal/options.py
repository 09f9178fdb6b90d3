"""Options shared by the commands of several distributions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Map the columns of a table to question, answer, id, keywords, context and choices, such as "
        "question=Prompt,answer=Gold, or to several answers: answer.gene=Gene,answer.year=Year.",
        show_default=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The rows of a JSON document, such as examples, * (for rows by their ids) or data.*.qas.*.",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of a table, such as cp1252. Default: UTF-8, or detected.",
        show_default=False,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The sheet of an Excel file. Default: the first one.", show_default=False),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Compare sentences in the right answers of a table too, word for word."),
]
PrintJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JSONObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoProgress = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]
JournalPath = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The journal. Default: next to the output.", show_default=False)
]

_NEXT_COLUMN: Final = re.compile(r",(?=\s*[\w.]+\s*=)")


def parse_columns(
    given: Iterable[str] | None,
    rows: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    *,
    exact: bool = False,
) -> dict[str, str] | None:
    """Return the mapping of `--columns`, with the other table options under their names; None without any.

    `given` are texts such as `question=COLUMN,answer=COLUMN`. Raises `typer.BadParameter`.
    """
    found: dict[str, str] = {}
    for words in given or ():
        for pair in _NEXT_COLUMN.split(words):
            name, equals, column = pair.partition("=")
            if not equals or not column.strip():
                raise typer.BadParameter(f"--columns {pair!r}: write --columns question=COLUMN,answer=COLUMN")
            name, column = name.strip(), column.strip()
            if found.setdefault(name, column) != column:
                raise typer.BadParameter(f"--columns maps {name!r} to {found[name]!r} and to {column!r}: keep one")
    reading = (("rows", rows), ("encoding", encoding), ("sheet", sheet))
    found |= {name: value for name, value in reading if value is not None}
    found |= {"exact": "true"} if exact else {}
    return found or None
