"""`karenina show`: print the results of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_cli.screen import get_screen
from karenina_core.data.outcome import Outcome


def show(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="RESULT...", help="Result files of `karenina run`.")],
    outcome: Annotated[
        list[Outcome] | None, typer.Option("--outcome", help="Print only items with this outcome.", show_default=False)
    ] = None,
    question: Annotated[
        list[str] | None, typer.Option("--question", "-q", metavar="ID", help="Print only this question.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the summary.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print long answers in full.")] = False,
) -> None:
    """Print the results of a run in full, and their summary."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.cost_output import cost_text, read_spending
        from karenina_cli.json_output import result_json, summary_json
        from karenina_cli.result_output import print_result
        from karenina_cli.summary_output import print_summary
        from karenina_core.errors import ConfigError
        from karenina_core.text import did_you_mean
        from karenina_engine.cost.ledger import make_spending_report
        from karenina_engine.results.result_set import VerificationResultSet, read_results

        everything = VerificationResultSet(result for file in files for result in read_results(file))
        ids = {result.question_id for result in everything}
        unknown = [id for id in question or () if id not in ids]
        if unknown:
            raise ConfigError([f"there is no result for question {id!r}{did_you_mean(id, ids)}" for id in unknown])
        results = everything.filter(
            lambda result: (
                (not outcome or result.outcome in outcome) and (not question or result.question_id in question)
            )
        )
        spent = read_spending(files)
        if as_json:
            screen.json(
                {
                    "results": [result_json(one) for one in results],
                    **summary_json(results.totals()),
                    "output": str(files[0]) if len(files) == 1 else [str(file) for file in files],
                    "money": make_spending_report(spent) if spent is not None else None,
                }
            )
            return
        if not quiet:
            for number, result in enumerate(results, 1):
                print_result(screen.out, result, f"{number}/{len(results)}", detailed=True, full=full)
        print_summary(screen.out, results, cost=cost_text(spent) if everything.usage().calls else None)
        if len(results) < len(everything):
            screen.note(f"The summary covers the selected {len(results)} of {len(everything)} results.")
