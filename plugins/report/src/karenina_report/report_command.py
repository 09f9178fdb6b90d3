"""`karenina report` and `karenina stats`: runs as one HTML file, and their statistics as text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_report.attached_files import AttachmentsFolder
from karenina_report.options import AnyJudge, AnyTemplate, Runs, SharedOptions, columns, moved_note
from karenina_terminal.options import JSONObject, TableOptions, output_option, with_option_groups
from karenina_terminal.screen import get_screen


@with_option_groups
def report(
    ctx: typer.Context,
    *,
    files: Runs,
    output: Annotated[Path, output_option("The file to write.")] = Path("report.html"),
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Also compare groups of questions by this column.", autocompletion=columns),
    ] = None,
    shared: SharedOptions,
    table: TableOptions,
    any_judge: AnyJudge = False,
    any_template: AnyTemplate = False,
    attachments: AttachmentsFolder = None,
) -> None:
    """Write the results of a run, or of several, as one HTML file that opens from disk without a network.

    The file shows the rates with their intervals, every answer with the values extracted from it, and the comparison of
    runs. Replies are included if the run's journal is in the same folder as its results. Field rules and prompts are
    included if `--benchmark` is given too, and attached pictures with `--attachments`. An existing report is kept under
    a new name.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_report.page.writer import ReportOptions, write_page

        options = ReportOptions(
            **shared.parse(files, by, table),
            any_judge=any_judge,
            any_template=any_template,
            attachments=attachments,
        )
        moved = write_page(files, output, options, lambda text: screen.note(f"Warning: {text}"))
        size = output.stat().st_size
        screen.note(f"The report was written to {output} ({size / 1e6:.1f} MB){moved_note(moved)}.")


@with_option_groups
def stats(
    ctx: typer.Context,
    *,
    files: Runs,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Print pass rates by this column: keyword, judge, replicate, ...",
            autocompletion=columns,
        ),
    ] = None,
    shared: SharedOptions,
    table: TableOptions,
    as_json: JSONObject = False,
) -> None:
    """Print statistics of a run: rates, traits, pass@k, variance components, and judge agreement.

    Intervals take into account that results of the same question, or of equal questions, are correlated. A file with
    several answering models counts as several runs; `karenina compare` compares runs.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_report.statistics.run_statistics import describe

        described = describe(*files, **shared.parse(files, by, table))
        if as_json:
            screen.json({"runs": [run.model_dump(mode="json") for run in described]})
            return
        from karenina_report.statistics.statistics_text import statistics_sections
        from karenina_terminal.text_layout import format_sections

        for number, run in enumerate(described):
            if number:
                typer.echo("")
            for line in format_sections(statistics_sections(run), screen.out.width):
                typer.echo(line)
