"""`karenina init`: a first benchmark and a configuration, with comments."""

from __future__ import annotations

import json
import shlex
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from karenina_terminal.screen import get_screen

BENCHMARK: Final = "benchmark.yaml"
CONFIG: Final = "karenina.toml"
SCHEMA: Final = "benchmark.schema.json"


def init(
    ctx: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder, created if necessary.", show_default="this one"),
    ] = Path(),
) -> None:
    """Write a first benchmark and a configuration, with comments, and the schema with which editors check it.

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
        typer.echo(f"Name your model and your judge in {folder / CONFIG}, and then:\n")
        typer.echo(f"    karenina run {benchmark} --config {config}")


def project_files() -> dict[str, str]:
    """Return the contents of the files that `init` writes, by file name."""
    from karenina_benchmark.formats.file_schema import benchmark_schema
    from karenina_cli.commands.config_command import schema_of
    from karenina_core.config import all_settings
    from karenina_scaffold.rendering import read_template

    return {
        BENCHMARK: read_template("init", BENCHMARK),
        CONFIG: read_template("init", CONFIG),
        SCHEMA: json.dumps(benchmark_schema(schema_of(all_settings())), indent=2) + "\n",
    }
