"""Options that commands from several distributions share."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import redirect_stdout
from dataclasses import dataclass, is_dataclass
from functools import cache, update_wrapper
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, Self, get_args

import typer

from karenina_terminal.screen import print_only_results


def json_option(help: str) -> Any:
    """Return the option `--json`, for use in `Annotated`. If it is given, what plugins print goes to standard error."""

    def read(context: typer.Context, wanted: bool) -> bool:
        if wanted and not context.resilient_parsing:  # True during shell completion
            print_only_results(context)
        return wanted

    return typer.Option("--json", help=help, callback=read)


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
PrintJSON = Annotated[bool, json_option("Print JSON.")]
JSONObject = Annotated[bool, json_option("Print one JSON object.")]
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
    """Parse `--columns`, given as strings such as `question=COLUMN,answer=COLUMN`, and add the other table options by
    name, which replace entries with the same name (`exact` as `true`). Returns None if no options are given. Raises
    `typer.BadParameter` if a string is malformed or if a name occurs twice.
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
    """Return the option `--output` (`-o`), for use in `Annotated`."""
    return typer.Option("--output", "-o", metavar=metavar, help=help)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options for reading a table, as a single parameter of a command (see `with_option_groups`)."""

    columns: Columns = None
    rows: Rows = None
    encoding: Encoding = None
    sheet: Sheet = None
    exact: Exact = False

    def parse(self) -> dict[str, str] | None:
        """Return the options as the `columns` argument of `Benchmark.load`, or None if none are set. Raises
        `typer.BadParameter` if `--columns` is invalid.
        """
        return parse_columns(self.columns, self.rows, self.encoding, self.sheet, exact=self.exact)


class OptionGroup(Protocol):
    """A group of options that is computed each time a command parses its arguments or prints its help."""

    @classmethod
    def option_parameters(cls, taken: Set[str]) -> Iterable[inspect.Parameter]:
        """Return the options as parameters. `taken` contains the names of the command's other options."""

    @classmethod
    def from_options(cls, given: Mapping[str, Any]) -> Self:
        """Return the group with the given option values. The keys are the names of the parameters."""


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each parameter that is a group of options replaced by the options of the group.

    A group is a dataclass such as `TableOptions`, each of whose fields becomes an option, or a class such as
    `OptionGroup`. Typer sees the options instead of the parameter, and the command is called with an instance of the
    group. All parameters are passed by keyword.
    """
    return _GroupedCommand(command)


class _GroupedCommand:
    """A command with groups of options. Its signature contains the options of the groups."""

    def __init__(self, command: Callable[..., None]) -> None:
        update_wrapper(self, command)
        self.__annotations__ = {}
        self._command = command

    def __call__(self, **given: Any) -> None:
        """Build the groups from the options in `given`, and call the command with them and the other options."""
        for name, kind in self._kinds().items():
            if not _is_group(kind):
                continue
            options = {parameter.name for parameter in self._listed(kind)}
            values = {option: given.pop(option) for option in options}
            given[name] = kind.from_options(values) if _is_dynamic(kind) else kind(**values)
        self._command(**given)

    @property
    def __signature__(self) -> inspect.Signature:
        """Return the signature that Typer reads. The options of a group replace the group's parameter."""
        listed: list[inspect.Parameter] = []
        for own in self._own():
            parameters = self._listed(own.annotation) if _is_group(own.annotation) else [own]
            listed += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        return inspect.Signature(listed)

    def _kinds(self) -> dict[str, Any]:
        return {own.name: own.annotation for own in self._own()}

    def _own(self) -> tuple[inspect.Parameter, ...]:
        return _parameters(self._command)

    def _listed(self, group: Any) -> Sequence[inspect.Parameter]:
        """Return the options of a group as parameters, in order."""
        if not _is_dynamic(group):
            return _parameters(group)
        kinds = self._kinds().values()
        static = [other for other in kinds if _is_group(other) and not _is_dynamic(other)]
        parameters = [*self._own(), *(parameter for other in static for parameter in self._listed(other))]
        taken = {name for parameter in parameters for name in _option_names(parameter)}
        with redirect_stdout(sys.stderr):  # for plugins that print
            return list(group.option_parameters(taken))


@cache
def _parameters(of: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    """Return the parameters, with their types. To evaluate these takes a fifth of the start of a command."""
    return tuple(inspect.signature(of, eval_str=True).parameters.values())


def _is_group(kind: Any) -> bool:
    """Return whether a parameter's type is a group of options."""
    return isinstance(kind, type) and (is_dataclass(kind) or _is_dynamic(kind))


def _is_dynamic(kind: Any) -> bool:
    """Return whether a group's options are computed when a command is called (see `OptionGroup`)."""
    return hasattr(kind, "option_parameters")


def _option_names(parameter: inspect.Parameter) -> list[str]:
    """Return the option names of a parameter. If none are declared, return its default name."""
    marks = get_args(parameter.annotation)[1:]
    given = [name for mark in marks for name in (getattr(mark, "param_decls", None) or ())]
    usual = [f"--{parameter.name.replace('_', '-')}"]
    return [part for name in given or usual for part in name.split("/")]
