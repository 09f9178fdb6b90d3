"""`karenina show`: print the results of a run."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping, Sequence
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
from karenina_toolkit.printable import quantity, shorten

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_report.rules import Rules
    from karenina_terminal.screen import Screen

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
            help="Print only this item or question: its number ('#3'), an id or the start of one, or words from the "
            "question.",
            autocompletion=completion_values.result_ids,
        ),
    ] = None,
    benchmark: Annotated[
        Path | None,
        benchmark_option("The benchmark that contains the comparison rules, for a run made by another person."),
    ] = None,
    tables: TableOptions,
    as_json: ResultsJSON = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print only the summary."),
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Print long answers and repeated failures in full.")] = False,
) -> None:
    """Print the results of a run in full, and their summary."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.output.summary_output import (
            cost_text,
            print_summary,
            read_spending,
            result_json,
            summary_json,
        )
        from karenina_engine.cost.ledger import make_spending_report
        from karenina_engine.results.aggregate import Totals
        from karenina_engine.results.result_set import count_results, read_results
        from karenina_report.options import read_named_benchmark
        from karenina_report.registered_notes import find_notes
        from karenina_report.rules import find_missing_rules
        from karenina_report.run_notes import NotedRun
        from karenina_report.runs import check_named_once

        check_named_once(files)
        loaded = read_named_benchmark(files, benchmark, tables.parse())
        read: Iterable[tuple[Path, VerificationResult]] = (
            (file, result) for file in files for result in read_results(file)
        )
        positions: Container[int] = range(sys.maxsize)
        # in a file or a pipe, an error in a later line comes before any item, so that no part is taken for the whole
        if question or loaded is not None or not screen.out.is_terminal:
            read = items = [*read]
            positions = select_items([result for _, result in items], question) if question else range(len(items))
            count = len(items)
        else:
            count = sum(map(count_results, files))

        def is_selected(at: int, result: VerificationResult) -> bool:
            return at in positions and (not outcome or result.outcome in outcome)

        if loaded is not None and not as_json and not quiet:
            for text in find_missing_rules(
                loaded, (result for at, (_, result) in enumerate(read) if is_selected(at, result))
            ):
                screen.note(f"Warning: {text}.")
        everything = Totals()
        selected = Totals() if question or outcome else everything
        printer = _Printer(screen, files, count, loaded, full=full, all_failures=full or bool(question))
        results = []
        for at, (file, result) in enumerate(read):
            everything.add(result)
            if is_selected(at, result):
                if selected is not everything:
                    selected.add(result)
                if as_json:
                    results.append(result_json(result))
                elif not quiet:
                    printer.print(at + 1, file, result)
        spent = read_spending(files)
        complete = len(selected) == len(everything)
        notes = find_notes([NotedRun("", None, file) for file in files]) if complete else []
        if as_json:
            screen.json(
                {
                    "results": results,
                    **summary_json(selected),
                    "output": str(files[0]) if len(files) == 1 else [str(file) for file in files],
                    "notes": [note.model_dump(mode="json") for note in notes],
                    "money": make_spending_report(spent) if spent is not None else None,
                }
            )
            return
        if not quiet:
            printer.print_failures()
        cost = cost_text(files, spent) if everything.usage().calls else None
        shown_notes = [(note.name, note.text) for note in notes]
        print_summary(screen.out, selected, cost=cost, notes=shown_notes, all_failures=True)
        if not complete:
            screen.note(f"The summary covers the selected {len(selected)} of {len(everything)} results.")


class _Printer:
    """Prints each item as soon as it is read.

    With `full`, long answers are not cut. With `all_failures`, items that failed for the same reason as an earlier one
    are printed too.
    """

    def __init__(
        self,
        screen: Screen,
        files: Sequence[Path],
        count: int,
        benchmark: Benchmark | None,
        *,
        full: bool,
        all_failures: bool,
    ) -> None:
        from karenina_cli.output.result_output import Failures
        from karenina_engine.journal.view import find_journal
        from karenina_engine.results.kept_files import KeptFiles

        self._screen = screen
        self._files = files
        self._count = count
        self._benchmark = benchmark
        self._full = full
        self._all_failures = all_failures
        self._failures = Failures(screen.out, count)
        self._folders = {file: KeptFiles(file, find_journal(file)) for file in files}
        self._rules: Rules | None = None
        self._noted = False

    def print(self, number: int, file: Path, result: VerificationResult) -> None:
        """Print an item. If it failed for the same reason as an earlier one, at most a line is printed. The comparison
        rules are read when the first item with fields is printed.
        """
        from karenina_cli.output.result_output import print_result
        from karenina_report.rules import find_rules

        if not self._all_failures and self._failures.repeats(result, number):
            return
        template = result.template
        if self._rules is None and (template.field_results or template.parsed_llm_response is not None):
            self._rules = find_rules(self._files, self._benchmark)
        if template.field_results and not self._rules and not self._noted and self._benchmark is None:
            self._screen.note("The comparison rules are unknown; use --benchmark FILE to show them")
            self._noted = True
        rules = (self._rules or {}).get(result.metadata.template_id)
        print_result(
            self._screen.out,
            result,
            f"{number}/{self._count}",
            detailed=True,
            full=self._full,
            rules=rules,
            files=self._folders[file],
        )

    def print_failures(self) -> None:
        """Print which items failed for the same reason as an earlier one."""
        self._failures.print(self._files[0] if len(self._files) == 1 else None)


def select_items(results: Sequence[VerificationResult], wanted: Iterable[str]) -> set[int]:
    """Return the positions (from 0) of the items that match a word in `wanted`. Raises `ConfigError` with all problems
    if a word matches no question or more than one. `#3` is always the third item. Any other word is tried as a question
    id or result id, as an item number (from 1), as the start of a question id, and as part of a question's text, in
    this order.
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
    """Return the positions of the items whose number, id or question `word` matches, or an error message unless it is
    clear.
    """
    word = compose(word)
    digits = word.removeprefix("#")
    is_number = digits.isdecimal() and digits.isascii()
    exact = {
        at for at, result in enumerate(results) if word in (compose(result.question_id), result.metadata.result_id)
    }
    if exact and not (is_number and word.startswith("#")):
        return exact
    if is_number:
        number, count = int(digits), len(results)
        return (
            {number - 1}
            if 0 < number <= count
            else f"item {number} does not exist; there {'is' if count == 1 else 'are'} {quantity(count, 'item')}"
        )
    text = word.casefold()
    ids = [id for id in questions if compose(id).casefold().startswith(text)]
    ids = ids or [id for id, question in questions.items() if text in compose(question).casefold()]
    if len(ids) == 1:
        return {at for at, result in enumerate(results) if result.question_id == ids[0]}
    if not ids:
        return f"there are no results for question {word!r}{did_you_mean(word, questions)}"
    shown = ", ".join(f"{id} ({shorten(questions[id], _LONGEST_NAMED)})" for id in ids[:_MOST_NAMED])
    more = f", and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"{word!r} matches {len(ids)} questions: {shown}{more}; be more specific, or use an item number ('#3')"
