"""The Typer application: global options, built-in commands and plugin commands."""

from __future__ import annotations

import logging
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.models import CommandInfo, TyperInfo

from karenina_cli.hookspecs import karenina_commands
from karenina_terminal.lazy_commands import LazyCommand, WholeSummaries, add_lazy_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karenina_terminal.screen import Screen
    from karenina_toolkit.package_check.metadata import Finding


COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "run": (
        "commands.run_command:app",
        "Run a benchmark: call the model and the judge, and print each result and the summary.",
    ),
    "judge": (
        "commands.judge_command:app",
        "Judge outputs of a product, a log or another program, with one template or rubric for all of them.",
    ),
    "status": (
        "commands.journal_command:status",
        "Show the progress of a run from its journal, even while it is running.",
    ),
    "resume": (
        "commands.run_command:resume_app",
        "Resume one of your stopped runs, with the options of the original command.",
    ),
    "rescore": (
        "commands.rescore_command:rescore",
        "Score a run again from its journal, without calling a model, after ground truths or tolerances have changed.",
    ),
    "show": (
        "commands.show_command:show",
        "Print the results of a run in full, and their summary.",
    ),
    "check": (
        "commands.check_command:check",
        "Check a benchmark before the first call, and print all problems in the file with their lines.",
    ),
    "plan": (
        "commands.plan_command:plan",
        "Print the plan: the stages in order, what each of them waits for, and which are skipped and why.",
    ),
    "prompts": (
        "commands.prompts_command:app",
        "Print every prompt of a question as a run sends it, with placeholders for replies, without calling a model.",
    ),
    "plugins": (
        "commands.plugins_command:list_plugins",
        "List the installed plugins, and the reasons why any of them cannot be used.",
    ),
    "primitives": (
        "commands.kinds_command:primitives",
        "Print the primitives, which compare a template field with its ground truth, and their parameters.",
    ),
    "traits": (
        "commands.kinds_command:traits",
        "Print the kinds of rubric traits, which score qualities that have no correct answer, and their fields.",
    ),
    "config": (
        "commands.config_command:config",
        "Print the configuration names of the core and the installed plugins, or save, list or delete presets.",
    ),
    "doctor": (
        "commands.doctor_command:doctor",
        "Check the installation, configuration, models, servers and journals, and print how to fix problems.",
    ),
    "trust": (
        "commands.trust_command:trust",
        "List the code and the restricted values in a file and, after confirmation, trust exactly that content.",
    ),
    "demo": (
        "commands.demo_command:demo",
        "Evaluate a small local model on fourteen questions. Needs no API key.",
    ),
    "journal": (
        "commands.journal_command:app",
        "Repair a damaged journal: keep what can be read.",
    ),
}
"""The built-in commands, each with its module, its object in that module, and the first line of its help."""


def build_app() -> typer.Typer:
    """Return the Typer application that `build_command` uses."""
    return _build()[0]


def build_command() -> Callable[..., object]:
    """Return the command as a function that reads the process's arguments. Plugin commands that cannot be built are
    skipped with a warning.

    Plugins that may add commands are loaded. SDKs, HTTP clients and the modules of built-in commands are imported only
    when they are needed.
    """
    return _build()[1]


def _build() -> tuple[typer.Typer, Callable[..., object]]:
    """Return the Typer application and its command. Plugin commands that cannot be built, or have the names of built-in
    ones or of another plugin's, are skipped with a warning, and so are callbacks of plugins, which would replace the
    global options.
    """
    from karenina_core.errors import PluginError
    from karenina_terminal.command_hook import command_plugins

    app = _core_app()
    options, known = app.registered_callback, _added(app)
    _owners.clear()
    _ignored.clear()
    try:
        with redirect_stdout(sys.stderr):  # for plugins that print
            for offer in command_plugins().each(karenina_commands, app=app):  # a hook that fails is recorded
                owner = f"{offer.distribution} {offer.version}"
                for one in _added(app):
                    if one not in known:
                        _note_owner(app, one, owner)
                        known.append(one)
                if app.registered_callback is not options:
                    app.registered_callback = options
                    _ignore(owner, "the callback", "it would replace the options of karenina itself")
    except PluginError as error:
        typer.echo(f"Warning: plugin commands are not available: {error}", err=True)
    for one in _added(app):
        if _name(one) in COMMANDS:
            _remove(app, one)
            owner = _owners.pop(_name(one), "a plugin")
            _ignore(owner, f"the command {_name(one)!r}", "Karenina already has a command with that name")
    try:
        return app, typer.main.get_command(app)
    except Exception:
        _drop_broken(app)
        return app, typer.main.get_command(app)


def _added(app: typer.Typer) -> list[CommandInfo | TyperInfo]:
    """Return the commands and groups other than the built-in ones."""
    return [*app.registered_commands[len(COMMANDS) :], *app.registered_groups]


def _remove(app: typer.Typer, added: CommandInfo | TyperInfo) -> None:
    """Remove a command or group from the application."""
    if isinstance(added, CommandInfo):
        app.registered_commands.remove(added)
    else:
        app.registered_groups.remove(added)


def _drop_broken(app: typer.Typer) -> None:
    """Remove the plugins' commands and command groups that Typer cannot build, with a warning for each."""
    for one in _added(app):
        single = typer.Typer()
        if isinstance(one, CommandInfo):
            single.registered_commands.append(one)
        else:
            single.registered_groups.append(one)
        try:
            typer.main.get_group(single)
        except Exception as error:
            _remove(app, one)
            owner = _owners.pop(_name(one), "a plugin")
            _ignore(owner, f"the command {_name(one)!r}", f"it cannot be built: {error}")


def _note_owner(app: typer.Typer, added: CommandInfo | TyperInfo, owner: str) -> None:
    """Store which distribution adds a command or group. If another one has added one with the same name, that is
    removed with a warning.
    """
    name = _name(added)
    other = _owners.get(name, owner)
    if name is not None and other != owner:
        for one in _added(app):
            if one is not added and _name(one) == name:
                _remove(app, one)
        _ignore(other, f"the command {name!r}", f"{owner} has one with that name; uninstall one of them")
    _owners[name] = owner


def _ignore(owner: str, what: str, why: str) -> None:
    """Print a warning about a part of a distribution that is ignored, and store it for `check_commands`."""
    _ignored.setdefault(owner, []).append(f"{what} was ignored because {why}")
    typer.echo(f"Warning: {what} of {owner} was ignored because {why}.", err=True)


def check_commands(context: typer.Context, owner: str) -> Iterator[Finding]:
    """Yield findings about the commands that a distribution adds. `owner` is its name and version. Commands are
    imported, but not called.
    """
    from karenina_toolkit.package_check.metadata import Finding

    yield from (Finding("Commands", "problem", text) for text in _ignored.get(owner, ()))
    root = context.find_root()
    for name, command in getattr(root.command, "commands", {}).items():
        if _owners.get(name) == owner:
            problem = command.why_missing() if isinstance(command, LazyCommand) else None
            yield Finding("Commands", "ok" if problem is None else "problem", problem or name)


def _name(added: CommandInfo | TyperInfo) -> str | None:
    """Return the name of a command or group, or None. As in Typer, that of a command defaults to its function's name,
    and that of a group to the name of its application, if it has one.
    """
    if isinstance(added, TyperInfo):
        names = [added.name, added.typer_instance.info.name if added.typer_instance is not None else None]
        return next((name for name in names if isinstance(name, str)), None)
    if added.name is not None or added.callback is None:
        return added.name
    return added.callback.__name__.lower().replace("_", "-")


_owners: Final[dict[str | None, str]] = {}
"""The distribution and version that each plugin command or group comes from."""
_ignored: Final[dict[str, list[str]]] = {}
"""The commands and callbacks that were ignored, with the reasons, by distribution and version."""


class _Commands(WholeSummaries):
    """The group of all commands. Errors about unknown commands name plugins that could not be loaded."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An unexpected error in a plugin command gets a note with the plugin's name."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if ctx.invoked_subcommand in _owners:
                owner = _owners[ctx.invoked_subcommand]
                error.add_note(f"This error occurred in the {ctx.invoked_subcommand!r} command of {owner}.")
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return, as in click, the name of the command that the arguments name, the command and the other arguments.
        Raises `UsageError` if there is no such command, with the plugins that were not loaded and might have it.
        """
        name = args[0] if args else ""
        if not name or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        from karenina_core.config.setting_owners import not_loaded
        from karenina_terminal.command_hook import command_plugins

        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            note = not_loaded(command_plugins())
            ctx.fail(f"{str(error).removesuffix('.')}{note}" if note else str(error))


def _core_app() -> typer.Typer:
    """Return the Typer application with the global options and built-in commands. The commands' modules are not
    imported.
    """
    app = typer.Typer(
        name="karenina",
        cls=_Commands,
        help="Evaluate language models: a model answers freely, a judge extracts fields, and a program decides.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # importing rich to frame help texts takes longer than everything else
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_global_options)
    for name, (target, summary) in COMMANDS.items():
        add_lazy_command(app, name, f"karenina_cli.{target}", summary)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from karenina_core.catalog import __version__

        typer.echo(f"karenina {__version__}")
        raise typer.Exit


def _global_options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="Log each item; use -vv to log everything.")
    ] = 0,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colors.")] = False,
) -> None:
    del version
    from karenina_terminal.screen import Screen

    ctx.obj = Screen.make(no_color=no_color)
    _log_to(ctx.obj, verbose)


class _CleanFormatter(logging.Formatter):
    """A log formatter for terminals that makes control characters visible."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record, making control characters visible."""
        from karenina_toolkit.printable import clean

        return clean(super().format(record))


def _log_to(screen: Screen, verbose: int) -> None:
    """Send Karenina's log to standard error only, replacing other handlers, with more detail for `verbose` 1 and 2.
    Messages that commands also print as errors are dropped, and if `verbose` is 0, so are those about single items,
    because the results contain them.
    """
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
    handler.addFilter(lambda record: not hasattr(record, "karenina_repeated"))
    if not verbose:
        handler.addFilter(lambda record: not str(record.msg).startswith("["))
    logger = logging.getLogger("karenina")
    logger.handlers[:] = [handler]
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG))
    logger.propagate = False
