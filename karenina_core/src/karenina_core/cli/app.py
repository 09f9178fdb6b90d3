"""Put the command together: the global options, the core's commands, and those that plugins add."""

from __future__ import annotations

import logging
from typing import Annotated

import typer
from typer.models import CommandInfo

from karenina_core.cli.screen import Screen, clean


def build_app() -> typer.Typer:
    """The whole command. Loads the plugins, because they may add commands; no SDK, HTTP client or run is imported.

    Commands of plugins that cannot be built are left out, all of them, with a warning: the core's still work.
    """
    from karenina_core import plugins

    app = _core_app()
    own = {_name(command) for command in app.registered_commands}
    first = len(app.registered_commands)
    plugins.current().add_commands(app)
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
        return _core_app()
    return app


def _name(command: CommandInfo) -> str | None:
    """The name under which Typer offers the command."""
    if command.name is not None or command.callback is None:
        return command.name
    return command.callback.__name__.lower().replace("_", "-")


def _core_app() -> typer.Typer:
    from karenina_core.cli import (
        config_command,
        journal_commands,
        plan_command,
        plugins_command,
        prompts_command,
        rescore_command,
        run_command,
        show_command,
        trust_command,
    )

    app = typer.Typer(
        name="karenina",
        help="Evaluate language models: let them answer freely, have a judge extract, and let a program decide.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    app.command("run")(run_command.run)
    app.command("status")(journal_commands.status)
    app.command("resume")(journal_commands.resume)
    app.command("rescore")(rescore_command.rescore)
    app.command("export")(journal_commands.export)
    app.command("show")(show_command.show)
    app.command("plan")(plan_command.plan)
    app.command("prompts")(prompts_command.prompts)
    app.command("plugins")(plugins_command.list_plugins)
    app.command("config")(config_command.config)
    app.command("trust")(trust_command.trust)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from karenina_core import __version__

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
    ctx.obj = Screen.make(no_color=no_color)
    _log_to(ctx.obj, verbose)


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
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
