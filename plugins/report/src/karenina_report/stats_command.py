"""`karenina stats`: statistics of one run on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from karenina_report.options import (
    AsJson,
    BenchmarkFile,
    Cluster,
    Cut,
    Model,
    Runs,
    Scale,
    get_screen,
    parse_cuts,
    parse_scales,
)


def stats(
    ctx: typer.Context,
    files: Runs,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Give pass rates by this column: keyword, judge, replicate, ..."),
    ] = None,
    cluster: Cluster = None,
    model: Model = None,
    cut: Cut = None,
    scale: Scale = None,
    benchmark: BenchmarkFile = None,
    as_json: AsJson = False,
) -> None:
    """Print statistics of a run: rates and traits with intervals, pass@k, what verdicts vary by, how judges agree.

    Intervals take into account that replicates, judges and equal questions are alike. A file with several answering
    models counts as several runs; `karenina compare` sets runs beside each other.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_report.run_statistics import describe

        found = describe(
            *files,
            by=by,
            cluster=cluster,
            model=model,
            cuts=parse_cuts(cut),
            scales=parse_scales(scale),
            benchmark=benchmark,
        )
        if as_json:
            screen.json({"runs": [one.model_dump(mode="json") for one in found]})
            return
        from karenina_report.statistics_text import statistics_lines

        for number, one in enumerate(found):
            if number:
                typer.echo("")
            for line in statistics_lines(one, screen.out.width):
                typer.echo(line)
