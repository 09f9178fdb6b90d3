"""The commands `karenina new`, for writing a plugin, and `karenina init`, for a first benchmark."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from karenina_core import plugins
from karenina_core.errors import ConfigError
from karenina_scaffold.kinds import KINDS, PluginKind
from karenina_terminal.completion import matching
from karenina_terminal.screen import get_screen

if TYPE_CHECKING:
    from karenina_scaffold.rendering import Names

BENCHMARK: Final = "benchmark.yaml"
CONFIG: Final = "karenina.toml"
SCHEMA: Final = "benchmark.schema.json"
TASK: Final = "task"
"""The kind of `karenina new` that is a benchmark, not a package."""
_TASK_FILES: Final = (
    BENCHMARK,
    "workspace/statistics_tool.py",
    "tests/hidden/test_median.py",
    "solution.patch",
)


def check_not_offered(kind: PluginKind, names: Names, commands: Collection[str]) -> None:
    """Raise `ConfigError` if Karenina or a plugin already has something of the given kind and name: for a format, the
    suffix, and for a stage, the class name. `commands` contains the names of the existing commands.
    """
    of_kind = {"format": names.suffix, **dict.fromkeys(("stage", "parse-stage", "check"), names.class_name)}
    name = of_kind.get(kind.name, names.name)
    if name in (commands if kind.name == "command" else _offered(kind)):
        raise ConfigError([f"Karenina or a plugin already provides the {kind.name} {name!r}; choose another name"])


def _offered(kind: PluginKind) -> Collection[object]:
    """Return what plugins of this kind already use: their names, the suffixes of formats, or the keys of import
    formats. The result is empty for kinds that are named after the package.
    """
    installed = plugins.active_plugins()
    if kind.group == "karenina.stages":
        return {offer.value.name for offer in installed.of_kind("stage")}
    if kind.name == "exporter":
        from karenina_report.exports.exporter import Exporter
        from karenina_report.exports.hookspecs import karenina_exporters

        return {offer.value.name for offer in installed.offers(karenina_exporters, Exporter)}
    if kind.name == "executor":
        from karenina_engine.run.plugin_offers import offered_executors

        return {executor.name for executor, _ in offered_executors(installed)}
    if kind.name not in ("format", "import-format"):
        return ()
    from karenina_benchmark.formats.format_registry import list_formats

    formats = [offer.value for offer in list_formats(installed)]
    if kind.name == "import-format":
        return {getattr(file_format, "key", None) for file_format in formats}
    return {suffix for file_format in formats for suffix in file_format.suffixes}


def new(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"One of {', '.join(KINDS)}, or {TASK}.",
            autocompletion=lambda incomplete: matching([*KINDS, TASK], incomplete),
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the package, such as word-count.")],
    into: Annotated[
        Path, typer.Option("--into", metavar="DIR", help="The folder in which to create the package folder.")
    ] = Path(),
) -> None:
    """Write a package for a plugin of your own with contract tests, or a task for coding agents.

    The package can be installed and works. Then change its code in src, and the samples in its tests. The kind `task`
    is a benchmark instead: a task for coding agents, with a broken program, hidden tests and a solution.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_core.catalog import install_command
        from karenina_scaffold.rendering import Names, fill, render_package, write_new_folder

        if kind == TASK:
            _write_task(into / Names.of(name).name, Names.of(name))
            return
        chosen = find_kind(kind)
        names = Names.of(name)
        names.check_free()
        root = ctx.find_root()
        commands = root.command.list_commands(root) if isinstance(root.command, TyperGroup) else ()
        check_not_offered(chosen, names, commands)
        folder = into / names.name
        write_new_folder(folder, render_package(chosen, names))
        missing = find_spec("karenina_testing") is None  # which the tests require
        steps = (
            *((install_command("karenina-testing"),) if missing else ()),
            f"cd {shlex.quote(str(folder))}",
            "pip install -e '.[tests]'",
            "pytest",
            fill(chosen.command, names.to_dict()),
        )
        typer.echo(f"Created {folder}: {chosen.description} Next:\n")
        typer.echo("".join(f"    {step}\n" for step in steps))
        typer.echo(f"{fill(chosen.usage, names.to_dict())}\nThe code is in {folder / 'src' / names.module}.")


def _write_task(folder: Path, names: Names) -> None:
    """Write a benchmark with a task for coding agents to the new folder `folder`, and print what to do with it."""
    from karenina_scaffold.rendering import fill, read_template, write_new_folder

    files = {path: read_template(TASK, PurePosixPath(path).name) for path in _TASK_FILES}
    files[BENCHMARK] = fill(files[BENCHMARK], names.to_dict())
    write_new_folder(folder, {PurePosixPath(path): text for path, text in files.items()})
    file = shlex.quote(str(folder / BENCHMARK))
    typer.echo(f"Created {folder}: a broken program in workspace, hidden tests, and a solution. Next:\n")
    typer.echo(f"    karenina trust {file}")
    typer.echo(f"    karenina check {file} --run-checks --sandbox bwrap")
    typer.echo(f"    karenina run {file} -a openai:NAME --sandbox bwrap")


def find_kind(name: str) -> PluginKind:
    """Return the plugin kind called `name`. Raises `ConfigError` if there is none."""
    from karenina_core.text import did_you_mean

    if name not in KINDS:
        raise ConfigError([f"unknown plugin kind {name!r}{did_you_mean(name, [*KINDS, TASK])}"])
    return KINDS[name]


def init(
    ctx: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder, created if necessary.", show_default="this one"),
    ] = Path(),
) -> None:
    """Write a first benchmark and a configuration, with comments, and a schema for editors to check the benchmark.
    Existing files are never replaced.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_scaffold.rendering import write_new_files

        write_new_files(folder, {PurePosixPath(name): text for name, text in project_files().items()})
        files = [shlex.quote(str(folder / name)) for name in (BENCHMARK, CONFIG)]
        benchmark, config = files
        typer.echo(f"Created {folder / BENCHMARK}, {folder / CONFIG} and {folder / SCHEMA}. Next:\n")
        typer.echo(f"    karenina check {benchmark} --config {config}")
        typer.echo(f"    karenina plan {benchmark} --config {config}\n")
        typer.echo(f"Set your model and your judge in {folder / CONFIG}, and then:\n")
        typer.echo(f"    karenina run {benchmark} --config {config}")


def project_files() -> dict[str, str]:
    """Return the contents of the files that `init` writes, keyed by file name."""
    from karenina_benchmark.formats.file_schema import benchmark_schema
    from karenina_cli.commands.config_command import schema_of
    from karenina_core.config import all_settings
    from karenina_scaffold.rendering import read_template

    return {
        BENCHMARK: read_template("init", BENCHMARK),
        CONFIG: read_template("init", CONFIG),
        SCHEMA: json.dumps(benchmark_schema(schema_of(all_settings())), indent=2) + "\n",
    }
