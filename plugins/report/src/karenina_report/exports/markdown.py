"""Export results as a Markdown summary for people, such as the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.summary_text import percent, undecided_text
from karenina_report.exports.exporter import Exporter
from karenina_toolkit.printable import in_one_line

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import VerificationResultMetadata
    from karenina_engine.results.aggregate import Summary
    from karenina_engine.results.rates import Rate
    from karenina_report.exports.exporter import ExportRequest

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&@!])")
_ESCAPED: Final = r"\\\1"
_MOST_ITEMS: Final = 50
_LONGEST: Final = 200
_LONGEST_ERROR: Final = 4000
"""The maximum length of an error message. A job summary on GitHub has room for 50 of them."""


def summary_lines(results: Iterable[VerificationResult], failures: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a summary in Markdown: pass rates by model, outcomes, and items that are not correct.
    `failures` are the reasons why the run fails. They are listed first.
    """
    result_set = VerificationResultSet(results)
    yield "## Karenina"
    yield ""
    for failure in failures:
        yield f"**Failed:** {_SPECIAL.sub(_ESCAPED, in_one_line(failure))}"
        yield ""
    yield "| answering model | judge | pass rate | 95% interval | judged | not judged |"
    yield "|---|---|---|---|---|---|"
    for (answering, judge), summary in result_set.by_models().items():
        yield (
            f"| {_text(answering)} | {_text(judge)} | {_rate(summary.pass_rate)} | {_interval(summary.pass_rate)} | "
            f"{summary.judged} of {summary.items} | {summary.not_judged} |"
        )
    yield from _outcomes(result_set.summary())
    names: list[tuple[str, Callable[[VerificationResultMetadata], str]]] = [
        ("answering model", lambda meta: meta.answering_id),
        ("judge", lambda meta: meta.parsing_id),
        ("replicate", lambda meta: str(meta.replicate or 1)),
    ]
    several = [(name, of) for name, of in names if len({of(result.metadata) for result in result_set}) > 1]
    yield from _failed_items([result for result in result_set if not result.outcome.passes], several)


def _rate(rate: Rate) -> str:
    """Return a pass rate with its counts and undecided items, or `none` if no item has a verdict."""
    text = "none" if rate.value is None else f"{percent(rate.value)} ({rate.hits} of {rate.out_of})"
    return text + undecided_text(rate)


def _interval(rate: Rate) -> str:
    """Return the pass rate's interval in percent, "rough" before it for few questions, or "" if it has none."""
    if rate.low is None or rate.high is None:
        return ""
    return f"{'rough ' if rate.is_rough else ''}{percent(rate.low)} to {percent(rate.high)}"


def _outcomes(summary: Summary) -> Iterator[str]:
    """Yield a blank line and a line that counts the outcomes."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items() if count)
    yield ""
    yield f"Outcomes: {counts or 'none'}"


def _failed_items(
    failed: list[VerificationResult], several: Sequence[tuple[str, Callable[[VerificationResultMetadata], str]]]
) -> Iterator[str]:
    """Yield the lines of a Markdown table of the first 50 failed items, and the number of further ones. `several`
    contains the names of the columns for models and replicates, each with a function that returns the cell.
    """
    if not failed:
        return
    yield ""
    yield f"| {' | '.join(['question', *(name for name, _ in several), 'outcome', 'reason'])} |"
    yield "|---" * (3 + len(several)) + "|"
    for result in failed[:_MOST_ITEMS]:
        names = [_text(of(result.metadata)) for _, of in several]
        why = _text(result.why(), _LONGEST if result.outcome.judged else _LONGEST_ERROR)
        cells = [_text(result.question_id), *names, result.outcome.value, why]
        yield f"| {' | '.join(cells)} |"
    if len(failed) > _MOST_ITEMS:
        yield ""
        yield f"{len(failed) - _MOST_ITEMS} more items are not correct."


def _text(text: str, most: int = _LONGEST) -> str:
    """Escape `text` for a Markdown table cell, on one line of at most `most` characters."""
    line = in_one_line(text)
    short = line if len(line) <= most else f"{line[:most]}..."
    return _SPECIAL.sub(_ESCAPED, short)


def _write(request: ExportRequest, file: BinaryIO) -> None:
    for line in summary_lines(request.results):
        file.write(line.encode() + b"\n")


MARKDOWN = Exporter("markdown", "a summary with the items that are not correct", (".md",), _write)
