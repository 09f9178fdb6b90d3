"""`write_report`: the report of runs as one HTML file, for Python programs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_report.page.writer import ReportOptions, write_page

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_report.runs import Source

logger: Final = logging.getLogger("karenina")


def write_report(
    *sources: Source,
    output: str | Path = "report.html",
    by: str | None = None,
    cluster: str | None = None,
    model: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    benchmark: str | Path | Benchmark | None = None,
    any_judge: bool = False,
    any_template: bool = False,
) -> Path | None:
    """Write runs as one HTML file that opens from disk, as `karenina report` does.

    `sources` and the other arguments are those of `compare`; a single run is not compared. `benchmark` also adds the
    comparisons of its fields. An existing report is renamed, and its new path returned. What cannot be shown is logged
    as a warning. Raises `ConfigError`, `ResultFileError` and `JournalError`.
    """
    options = ReportOptions(
        by=by,
        cluster=cluster,
        model=model,
        cuts=cuts or {},
        scales=scales or {},
        benchmark=benchmark,
        any_judge=any_judge,
        any_template=any_template,
    )
    return write_page(sources, Path(output), options, logger.warning)
