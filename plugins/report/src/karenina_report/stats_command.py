"""`karenina stats`: print statistics of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from karenina_report.options import (
    BenchmarkFile,
    Cluster,
    Cut,
    Model,
    Runs,
    Scale,
    parse_report_options,
    read_named_benchmark,
)
from karenina_terminal.options import Columns, Encoding, Exact, JSONObject, Rows, Sheet, parse_columns
from karenina_terminal.screen import get_screen


def stats(
    ctx: typer.Context,
    files: Runs,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Print pass rates by this column: keyword, judge, replicate, ..."),
    ] = None,
    cluster: Cluster = None,
    model: Model = None,
    cut: Cut = None,
    scale: Scale = None,
    benchmark: BenchmarkFile = None,
    columns: Columns = None,
    rows: Rows = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    exact: Exact = False,
    as_json: JSONObject = False,
) -> None:
    """Print statistics of a run: rates, traits, pass@k, variance components, and judge agreement.

    Intervals take into account that results of the same question, or of equal questions, are correlated. A file with
    several answering models counts as several runs; `karenina compare` compares runs.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_report.statistics.run_statistics import describe

        reading = parse_columns(columns, rows, encoding, sheet, exact=exact)
        loaded = read_named_benchmark(files, benchmark, reading)
        found = describe(*files, **parse_report_options(by, cluster, model, cut, scale, loaded))
        if as_json:
            screen.json({"runs": [one.model_dump(mode="json") for one in found]})
            return
        from karenina_report.statistics.statistics_text import statistics_sections
        from karenina_terminal.text_layout import format_sections

        for number, one in enumerate(found):
            if number:
                typer.echo("")
            for line in format_sections(statistics_sections(one), screen.out.width):
                typer.echo(line)
