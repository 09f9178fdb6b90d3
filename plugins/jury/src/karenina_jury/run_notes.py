"""Notes on juries beside the pass rates of runs: each judge alone, and what escalation saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from karenina_engine.results.summary_text import undecided_text
from karenina_jury.jury_result import EXTENSION
from karenina_jury.jury_statistics import JuryStatistics, describe_juries, mean_call_costs
from karenina_report.comparison_text import percent
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import iterate_results
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.rates import Rate

NAME: Final = "Jury"


def jury_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note on each jury of the runs. Only the first result is read of a file without one."""
    notes = []
    for run in runs:
        for one in describe_juries(_results(run), mean_call_costs(run.source)) if run.source is not None else ():
            name = f"{NAME} {run.label}" if run.label else NAME
            notes.append(RunNote(name, _text(one), one.model_dump(mode="json")))
    return notes


def _results(run: NotedRun) -> Iterator[VerificationResult]:
    """Yield the results that the note is about; nothing if the first one is not of a jury."""
    assert run.source is not None
    results = iter(iterate_results(run.source))
    first = next(results, None)
    if first is None or EXTENSION not in first.extensions:
        return
    for result in chain([first], results):
        if run.model in (None, result.metadata.answering_id):
            yield result


def _text(one: JuryStatistics) -> str:
    alone = ", ".join(f"{judge.judge} {_rate(judge.pass_rate)}" for judge in one.judges)
    text = f"{one.jury}; alone: {alone}; the first judges agree on {percent(one.unanimous.value)}"
    if one.escalate_to is None:
        return text
    cost = "" if one.saved_usd is None else f", ${one.saved_usd:,.4f}"
    saved = f", which saved about {quantity(one.saved_calls, 'call')}{cost}" if one.saved_calls else ""
    return f"{text}; {one.escalate_to} asked for {one.escalated.hits:,} of {one.answers:,} answers{saved}"


def _rate(rate: Rate) -> str:
    found = "without a verdict" if rate.value is None else f"{percent(rate.value)} of {rate.out_of:,}"
    return found + (f" ({undecided_text(rate).removeprefix('; ')})" if rate.undecided else "")
