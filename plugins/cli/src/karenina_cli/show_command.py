"""`karenina show`: print the results of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_cli import completion_values
from karenina_cli.screen import get_screen
from karenina_core.data.outcome import Outcome


def show(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...",
            help="Result files of `karenina run`.",
            autocompletion=completion_values.result_files,
        ),
    ],
    outcome: Annotated[
        list[Outcome] | None, typer.Option("--outcome", help="Print only items with this outcome.", show_default=False)
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            "-q",
            metavar="ITEM",
            help="Print only this item or question: a number as printed (3), an id or its beginning, or words of the "
            "question.",
            show_default=False,
            autocompletion=completion_values.result_ids,
        ),
    ] = None,
    benchmark: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The benchmark of another person's run, for the rules of its fields.",
            show_default=False,
            autocompletion=completion_values.benchmark_files,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the summary.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print long answers and equal failures in full.")] = False,
) -> None:
    """Print the results of a run in full, and their summary."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.cost_output import cost_text, read_spending
        from karenina_cli.item_selection import select_items
        from karenina_cli.json_output import result_json, summary_json
        from karenina_cli.result_output import Failures, print_result
        from karenina_cli.summary_output import print_summary
        from karenina_engine.cost.ledger import make_spending_report
        from karenina_engine.results.result_set import VerificationResultSet, read_results
        from karenina_report.benchmark_questions import load_benchmark
        from karenina_report.registered_notes import find_notes
        from karenina_report.rules import find_rules
        from karenina_report.run_notes import NotedRun

        everything = VerificationResultSet(result for file in files for result in read_results(file))
        items = list(everything)
        chosen = select_items(items, question) if question else range(len(items))
        numbered = [(at, items[at]) for at in sorted(chosen) if not outcome or items[at].outcome in outcome]
        results = VerificationResultSet(result for _, result in numbered)
        notes = find_notes([NotedRun("", None, file) for file in files]) if len(results) == len(items) else []
        spent = read_spending(files)
        if as_json:
            screen.json(
                {
                    "results": [result_json(one) for one in results],
                    **summary_json(results.totals()),
                    "output": str(files[0]) if len(files) == 1 else [str(file) for file in files],
                    "notes": [one.model_dump(mode="json") for one in notes],
                    "money": make_spending_report(spent) if spent is not None else None,
                }
            )
            return
        if not quiet:
            failures = Failures(screen.out, len(items))
            rules = find_rules(files, load_benchmark(benchmark) if benchmark is not None else None)
            if not rules and any(result.template.field_results for result in items):
                screen.note("The rules of comparison are not known here: --benchmark FILE shows them")
            for at, result in numbered:
                if full or question or not failures.repeats(result, at + 1):
                    of_fields = rules.get(result.metadata.template_id)
                    position = f"{at + 1}/{len(items)}"
                    print_result(screen.out, result, position, detailed=True, full=full, rules=of_fields)
            failures.print(files[0] if len(files) == 1 else None)
        cost = cost_text(spent) if everything.usage().calls else None
        print_summary(screen.out, results, cost=cost, notes=[(one.name, one.text) for one in notes])
        if len(results) < len(items):
            screen.note(f"The summary covers the selected {len(results)} of {len(items)} results.")
