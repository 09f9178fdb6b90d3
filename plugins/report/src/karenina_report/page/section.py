"""Sections of the report page, made up of text and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_report.benchmark_questions import BenchmarkQuestions
    from karenina_report.comparison.comparison_result import Comparison
    from karenina_report.runs import Run

CellKind = Literal["text", "share", "count", "number", "usd", "seconds"]
"""The format of a column: text, a share (shown in percent), a whole number, a number, US dollars, or seconds."""
Cell = str | int | float | None
_TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table on the page, with the kind of its cells."""

    name: str
    kind: CellKind = _TEXT

    def __post_init__(self) -> None:
        """Raise `ValueError` if the kind does not exist: its cells would be shown as text."""
        if self.kind not in get_args(CellKind):
            near = did_you_mean(self.kind, get_args(CellKind))
            raise ValueError(f"the column {self.name!r} has the unknown kind {self.kind!r}{near}")


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """A plot with one line per row, which shows a point at `value` and an interval from `low` to `high`.

    All fields are column names. If `series` is set, rows with the same label share a line and are told apart by this
    column, such as the run.
    """

    label: str
    value: str
    low: str
    high: str
    series: str | None = None


@dataclass(frozen=True, slots=True)
class BarPlot:
    """A plot with one stacked bar per row, made up of the `counts`.

    All fields are column names. Outcomes have fixed colors.
    """

    label: str
    counts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph."""

    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the block as a JSON-compatible dict."""
        return {"kind": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table, optionally with a plot of its values.

    Each row has one cell per column. None is an empty cell. Raises `ValueError` if a row has a different length, or if
    the plot names columns that do not exist, and `TypeError` for a cell of another type.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    plot: IntervalPlot | BarPlot | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if a row has the wrong length, or if the plot names columns that do not exist. Raise
        `TypeError` for a cell of another type.
        """
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(f"a row has {len(wrong)} cells, but the table has {len(self.columns)} columns")
        for row in self.rows:
            for column, cell in zip(self.columns, row, strict=True):
                given: object = cell
                if not isinstance(given, str | int | float | None):
                    kind = type(given).__name__
                    raise TypeError(f"the column {column.name!r} contains a {kind}; cells are strings, numbers or None")
        names = {column.name for column in self.columns}
        missing = [name for name in _plotted_columns(self.plot) if name not in names]
        if missing:
            raise ValueError(f"the plot needs the column {missing[0]!r}, which the table does not have")

    def to_json(self) -> dict[str, Any]:
        """Return the block as a JSON-compatible dict."""
        kind = "intervals" if isinstance(self.plot, IntervalPlot) else "bars"
        return {
            "kind": "table",
            "columns": [asdict(column) for column in self.columns],
            "rows": [list(row) for row in self.rows],
            "note": self.note,
            "plot": {"kind": kind, **asdict(self.plot)} if self.plot is not None else None,
        }


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the page. `id` must be unique in its distribution.

    Raises `TypeError` if a block is neither a `TextBlock` nor a `TableBlock`, such as a plain string.
    """

    id: str
    title: str
    blocks: Sequence[TextBlock | TableBlock]

    def __post_init__(self) -> None:
        """Raise `TypeError` for a block of another type."""
        given: Sequence[object] = self.blocks
        wrong = next((block for block in given if not isinstance(block, TextBlock | TableBlock)), None)
        if wrong is not None:
            raise TypeError(
                f"the section {self.id!r} contains a block of type {type(wrong).__name__!r}; "
                'use TextBlock("...") for a paragraph, or a TableBlock'
            )

    def to_json(self, distribution: str) -> dict[str, Any]:
        """Return the section as a JSON-compatible dict, with the `distribution` that provides it."""
        return {
            "id": self.id,
            "title": self.title,
            "distribution": distribution,
            "blocks": [block.to_json() for block in self.blocks],
        }


@dataclass(frozen=True, slots=True)
class PageRuns:
    """The runs on a page, each with the results of one answering model. The results have no `stages`.

    `labels` are the runs' letters (A, B, ...). `comparison` is None if there is only one run, or if the runs cannot be
    compared. Questions with the same value in the column `cluster` (default: the question text) are one statistical
    unit, and `questions` adds the columns of a benchmark.
    """

    runs: Sequence[Run]
    labels: Sequence[str]
    comparison: Comparison | None = field(default=None)
    cluster: str | None = None
    questions: BenchmarkQuestions | None = None


def _plotted_columns(plot: IntervalPlot | BarPlot | None) -> tuple[str, ...]:
    """Return the columns that the plot uses. Without a plot, there are none."""
    if isinstance(plot, IntervalPlot):
        return (plot.label, plot.value, plot.low, plot.high, *((plot.series,) if plot.series is not None else ()))
    return (plot.label, *plot.counts) if plot is not None else ()
