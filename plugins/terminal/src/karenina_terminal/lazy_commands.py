"""Commands that are only imported when they are called. Until then, only their summaries are known."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import packages_distributions
from inspect import iscoroutinefunction
from pkgutil import resolve_name
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from karenina_core.errors import type_and_message
from karenina_terminal.screen import ExitCode
from karenina_toolkit.printable import in_one_line

logger = logging.getLogger("karenina")

_LONGEST: Final = 1000


class WholeSummaries(TyperGroup):
    """A command group whose help shows full summaries, wrapped instead of cut off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of visible commands with their full summaries."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=_LONGEST))
            for name, command in commands
            if command and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class StrictCommand(TyperCommand):
    """A command that rejects repeated options. Without this class, the last value would be used."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and return those that remain. Raises `typer.BadParameter` if an option that takes a
        single value is repeated; flags, counted options and those with several values may be. During shell completion,
        nothing is checked.
        """
        if not ctx.resilient_parsing:  # True during shell completion
            params = self.make_parser(ctx).parse_args(args=list(args))[2]
            for param in {id(param): param for param in params if params.count(param) > 1}.values():
                if isinstance(param, TyperOption) and not (param.multiple or param.is_flag or param.count):
                    what = "this option takes only one value, but was given more than once; keep only one"
                    raise typer.BadParameter(what, ctx, param)
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class LazyCommand(TyperCommand):
    """A placeholder in the list of commands. It imports the real command when it is called."""

    load_command: ClassVar[staticmethod[[], Any]]
    location: ClassVar[str]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and return its context. If it cannot be imported, the reason is printed and the program
        exits with code 2.
        """
        problem = self.why_missing()
        if problem is not None:
            typer.echo(f"Error: {problem}", err=True)
            raise typer.Exit(ExitCode.BAD_INPUT)
        return self.load_command().make_context(info_name, args, parent, **extra)

    def why_missing(self) -> str | None:
        """Import the command, and return the reason if that fails, otherwise None."""
        try:
            self.load_command()
        except Exception as error:
            logger.debug("the traceback of the command %s:", self.name, exc_info=True)
            return _explain_failure(str(self.name), self.location, error)
        return None


def add_lazy_command(app: typer.Typer, name: str, target: str, summary: str) -> None:
    """Add a command to `app` that is listed with `summary` and only imported from `target` (`module:object`, a function
    or a `typer.Typer`) when needed. If the import fails, the command prints the reason and exits with code 2.

    The object is one of:

    - a function;
    - a `typer.Typer` with a single command, whose settings are kept;
    - any other `typer.Typer`, which becomes a command group.

    It is imported when the command is called, when its help is printed, and when a shell completes its arguments.
    `summary` should be the first line of the help. Commands that do not use a class of their own reject repeated
    options (see `StrictCommand`).
    """

    @cache
    def load() -> Any:
        return _load(app, name, target)

    class Placeholder(LazyCommand):
        load_command = staticmethod(load)
        location = target

    app.command(name, cls=Placeholder, help=summary)(_unloaded)


def _unloaded() -> None:
    """A placeholder for a function that has not been imported. Raises `AssertionError` if it is called."""
    raise AssertionError("a lazy command was called without its context")


def _load(app: typer.Typer, name: str, target: str) -> Any:
    """Import `target`, and return it as a click command called `name` that rejects repeated options. Exceptions of the
    import propagate; `TypeError` is also raised if the object is neither a function nor a `typer.Typer`.
    """
    loaded = resolve_name(target)
    if iscoroutinefunction(loaded):
        raise TypeError("the function is async, but commands are not awaited")
    if not callable(loaded):
        raise TypeError(f"{loaded!r:.80} is neither a function nor a typer.Typer")
    _be_strict(loaded)
    around = typer.Typer(rich_markup_mode=app.rich_markup_mode, pretty_exceptions_short=app.pretty_exceptions_short)
    if not isinstance(loaded, typer.Typer):
        around.command(name, cls=StrictCommand)(loaded)
    elif len(loaded.registered_commands) == 1 and not (loaded.registered_callback or loaded.registered_groups):
        around.add_typer(loaded)
    else:
        around.add_typer(loaded, name=name, cls=WholeSummaries)
    (command,) = typer.main.get_group(around).commands.values()
    return command


def _be_strict(loaded: object) -> None:
    """Change a Typer application so that its commands and groups reject repeated options, except commands that use a
    class of their own. Any other object is left alone.
    """
    if isinstance(loaded, typer.Typer):
        for command in loaded.registered_commands:
            if command.cls in (None, TyperCommand):
                command.cls = StrictCommand
        for group in loaded.registered_groups:
            _be_strict(group.typer_instance)


def _explain_failure(name: str, target: str, error: Exception) -> str:
    """Return the reason why a command cannot be imported, with advice about its package."""
    owners = packages_distributions().get(target.partition(":")[0].partition(".")[0], [])
    package = owners[0] if owners else "the package that provides the command"
    why = in_one_line(type_and_message(error))
    return (
        f"the command {name!r} cannot be imported from {target}: {why}; update {package}, or report the error to "
        "its authors"
    )
