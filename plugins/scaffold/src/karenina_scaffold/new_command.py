"""`karenina new`: a package for a plugin, which works and has contract tests."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_core import plugins
from karenina_core.errors import ConfigError
from karenina_terminal.screen import get_screen

if TYPE_CHECKING:
    from karenina_scaffold.kinds import PluginKind
    from karenina_scaffold.names import Names


def check_not_offered(kind: PluginKind, names: Names) -> None:
    """Raise `ConfigError` if an installed plugin offers something of this kind with the name."""
    name = names.suffix if kind.name == "format" else names.class_name
    if name in _offered(kind):
        raise ConfigError([f"an installed plugin has the {kind.name} {name!r} already: choose another name"])


def _offered(kind: PluginKind) -> Collection[str]:
    installed = plugins.active_plugins()
    if kind.group == "karenina.stages":
        return {one.value.name for one in installed.of_kind("stage")}
    if kind.name != "format":
        return ()  # their names begin with the package, which is new
    from karenina_benchmark.formats.format_registry import list_formats

    return {suffix for one in list_formats(installed) for suffix in one.value.suffixes}


def new(
    ctx: typer.Context,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="stage, parse-stage, check, adapter, primitive, trait or format.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the package, such as word-count.")],
    into: Annotated[
        Path, typer.Option("--into", metavar="DIR", help="The folder in which the folder of the package is created.")
    ] = Path(),
) -> None:
    """Write a package for a plugin of your own, which can be installed, works, and has contract tests.

    Change what it does in src, and the samples of its tests.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_core.catalog import install_command
        from karenina_scaffold.names import Names
        from karenina_scaffold.rendering import fill, render_package, write_new_folder

        chosen = find_kind(kind)
        names = Names.of(name)
        names.check_free()
        check_not_offered(chosen, names)
        folder = into / names.name
        write_new_folder(folder, render_package(chosen, names))
        steps = (
            f"cd {shlex.quote(str(folder))}",
            "pip install -e '.[tests]'",
            "pytest",
            fill(chosen.command, names.to_dict()),
        )
        typer.echo(f"Created {folder}: {chosen.description} Next:\n")
        typer.echo("".join(f"    {step}\n" for step in steps))
        if find_spec("karenina_testing") is None:
            typer.echo(f"The tests need karenina-testing: {install_command('karenina-testing')}")
        typer.echo(f"{fill(chosen.usage, names.to_dict())}\nIts code is in {folder / 'src' / names.module}.")


def find_kind(name: str) -> PluginKind:
    """Return the kind with this name. Raises `ConfigError` if there is none."""
    from karenina_core.errors import ConfigError
    from karenina_core.text import did_you_mean
    from karenina_scaffold.kinds import KINDS

    if name not in KINDS:
        raise ConfigError([f"there is no kind of plugin {name!r}{did_you_mean(name, KINDS)}"])
    return KINDS[name]
