"""`karenina status`, `karenina resume` and `karenina export`: what one does with a journal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_cli.journal_paths import has_journal, holds_results, journal_at
from karenina_cli.screen import clean, screen_of
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_engine.journal.view import JournalView, Status

_LONGEST_HEADER: Final = 1_000_000
JournalFile = Annotated[Path, typer.Argument(metavar="JOURNAL", help="A journal of `karenina run`, or its results.")]


class Form(StrEnum):
    """What `karenina export` writes."""

    RESULTS = "results"
    RECORDING = "recording"


def status(
    ctx: typer.Context,
    journal: JournalFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell how far a run is, from its journal, also while it lasts."""
    screen = screen_of(ctx)
    with screen.report_errors():
        from karenina_cli.money import ledger_table
        from karenina_engine.cost.ledger import make_spending_report, sum_counts
        from karenina_engine.journal.view import JournalView

        journal = journal_at(screen, journal)
        with JournalView(journal) as view:
            found = view.status()
        if as_json:
            facts = asdict(replace(found, spent=()))
            screen.json({"journal": str(journal), **facts, "spent": make_spending_report(found.spent)})
            return
        for line in _lines(journal, found):
            screen.out.print(clean(line), markup=False, soft_wrap=True)
        if found.spent:
            screen.out.print(ledger_table(found.spent, sum_counts(line.made for line in found.spent)))


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
    screen = screen_of(ctx)
    with screen.report_errors():
        from karenina_cli.own_run import resumed_run
        from karenina_cli.run_command import have_run

        request = resumed_run(screen, journal_at(screen, journal))
        if budget is not None:
            request = replace(request, config=request.config.with_values(budget=budget))
        have_run(screen, request, fail_under=None, as_json=as_json, quiet=quiet)


def export(
    ctx: typer.Context,
    journal: JournalFile,
    form: Annotated[
        Form,
        typer.Option(
            "--format", help="results: the result lines; recording: the answers, as --recordings of a run reads them."
        ),
    ] = Form.RESULTS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; the standard output by default.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="ID", help="Only this answering model's.", show_default=False)
    ] = None,
) -> None:
    """Write what a journal holds as JSON lines: the results of its last run, in order, or the answers alone.

    Of a file of results without its journal, the results that are whole are written.
    """
    screen = screen_of(ctx)
    with screen.report_errors(), ExitStack() as opened:
        from karenina_engine.journal.view import JournalView
        from karenina_engine.results.result_file import OBJECT_LINES, lines_file, make_room

        if form is Form.RESULTS and holds_results(journal) and not has_journal(journal):
            lines = _whole_results(journal, model)
        else:
            lines = _exported(opened.enter_context(JournalView(journal_at(screen, journal))), form, model)
        if output is None:
            for line in lines:
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            return
        moved = make_room(output, lines=OBJECT_LINES)
        count = 0
        with lines_file(output) as add:
            for count, line in enumerate(lines, int(form is Form.RECORDING)):  # noqa: B007 - how many there are but for the header
                add([line])
        earlier = f" (an earlier file is kept in {moved})" if moved is not None else ""
        screen.note(f"{count} {'results' if form is Form.RESULTS else 'answers'} are in {output}{earlier}.")


def _exported(view: JournalView, form: Form, model: str | None) -> Iterator[str]:
    from karenina_engine.results.header import header_line

    if form is Form.RECORDING:
        for answer in view.recordings(model):
            yield replace_surrogates(json.dumps(answer, ensure_ascii=False))
        return
    yield header_line(view.status().distributions)
    yield from view.results(model)


def _whole_results(file: Path, model: str | None) -> Iterator[str]:
    from karenina_engine.results.header import header_line, is_header
    from karenina_engine.results.result_set import read_results

    with file.open("rb") as opened:
        first = opened.readline(_LONGEST_HEADER)
    yield first.decode("utf-8", "replace").strip() if is_header(first) and first.endswith(b"}\n") else header_line({})
    for result in read_results(file):
        if model is None or result.metadata.answering_id == model:
            yield result.model_dump_json()


def _lines(journal: Path, found: Status) -> Iterator[str]:
    """What `status` prints, a line at a time."""
    if found.pid is not None:
        state = f"process {found.pid} is working on it" if found.pid else "a process is working on it"
    elif found.began is None:
        state = "no run has begun"
    elif found.ended is not None:
        state = f"finished {_time(found.ended)}"
    else:
        state = "stopped"
    since = f", begun {_time(found.began)}" if found.began is not None else ""
    yield f"{journal}: {state}{since}"
    share = f" ({found.done / found.items:.1%})" if found.items else ""
    yield f"  Items     {found.done} of {found.items} done{share}{_listed(found.outcomes)}"
    if found.again:
        yield f"  Again     {found.again} of them run again: a call or a stage failed"
    if found.failures:
        yield f"  Failures  {sum(found.failures.values())} calls brought no reply{_listed(found.failures)}"
    unusable = f", {found.unusable} of them of no use for another run" if found.unusable else ""
    yield (
        f"  Replies   {found.calls} calls are kept{unusable}, with {found.input_tokens:,} input and "
        f"{found.output_tokens:,} output tokens"
    )
    if found.pid is None and found.began is not None and (found.done < found.items or found.again):
        yield f"  To go on  karenina resume {journal}"


def _listed(counts: Any) -> str:
    return ": " + ", ".join(f"{count} {name}" for name, count in counts.items()) if counts else ""


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
