"""`karenina resume`: continue a run that was stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from karenina_cli.input.named_files import find_journal
from karenina_cli.input.options import JournalFile, Quiet, ResultsJSON
from karenina_terminal.screen import exit_codes_help, get_screen

app = typer.Typer()


@app.command(epilog=exit_codes_help())
def resume(
    ctx: typer.Context,
    journal: JournalFile,
    budget: Annotated[
        str | None,
        typer.Option(metavar="USD", help="A new budget instead of the run's, in US dollars.", show_default=False),
    ] = None,
    as_json: ResultsJSON = False,
    quiet: Quiet = False,
) -> None:
    """Continue a run of yours that was stopped, with the options of its command.

    Keys are read from the environment again. The command is read from your own state folder and never from the journal,
    which may be somebody else's. For a journal of a run that you did not start here, nothing is run; the `karenina run`
    command that the journal describes is printed instead.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.earlier_runs.resume_request import make_resume_request
        from karenina_cli.running.run_execution import execute_run

        request = make_resume_request(find_journal(screen, journal), screen.note)
        if budget is not None:
            request = replace(request, config=request.config.with_values(budget=budget))
        execute_run(screen, request, as_json=as_json, quiet=quiet)
