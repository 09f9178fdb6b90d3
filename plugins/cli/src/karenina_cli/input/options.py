"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina_cli.input import completion_values
from karenina_cli.input.configuration import SPEC_HELP
from karenina_cli.running.ci_reports import Limits, read_count, read_share
from karenina_terminal import completion


def _check_limits(read: Callable[[str], Any]) -> Callable[[list[str] | None], list[str] | None]:
    """Return an option callback that checks `LIMIT` and `MODEL=LIMIT` with `read`, and returns the texts unchanged."""

    def check(texts: list[str] | None) -> list[str] | None:
        Limits.parse(texts, read)
        return texts

    return check


def resolve_config_file(ctx: typer.Context, value: Path | None) -> Path | None:
    """Return the file for `--config`: the file with this name, else the preset, with a note on which is used.

    Raises `typer.BadParameter` if there is neither, and for a preset that another user could have written.
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
            get_screen(ctx).note(f"The configuration is the file {name} in this folder, not the preset of that name.")
        return value
    if name not in presets:
        near = did_you_mean(name, presets) or "; `karenina config save NAME` saves one"
        raise typer.BadParameter(f"there is neither a file nor a preset {name!r}{near}")
    try:
        read_private(presets[name])
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"the preset {name!r} cannot be used: {error}") from None
    get_screen(ctx).note(f"The configuration is the preset {name}, {presets[name]}.")
    return presets[name]


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="A configuration file (TOML, YAML or JSON), or a preset of `karenina config save`.",
        show_default=False,
        callback=resolve_config_file,
        autocompletion=completion_values.config_files,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a configuration name (`karenina config` lists them).",
        show_default=False,
        autocompletion=completion_values.settings,
    ),
]
Answering = Annotated[
    list[str] | None,
    typer.Option(
        "--answering",
        "-a",
        metavar="SPEC",
        help=f"A model under test: {SPEC_HELP}",
        autocompletion=completion_values.models,
    ),
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        "-j",
        metavar="SPEC",
        help="A judge model, in the same form.",
        autocompletion=completion_values.models,
    ),
]
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
        help="A journal of `karenina run`, or its result file.",
        autocompletion=completion.journal_files,
    ),
]

FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[MODEL=]SHARE",
        callback=_check_limits(read_share),
        help="Exit with 1 if the pass rate is below this share, from 0 to 1, or if there is none, for any answering "
        "model and judge. MODEL=SHARE is for one answering model.",
        show_default=False,
    ),
]
MaxUnjudged = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[MODEL=]N",
        callback=_check_limits(read_count),
        help="Exit with 1 if more than N items were not judged, for any answering model and judge. MODEL=N is for one "
        "answering model.",
        show_default=False,
    ),
]
JUnit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Write JUnit XML for CI to this file, with one test case per item.",
        show_default=False,
    ),
]
SummaryMarkdown = Annotated[
    bool,
    typer.Option(
        "--summary-markdown",
        help="Write a summary in Markdown to the file named by GITHUB_STEP_SUMMARY, or to the standard output if it "
        "is not set.",
    ),
]
ResultsJSON = Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the summary, without progress and single results.")]
