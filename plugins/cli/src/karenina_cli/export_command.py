"""`karenina export`: the results or the answers in a journal as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from karenina_cli.journal_paths import find_journal, has_journal, is_results_file
from karenina_cli.options import JournalFile
from karenina_cli.screen import get_screen
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_engine.journal.view import JournalView

_LONGEST_HEADER: Final = 1_000_000


class Form(StrEnum):
    """What `karenina export` writes."""

    RESULTS = "results"
    RECORDING = "recording"


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
    screen = get_screen(ctx)
    with screen.report_errors(), ExitStack() as opened:
        from karenina_engine.journal.view import JournalView
        from karenina_engine.results.result_file import OBJECT_LINES, open_line_writer, prepare_output

        if form is Form.RESULTS and is_results_file(journal) and not has_journal(journal):
            lines = _whole_results(journal, model)
        else:
            lines = _exported(opened.enter_context(JournalView(find_journal(screen, journal))), form, model)
        if output is None:
            for line in lines:
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            return
        moved = prepare_output(output, lines=OBJECT_LINES)
        count = 0
        with open_line_writer(output) as add:
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
