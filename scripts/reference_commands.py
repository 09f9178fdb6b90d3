"""The reference pages for the command line: commands, exit codes, outcomes, environment variables."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import typer
from markdown_text import code, fenced, page, prose, table

from karenina_cli.app import build_app
from karenina_core.catalog import read_catalog
from karenina_core.data.outcome import Outcome
from karenina_terminal.screen import ExitCode, exit_codes_help

_PROGRAM: Final = "karenina"


def commands() -> str:
    """Return the page that documents all commands."""
    command = typer.main.get_command(build_app())
    parts = [
        "[Exit codes](outcomes.md#exit-codes) are those of `run` and `resume`; other commands exit with 0, or with 2 "
        "for bad input, unless their text says otherwise."
    ]
    for path, found, context in _walk(command, _PROGRAM, None):
        parts += _command(path, found, context)
    return page("Commands", *parts)


def command_names() -> list[str]:
    """Return the names of all commands, such as `karenina journal repair`."""
    return [path for path, _, _ in _walk(typer.main.get_command(build_app()), _PROGRAM, None)]


def _walk(command: Any, path: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield a command and its subcommands, each with its path and context.

    Commands have the type `Any`, because the copy of click in typer has no types.
    """
    context = command.make_context(path.rpartition(" ")[2], [], parent, resilient_parsing=True)
    yield path, context.command, context
    for name, child in getattr(context.command, "commands", {}).items():
        if not child.hidden:
            yield from _walk(child, f"{path} {name}", context)


def _command(path: str, command: Any, context: Any) -> list[str]:
    """Return the Markdown for a command: its help, usage, arguments and options."""
    text = (command.help or "").replace(exit_codes_help(), "").replace("\b\n", "").strip()
    parts = [f"## {path}", prose(inspect.cleandoc(text)), fenced(command.get_usage(context).removeprefix("Usage: "))]
    records = [(one.param_type_name, one.get_help_record(context)) for one in command.get_params(context)]
    for kind in ("argument", "option"):
        rows = [[code(record[0]), prose(record[1])] for type, record in records if type == kind and record]
        if rows:
            parts.append(table([kind, "meaning"], rows))
    return parts


def outcomes() -> str:
    """Make the page on outcomes, exit codes and environment variables."""
    return page(
        "Outcomes and exit codes",
        prose(inspect.getdoc(Outcome) or ""),
        "## Outcomes",
        table(
            ["outcome", "judged", "in the pass rate", "meaning"],
            [
                [code(one.value), _yes(one.judged), _yes(one.has_verdict), prose(meaning)]
                for one, meaning in _outcome_meanings().items()
            ],
        ),
        "## Exit codes",
        table(["code", "meaning"], [[str(one.value), prose(one.meaning)] for one in ExitCode]),
        "## Environment variables",
        "Each setting has a variable ([Settings](settings.md)). The following variables have no setting:",
        table(["variable", "read by"], [[code(name), owner] for name, owner in read_catalog()["variables"].items()]),
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _outcome_meanings() -> dict[Outcome, str]:
    """Return the docstring below each member of `Outcome`."""
    (body,) = [one.body for one in ast.parse(inspect.getsource(Outcome)).body if isinstance(one, ast.ClassDef)]
    found = {}
    for assigned, text in pairwise(body):
        match assigned, text:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                found[Outcome[name]] = meaning
    return found
