"""`karenina resume`: continue a run that was stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from karenina_cli.journal_paths import find_journal
from karenina_cli.options import JournalFile
from karenina_cli.screen import get_screen


def resume(
    ctx: typer.Context,
    journal: JournalFile,
    budget: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Another budget than the run had, in US dollars.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, and no results but the summary.")] = False,
) -> None:
    """Go on with a run of yours that was stopped, as its command said; keys come from the environment once more.

    The command comes from your own state folder and never from the journal, which may be somebody else's: for a journal
    that you did not run at this place, the `karenina run` command that it describes is printed, and nothing is started.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.resume_request import make_resume_request
        from karenina_cli.run_execution import execute_run

        request = make_resume_request(screen, find_journal(screen, journal))
        if budget is not None:
            request = replace(request, config=request.config.with_values(budget=budget))
        execute_run(screen, request, fail_under=None, as_json=as_json, quiet=quiet)
