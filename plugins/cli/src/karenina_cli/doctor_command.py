"""`karenina doctor`: what is wrong with the installation, the configuration, servers and journals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from karenina_cli.configuration import read_configuration
from karenina_cli.exit_codes import ExitCode
from karenina_cli.options import Answering, ConfigFile, Judges, PrintJSON, Settings
from karenina_cli.screen import get_screen
from karenina_toolkit.printable import clean, quantity

_MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(
    ctx: typer.Context,
    journals: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[JOURNAL]...",
            help="Journals to check. Default: those in this folder, *.journal.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
    answering: Answering = None,
    judge: Judges = None,
    settings: Settings = None,
    as_json: PrintJSON = False,
) -> None:
    """Check the installation, the configuration, its models and servers, and journals, and print the cures.

    No model is called, and no key is sent: of each configured server only the connection is tried. Exits with 2 if
    there is a problem.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.diagnosis import diagnose

        chosen = journals or sorted(Path().glob("*.journal"))
        findings = []
        for one in diagnose(
            lambda: read_configuration(None, config, settings, answering=answering, judges=judge), chosen
        ):
            findings.append(one)
            if not as_json:
                mark, style = _MARKS[one.state]
                screen.out.print(Text(f"{mark} ", style) + Text(clean(f"{one.area}: {one.text}"), ""), soft_wrap=True)
        problems = sum(one.state == "problem" for one in findings)
        if as_json:
            screen.json({"problems": problems, "findings": [one.to_json() for one in findings]})
        elif not problems:
            screen.out.print("No problem was found.")
        if problems:
            screen.note(f"{quantity(problems, 'problem')} found.")
            raise typer.Exit(ExitCode.BAD_INPUT)
