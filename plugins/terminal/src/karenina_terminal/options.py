"""Options shared by commands from several distributions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Map the columns of a table to question, answer, id, keywords, context and choices, such as "
        "question=Prompt,answer=Gold, or to several answers: answer.gene=Gene,answer.year=Year.",
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The path to the rows of a JSON document, such as examples, * (for rows by ID) or data.*.qas.*.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The encoding of a table, such as cp1252. Default: UTF-8, or detected."),
]
Sheet = Annotated[str | None, typer.Option(metavar="NAME", help="The sheet of an Excel file. Default: the first one.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Also compare sentences in the correct answers of a table, word for word.")
]
PrintJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JSONObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoProgress = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]
JournalPath = Annotated[Path | None, typer.Option(metavar="FILE", help="The journal. Default: next to the output.")]

_NEXT_COLUMN: Final = re.compile(r",(?=\s*[\w.]+\s*=)")


def parse_columns(
    given: Iterable[str] | None,
    rows: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    *,
    exact: bool = False,
) -> dict[str, str] | None:
    """Parse `--columns` and add the other table options by name. Returns None without options.

    `given` contains strings such as `question=COLUMN,answer=COLUMN`. `exact` is added as the string `true`. An option
    replaces an entry of its name in `--columns`. Raises `typer.BadParameter` if a string has another form or a name
    occurs twice.
    """
    columns: dict[str, str] = {}
    for words in given or ():
        for pair in _NEXT_COLUMN.split(words):
            name, equals, column = pair.partition("=")
            if not equals or not column.strip():
                raise typer.BadParameter(
                    f"--columns {pair!r} is not of the form NAME=COLUMN; write --columns question=COLUMN,answer=COLUMN"
                )
            if name.strip() in columns:
                raise typer.BadParameter(f"--columns {name.strip()} was given more than once; keep only one")
            columns[name.strip()] = column.strip()
    reading = (("rows", rows), ("encoding", encoding), ("sheet", sheet))
    columns |= {name: value for name, value in reading if value is not None}
    columns |= {"exact": "true"} if exact else {}
    return columns or None


def output_option(help: str, metavar: str | None = None) -> Any:
    """Declare the option `--output` (`-o`) for a parameter with `Annotated`."""
    return typer.Option("--output", "-o", metavar=metavar, help=help)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options for reading a table, as one parameter of a command (see `with_option_groups`)."""

    columns: Columns = None
    rows: Rows = None
    encoding: Encoding = None
    sheet: Sheet = None
    exact: Exact = False

    def parse(self) -> dict[str, str] | None:
        """Return the options as `columns` for `Benchmark.load`, or None if none is set.

        Raises `typer.BadParameter` if `--columns` is invalid.
        """
        return parse_columns(self.columns, self.rows, self.encoding, self.sheet, exact=self.exact)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have parameters that are dataclasses of options, such as `TableOptions`.

    Each field of the dataclass becomes an option. The command is called with an instance of it, and all parameters are
    passed by keyword.
    """
    signature = inspect.signature(command, eval_str=True)
    kinds = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)}

    @wraps(command)
    def call(**given: Any) -> None:
        """Make the dataclasses from the options, and call the command with them."""
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    listed: list[inspect.Parameter] = []
    for name, own in signature.parameters.items():
        parameters = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [own]
        listed += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
    return call
