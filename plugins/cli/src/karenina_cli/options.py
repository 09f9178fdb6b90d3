"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_cli.model_specs import SPEC_HELP

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="A configuration file: TOML, YAML or JSON.", show_default=False)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a configuration name (`karenina config` lists them).",
        show_default=False,
    ),
]
Answering = Annotated[
    list[str] | None, typer.Option("--answering", "-a", metavar="SPEC", help=f"A model under test: {SPEC_HELP}")
]
Judges = Annotated[
    list[str] | None, typer.Option("--judge", "-j", metavar="SPEC", help="A judge model, in the same form.")
]
TrustAll = Annotated[
    bool,
    typer.Option(
        "--trust-all",
        help="Run the benchmark's code and use its restricted values in this run: only for your own files.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Map the columns of a table to question, answer, id and keywords, such as question=Prompt,answer=Gold.",
        show_default=False,
    ),
]
JournalFile = Annotated[
    Path, typer.Argument(metavar="JOURNAL", help="A journal of `karenina run`, or its result file.")
]

FailUnder = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Exit with 1 if the pass rate is below this, or if there is none.", show_default=False
    ),
]
MaxUnjudged = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Exit with 1 if more than N items were not judged.", show_default=False),
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
