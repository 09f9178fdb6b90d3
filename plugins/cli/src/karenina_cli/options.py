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
        "--set", metavar="NAME=VALUE", help="Set one name (`karenina config` lists them).", show_default=False
    ),
]
Answering = Annotated[
    list[str] | None, typer.Option("--answering", "-a", metavar="SPEC", help=f"A model under test: {SPEC_HELP}")
]
Judges = Annotated[
    list[str] | None, typer.Option("--judge", "-j", metavar="SPEC", help="A judge, written in the same way.")
]
TrustAll = Annotated[
    bool,
    typer.Option(
        "--trust-all", help="Run the benchmark's code and use its restricted values: only for your own files."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Which columns of a table are question, answer, id and keywords, if they have other names: "
        "question=Prompt,answer=Gold.",
        show_default=False,
    ),
]
JournalFile = Annotated[Path, typer.Argument(metavar="JOURNAL", help="A journal of `karenina run`, or its results.")]
