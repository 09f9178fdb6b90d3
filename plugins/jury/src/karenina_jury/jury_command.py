"""`karenina jury`: how the judges of a jury voted in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_report.options import config_error
from karenina_terminal.completion import result_files
from karenina_terminal.options import JSONObject
from karenina_terminal.screen import get_screen


def jury(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A result file or journal of a run with a jury.", autocompletion=result_files
        ),
    ],
    as_json: JSONObject = False,
) -> None:
    """Print how a jury voted: its pass rate beside that of each judge, their agreement, and what escalation saved."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_jury.jury_statistics import describe_juries, mean_call_costs
        from karenina_report.runs import iterate_results

        found = describe_juries(iterate_results(file), mean_call_costs(file))
        if not found:
            raise config_error(f"{file} has no result of a jury: set `jury` in the configuration of the run")
        if as_json:
            screen.json({"juries": [one.model_dump(mode="json") for one in found]})
            return
        from karenina_jury.jury_text import jury_sections
        from karenina_terminal.text_layout import format_sections

        for line in format_sections(jury_sections(found), screen.out.width):
            typer.echo(line)
