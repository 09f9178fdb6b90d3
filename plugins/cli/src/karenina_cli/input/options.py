"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina_cli.input import completion_values
from karenina_cli.running.ci_reports import Limits, read_count, read_share
from karenina_terminal import completion
from karenina_terminal.options import json_option


def benchmark_argument(help: str, metavar: str = "FILE") -> Any:
    """Return an argument for a benchmark file, with completion of file names."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completion.benchmark_files)


def benchmark_option(help: str) -> Any:
    """Return an option for a benchmark file, with completion of file names."""
    return typer.Option(metavar="FILE", help=help, autocompletion=completion.benchmark_files)


def name_argument(help: str, complete: Callable[[str], list[str]], metavar: str = "NAME") -> Any:
    """Return an argument for a name, with completion by `complete`."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete)


def question_option(help: str) -> Any:
    """Return the option `--question` for a question's id. For completion, the ids come from the benchmark in the
    argument `file`.
    """
    return typer.Option("--question", "-q", metavar="ID", help=help, autocompletion=completion_values.question_ids)


def _limit_option(value: str, read: Callable[[str], Any], condition: str) -> Any:
    """Return an option that accepts `LIMIT` and `MODEL=LIMIT`. `value` and `condition` are used in its help. Strings
    are checked with `read`, but not converted.
    """

    def check(texts: list[str] | None) -> list[str] | None:
        """Raise `typer.BadParameter` if one of the strings is invalid."""
        Limits.parse(texts, read)
        return texts

    help = (
        f"Exit with 1 if {condition} for any answering model and judge. MODEL={value} applies to one answering model."
    )
    return typer.Option(metavar=f"[MODEL=]{value}", callback=check, help=help)


def resolve_config_file(ctx: typer.Context, value: Path | None) -> Path | None:
    """Return the file for `--config`, which may be the name of a file or a preset, or None without a `value`. A file in
    the working directory is used instead of a preset with the same name; a note says which is used. A path with a
    folder or suffix is returned unchanged, even if it does not exist. Raises `typer.BadParameter` if there is neither a
    file nor a preset, or if another user could have written the preset.
    """
    if value is None or ctx.resilient_parsing or value.name != str(value) or value.suffix:
        return value
    from karenina_benchmark.config.presets import list_presets
    from karenina_core.text import did_you_mean
    from karenina_engine.user_files import read_private
    from karenina_terminal.screen import get_screen

    presets = list_presets()
    name = str(value)
    if os.path.lexists(value):
        if name in presets:
            get_screen(ctx).note(
                f"Using the file {name!r} in this folder as the configuration, not the preset with the same name."
            )
        return value
    if name not in presets:
        near = did_you_mean(name, presets) or "; use `karenina config save NAME` to save a preset"
        raise typer.BadParameter(f"no file or preset is named {name!r}{near}")
    try:
        read_private(presets[name])
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"the preset {name!r} cannot be used: {error}") from None
    get_screen(ctx).note(f"Using the preset {name!r} as the configuration ({presets[name]}).")
    return presets[name]


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="A configuration file (TOML, YAML or JSON), or a preset saved with `karenina config save`.",
        callback=resolve_config_file,
        autocompletion=completion_values.config_files,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a value in the configuration (`karenina config` lists the names).",
        autocompletion=completion_values.settings,
    ),
]


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """The configuration options, as one parameter of a command (see `with_option_groups`)."""

    config: ConfigFile = None
    settings: Settings = None


TrustAll = Annotated[
    bool,
    typer.Option(
        "--trust-all",
        help="Run the benchmark's code and use its restricted values in this run. Use this only for your own files.",
    ),
]
JournalFile = Annotated[
    Path,
    typer.Argument(
        metavar="JOURNAL",
        help="A journal written by `karenina run`, or the result file of the run.",
        autocompletion=completion.journal_files,
    ),
]

FailUnder = Annotated[
    list[str] | None,
    _limit_option("SHARE", read_share, "the pass rate is below this share, from 0 to 1, or if there is no pass rate,"),
]
MaxUnjudged = Annotated[list[str] | None, _limit_option("N", read_count, "more than N items were not judged,")]
JUnit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write JUnit XML for CI to this file, with one test case per item."),
]
SummaryMarkdown = Annotated[
    bool,
    typer.Option(
        "--summary-markdown",
        help="Write a summary in Markdown to the file named by GITHUB_STEP_SUMMARY, or to standard output if that "
        "variable is not set.",
    ),
]
ResultsJSON = Annotated[bool, json_option("Print the results and the summary as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the summary, without progress or individual results.")]


@dataclass(frozen=True, slots=True)
class CIOptions:
    """The options for CI: exit code conditions and reports."""

    fail_under: FailUnder = None
    max_unjudged: MaxUnjudged = None
    junit: JUnit = None
    summary_markdown: SummaryMarkdown = False
