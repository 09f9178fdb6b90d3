"""`karenina show`: print the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from karenina_cli.input import completion_values
from karenina_cli.input.options import ResultsJSON, benchmark_option
from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.text import compose, did_you_mean
from karenina_terminal import completion
from karenina_terminal.options import TableOptions, with_option_groups
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_MOST_NAMED: Final = 5
_LONGEST_NAMED: Final = 50


@with_option_groups
def show(
    ctx: typer.Context,
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...", help="Result files of `karenina run`.", autocompletion=completion.result_files
        ),
    ],
    outcome: Annotated[
        list[Outcome] | None, typer.Option("--outcome", help="Print only items with this outcome.")
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            "-q",
            metavar="ITEM",
            help="Print only this item or question: a number as printed (3), an id or its start, or words of the "
            "question.",
            autocompletion=completion_values.result_ids,
        ),
    ] = None,
    benchmark: Annotated[
        Path | None,
        benchmark_option("The benchmark with the comparison rules, if the run is another person's."),
    ] = None,
    tables: TableOptions,
    as_json: ResultsJSON = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the summary.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print long answers and equal failures in full.")] = False,
) -> None:
    """Print the results of a run in full, and their summary."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.output.result_output import Failures, print_result
        from karenina_cli.output.summary_output import (
            cost_text,
            print_summary,
            read_spending,
            result_json,
            summary_json,
        )
        from karenina_engine.cost.ledger import make_spending_report
        from karenina_engine.journal.view import find_journal
        from karenina_engine.results.kept_files import KeptFiles
        from karenina_engine.results.result_set import VerificationResultSet, read_results
        from karenina_report.options import read_named_benchmark
        from karenina_report.registered_notes import find_notes
        from karenina_report.rules import find_missing_rules, find_rules
        from karenina_report.run_notes import NotedRun
        from karenina_report.runs import check_named_once

        check_named_once(files)
        reading = tables.parse()
        loaded = read_named_benchmark(files, benchmark, reading)
        read = [(file, result) for file in files for result in read_results(file)]
        everything = VerificationResultSet(result for _, result in read)
        items = list(everything)
        chosen = select_items(items, question) if question else range(len(items))
        numbered = [(at, items[at]) for at in sorted(chosen) if not outcome or items[at].outcome in outcome]
        results = VerificationResultSet(result for _, result in numbered)
        notes = find_notes([NotedRun("", None, file) for file in files]) if len(results) == len(items) else []
        spent = read_spending(files)
        if as_json:
            screen.json(
                {
                    "results": [result_json(item) for item in results],
                    **summary_json(results.totals()),
                    "output": str(files[0]) if len(files) == 1 else [str(file) for file in files],
                    "notes": [note.model_dump(mode="json") for note in notes],
                    "money": make_spending_report(spent) if spent is not None else None,
                }
            )
            return
        if not quiet:
            folders = {file: KeptFiles(file, find_journal(file)) for file in files}
            failures = Failures(screen.out, len(items))
            rules = find_rules(files, loaded)
            if loaded is not None:
                for text in find_missing_rules(loaded, results):
                    screen.note(f"Warning: {text}.")
            elif not rules and any(result.template.field_results for result in items):
                screen.note("The comparison rules are not known: --benchmark FILE shows them")
            for at, result in numbered:
                if full or question or not failures.repeats(result, at + 1):
                    of_fields = rules.get(result.metadata.template_id)
                    position = f"{at + 1}/{len(items)}"
                    beside = folders[read[at][0]]
                    print_result(screen.out, result, position, detailed=True, full=full, rules=of_fields, files=beside)
            failures.print(files[0] if len(files) == 1 else None)
        cost = cost_text(files, spent) if everything.usage().calls else None
        shown_notes = [(note.name, note.text) for note in notes]
        print_summary(screen.out, results, cost=cost, notes=shown_notes, all_failures=True)
        if len(results) < len(items):
            screen.note(f"The summary covers the selected {len(results)} of {len(items)} results.")


def select_items(results: Sequence[VerificationResult], wanted: Iterable[str]) -> set[int]:
    """Return the positions (from 0) of the items that match any of `wanted`.

    A word is tried as the id of a question or a result, as the number of an item (from 1, also as `#3`), as the start
    of a question id, and as a part of a question's text, in this order. Raises `ConfigError`, with all problems, if a
    word matches nothing or several questions.
    """
    questions = {result.question_id: result.metadata.question_text for result in results}
    positions: set[int] = set()
    problems = []
    for word in wanted:
        named = _matching_items(results, questions, word)
        if isinstance(named, str):
            problems.append(named)
        else:
            positions |= named
    if problems:
        raise ConfigError(problems)
    return positions


def _matching_items(results: Sequence[VerificationResult], questions: Mapping[str, str], word: str) -> set[int] | str:
    """Return the positions of the items that `word` matches, or the reason why it matches none or is ambiguous."""
    word = compose(word)
    exact = {
        at for at, result in enumerate(results) if word in (compose(result.question_id), result.metadata.result_id)
    }
    if exact:
        return exact
    digits = word.removeprefix("#")
    if digits.isdecimal() and digits.isascii():
        number = int(digits)
        return {number - 1} if 0 < number <= len(results) else f"there is no item {number}: there are {len(results)}"
    text = word.casefold()
    ids = [id for id in questions if compose(id).casefold().startswith(text)]
    ids = ids or [id for id, question in questions.items() if text in compose(question).casefold()]
    if len(ids) == 1:
        return {at for at, result in enumerate(results) if result.question_id == ids[0]}
    if not ids:
        return f"there is no result for question {word!r}{did_you_mean(word, questions)}"
    shown = ", ".join(f"{id} ({shorten(questions[id], _LONGEST_NAMED)})" for id in ids[:_MOST_NAMED])
    more = f", and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"{word!r} matches {len(ids)} questions: {shown}{more}; give more of it, or the number of an item"
