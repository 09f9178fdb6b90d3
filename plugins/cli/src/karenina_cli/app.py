"""Put the command together: the global options, the core's commands, and those that plugins add."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.models import CommandInfo

from karenina_cli.exit_codes import exit_codes_help
from karenina_cli.hookspecs import karenina_commands

if TYPE_CHECKING:
    from karenina_cli.screen import Screen


COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "run": ("run_command", "run", "Have a benchmark answered and judged, and print each result and the summary."),
    "status": ("status_command", "status", "Tell how far a run is, from its journal, also while it lasts."),
    "resume": (
        "resume_command",
        "resume",
        "Go on with a run of yours that was stopped, as its command said; keys come from the environment once more.",
    ),
    "rescore": (
        "rescore_command",
        "rescore",
        "Score a run again from its journal, after truths, tolerances, weights, patterns or verify() changed: "
        "no calls.",
    ),
    "show": (
        "show_command",
        "show",
        "Show the results of a run, each in full, and the summary of those that are shown.",
    ),
    "plan": (
        "plan_command",
        "plan",
        "Print the plan: the stages in their order, what each waits for, and what is left out and why.",
    ),
    "prompts": (
        "prompts_command",
        "prompts",
        "Print every prompt of a question, to the letter, without asking a model; without FILE the tasks that there "
        "are.",
    ),
    "plugins": (
        "plugins_command",
        "list_plugins",
        "List the stages, adapters and other plugins, what is wrong with those that cannot be used, and how to mend "
        "it.",
    ),
    "config": ("config_command", "config", "Print the configuration names of the core and of the installed plugins."),
    "trust": (
        "trust_command",
        "trust",
        "List the code and the restricted values in a file, and trust exactly these, not the file and its questions.",
    ),
    "demo": (
        "demo_command",
        "demo",
        "Have a small model answer fourteen questions and a small judge read the answers. Needs no API key.",
    ),
}
"""The core's commands: module, function, and what is said of each in the list of all (the beginning of its help)."""

GROUPS: Final[dict[str, tuple[str, str, str]]] = {
    "journal": ("journal_command", "app", "Repair a damaged journal: keep what can be read.")
}
"""The core's groups of commands: module, Typer application, and the summary in the list of all."""

_OF_RUNS: Final = ("run", "resume")


def build_app(wanted: str | None = None) -> typer.Typer:
    """The whole command. Loads the plugins that may add commands; no SDK, HTTP client or run is imported.

    `wanted` is the command that will be called; the others are then listed and nothing more, so that what only they
    need is not imported. Commands of plugins that cannot be built are left out, all of them, with a warning: the core's
    still work.
    """
    from karenina_core import plugins
    from karenina_core.errors import PluginError

    app = _core_app(wanted)
    own = {_name(command) for command in app.registered_commands} | GROUPS.keys()
    first = len(app.registered_commands)
    try:
        for _ in plugins.command_plugins().each(karenina_commands, app=app):
            pass  # one that fails is listed, and does not stop the others
    except PluginError as error:
        typer.echo(f"Warning: no plugin can add a command: {error}", err=True)
    for command in app.registered_commands[first:]:
        if _name(command) in own:
            app.registered_commands.remove(command)
            typer.echo(
                f"Warning: a plugin adds a command {_name(command)!r}, which is Karenina's own: it is left out.",
                err=True,
            )
    try:
        typer.main.get_command(app)
    except Exception as error:
        typer.echo(f"Warning: a plugin adds a command that cannot be built ({error}): none is added.", err=True)
        return _core_app(wanted)
    return app


def _name(command: CommandInfo) -> str | None:
    """The name under which Typer offers the command."""
    if command.name is not None or command.callback is None:
        return command.name
    return command.callback.__name__.lower().replace("_", "-")


def _core_app(wanted: str | None) -> typer.Typer:
    app = typer.Typer(
        name="karenina",
        help="Evaluate language models: let them answer freely, have a judge extract, and let a program decide.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # to import rich for the frames of a help takes longer than all the rest
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_global_options)
    for name, (module, function, summary) in COMMANDS.items():
        if wanted is None or name == wanted:
            epilog = exit_codes_help() if name in _OF_RUNS else None
            app.command(name, epilog=epilog)(getattr(import_module(f"karenina_cli.{module}"), function))
        else:
            app.command(name, help=summary)(_unloaded_command)
    for name, (module, group, summary) in GROUPS.items():
        if wanted is None or name == wanted:
            app.add_typer(getattr(import_module(f"karenina_cli.{module}"), group), name=name, help=summary)
        else:
            app.command(name, help=summary)(_unloaded_command)
    return app


def _unloaded_command() -> None:
    """Stands for a command that is listed and not called."""
    raise AssertionError("a command was called that was not loaded")


def _version(wanted: bool) -> None:
    if wanted:
        from karenina_core.version import __version__

        typer.echo(f"karenina {__version__}")
        raise typer.Exit


def _global_options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="Log what happens to each item; twice for everything.")
    ] = 0,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colours.")] = False,
) -> None:
    del version
    from karenina_cli.screen import Screen

    ctx.obj = Screen.make(no_color=no_color)
    _log_to(ctx.obj, verbose)


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from karenina_cli.screen import clean

        return clean(super().format(record))


def _log_to(screen: Screen, verbose: int) -> None:
    """Send the log to the error output. Without `-v` only warnings that belong to no item: results tell the others."""
    from rich.logging import RichHandler

    handler = RichHandler(
        console=screen.err,
        show_time=verbose > 0,
        show_path=False,
        markup=False,
        highlighter=None,
        rich_tracebacks=False,
    )
    handler.setFormatter(_CleanFormatter("%(message)s"))
    if not verbose:
        handler.addFilter(lambda record: not str(record.msg).startswith("["))
    logger = logging.getLogger("karenina")
    logger.handlers[:] = [handler]
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG))
    logger.propagate = False
