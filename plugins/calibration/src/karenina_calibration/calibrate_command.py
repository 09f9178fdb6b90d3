"""The command `karenina calibrate`, which compares judges with human labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina_calibration.commands import label_files
from karenina_report.options import Cluster
from karenina_terminal.completion import result_files
from karenina_terminal.options import JSONObject
from karenina_terminal.screen import get_screen


def calibrate(
    ctx: typer.Context,
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A result file of `karenina run`.", autocompletion=result_files)
    ],
    labels: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LABELS...]",
            help="Label files or filled-in sheets, in addition to NAME.labels.jsonl next to the results.",
            autocompletion=label_files,
        ),
    ] = None,
    cluster: Cluster = None,
    quality_from: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULTS",
            autocompletion=result_files,
            help="Correct the pass rate with the labels of this other run, assuming that the judge's error rates are "
            "the same.",
        ),
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="The maximum number of wrongly judged items to list.")] = 10,
    as_json: JSONObject = False,
) -> None:
    """Compare a run's verdicts and extracted values with human labels, and correct its pass rate.

    The corrected rate is the share of right answers, estimated from the answers drawn by `karenina label`. Agreement
    and kappa are weighted by that draw, so they apply to all answers.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_calibration.calibration import calibrate as calibrate_run

        calibration = calibrate_run(
            results, *(labels or ()), cluster=cluster, quality_from=quality_from, worst=None if as_json else worst
        )
        if as_json:
            screen.json(calibration.model_dump(mode="json"))
            return
        from karenina_calibration.calibration_text import calibration_sections
        from karenina_terminal.text_layout import format_sections

        for line in format_sections(calibration_sections(calibration), screen.out.width):
            typer.echo(line)
