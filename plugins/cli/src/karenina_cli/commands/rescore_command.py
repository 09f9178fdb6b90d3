"""`karenina rescore`: score a run again from its journal, without calling a model."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from karenina_cli.input.configuration import with_settings
from karenina_cli.input.model_options import SPEC_HELP, model_option, parse_models
from karenina_cli.input.named_files import find_journal
from karenina_cli.input.options import ConfigOptions, JournalFile, benchmark_argument
from karenina_core.errors import ConfigError
from karenina_terminal.options import JSONObject, TableOptions, output_option, with_option_groups
from karenina_terminal.screen import Screen, get_screen
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_engine.offline.rescoring import Change, RescoreReport

MAX_ROWS = 200
"""The maximum number of changes to print. `--json` prints all of them."""


@with_option_groups
def rescore(
    ctx: typer.Context,
    *,
    journal: JournalFile,
    file: Annotated[
        Path | None,
        benchmark_argument("The benchmark in its current form. Default: the file used by your run.", "[BENCHMARK]"),
    ] = None,
    setup: ConfigOptions,
    tables: TableOptions,
    judge: Annotated[
        list[str] | None, model_option("--judge", "-j", f"With --ask: a judge, under its id: {SPEC_HELP}")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="List what changed, verdicts first.")] = False,
    output: Annotated[
        Path | None, output_option("Write the new results to this file, one JSON object per line.")
    ] = None,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Call models again for prompts that contain a ground truth that has changed."),
    ] = False,
    trust_all: Annotated[
        bool,
        typer.Option(
            "--trust-all", help="Run the code in the benchmark's templates. Use this only for your own files."
        ),
    ] = False,
    as_json: JSONObject = False,
) -> None:
    """Score a run again from its journal, without calling a model, after ground truths or tolerances have changed.

    Weights, patterns and verify() may have changed too. Items are matched with the run's items by question, models and
    replicate. An item that needs a new judge call (because of another question, field or trait) ends in an error. Name
    the benchmark if the journal is not your own. If a result file of the reference implementation is given instead of a
    journal, it is scored again from the values that its judge extracted.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.rescore_request import make_rescore_request
        from karenina_engine.offline.rescoring import rescore as scored_again
        from karenina_engine.results.result_set import is_of_reference

        target = output.absolute() if output is not None else None
        reading = tables.parse()
        if is_of_reference(journal):
            report = _rescore_reference(journal, file, target, columns=reading, trust_all=trust_all)
            _print(screen, report, output, "the result file was not changed", diff=diff, as_json=as_json)
            return
        if judge and not ask:
            raise ConfigError(["--judge has no effect without --ask; add --ask to call the judge, or remove --judge"])
        chosen = make_rescore_request(
            find_journal(screen, journal),
            file,
            config=setup.config,
            judges=parse_models(judge) if judge else None,
            ask=ask,
            trust_all=trust_all,
            columns=reading,
            note=screen.note,
        )
        report = scored_again(
            chosen.journal,
            chosen.benchmark,
            with_settings(chosen.config, setup.settings),
            question_ids=chosen.ids,
            trust="all" if trust_all else None,
            output=target,
            ask=ask,
            processes=os.cpu_count() or 1,
            by_id=True,
        )
        kept = "replies to new calls are stored in the journal" if ask else "the journal was not changed"
        _print(screen, report, output, kept, diff=diff, as_json=as_json)


def _rescore_reference(
    results: Path, file: Path | None, output: Path | None, *, columns: Mapping[str, str] | None, trust_all: bool
) -> RescoreReport:
    """Rescore a result file of the reference implementation, which has no journal, and return a report. The new results
    are only saved if `output` is set. Raises `ConfigError` without a benchmark `file`.
    """
    from karenina_benchmark.rescore_request import rescore_results
    from karenina_cli.input.named_files import load_checked
    from karenina_core.data.trust import Trust
    from karenina_engine.user_files import load_trust

    if file is None:
        raise ConfigError(
            [
                f"{results} has no journal that states its benchmark; specify the benchmark: karenina rescore "
                f"{quote(str(results))} BENCHMARK"
            ]
        )
    trust = Trust.all() if trust_all else load_trust()
    return rescore_results(results, load_checked(file, trust, columns=columns), trust, output)


def _print(screen: Screen, report: RescoreReport, output: Path | None, kept: str, *, diff: bool, as_json: bool) -> None:
    """Print the totals and, with `diff`, the changes. With `as_json`, print everything as JSON.

    `kept` is a clause that states what happened to the file that was rescored.
    """
    if as_json:
        screen.json({**rescored_json(report), "output": str(output) if output is not None else None})
        return
    if diff:
        _print_changes(screen, report)
    _print_totals(screen, report, output, kept)


def rescored_json(found: RescoreReport) -> dict[str, Any]:
    """Return what `--json` prints, except for the output file: the summaries before and after, the changes, with
    changed verdicts apart, and the numbers of missing, gone and new ones.
    """
    return {
        "before": found.before.model_dump(mode="json"),
        "after": found.after.model_dump(mode="json"),
        "flips": [change_json(change) for change in found.flips],
        "changes": [change_json(change) for change in found.changes if not change.flipped],
        "missing": len(found.missing),
        "gone": found.gone,
        "new": found.new,
        "seconds": found.seconds,
    }


def change_json(change: Change) -> dict[str, Any]:
    """Return a changed result as a JSON-compatible dict, with its values before and after."""
    question, answering, judge, replicate = change.item
    return {
        "question_id": question,
        "answering": answering,
        "judge": judge,
        "replicate": replicate,
        "before": change.before.value,
        "after": change.after.value,
        "fields": {name: list(pair) for name, pair in change.fields.items()},
        "traits": {name: list(pair) for name, pair in change.traits.items()},
        "granular": list(change.granular) if change.granular is not None else None,
        "missing": change.missing,
        "why": change.why,
    }


def _print_changes(screen: Screen, report: RescoreReport) -> None:
    """Print the first `MAX_ROWS` changes, starting with changed verdicts."""
    from karenina_engine.offline.rescoring import change_cells

    changes = report.ordered_changes()
    if not changes:
        return
    for change in changes[:MAX_ROWS]:
        question, models, replicate, before, after, changed, why = map(clean, change_cells(change))
        screen.out.print(Text(question, "bold") + Text(f"  {before} -> {after}  {models}, replicate {replicate}"))
        for line in filter(None, (changed, why)):
            screen.out.print(Padding(Text(line), (0, 0, 0, 4)))
    if len(changes) > MAX_ROWS:
        screen.note(f"The table shows {MAX_ROWS} of {len(changes)} changes; --json prints all.")


def _print_totals(screen: Screen, report: RescoreReport, output: Path | None, kept: str) -> None:
    """Print the pass rates before and after, the location of the new results, and the clause `kept`."""
    from karenina_engine.offline.rescoring import report_rows

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, text in [*report_rows(report), ("Results", str(output) if output is not None else "")]:
        if text:
            grid.add_row(name, Text(clean(text)))
    screen.out.print(grid)
    saved = "" if output is not None else " Nothing was saved; use -o FILE to save the new results."
    scored = f"Scored {quantity(report.after.items, 'item')} in {report.seconds:.1f} s"
    screen.note(f"{scored}; {kept}.{saved}")
