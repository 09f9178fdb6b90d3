"""The result of rescoring, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId
from karenina_engine.results.aggregate import Summary
from karenina_engine.results.summary_text import group_lines
from karenina_terminal.notebook_html import SectionsView, sections_of
from karenina_terminal.text_layout import Facts, Grid, Section, Title
from karenina_toolkit.printable import quantity

CHANGE_HEAD: Final = ("Question", "Models", "Replicate", "Before", "After", "Changed", "Why")
CHANGE_TEXTS: Final = (0, 1, 3, 4, 5, 6)
"""The columns of `CHANGE_HEAD` that hold texts; the other is a number."""
_MOST_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Change:
    """An item whose score changed. `item` is its question, answering model, judge and replicate.

    `fields` and `traits` are those that changed, each with the earlier and the new value (None: no value); `granular`
    has both granular results if they differ. `why` explains the new outcome.
    """

    item: ItemId
    before: Outcome
    after: Outcome
    fields: Mapping[str, tuple[bool | None, bool | None]] = field(default_factory=dict)
    traits: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    granular: tuple[Any, Any] | None = None
    why: str = ""

    @property
    def flipped(self) -> bool:
        """Whether the verdict changed. An item that cannot be judged has none."""
        return (
            self.before.judged
            and self.after.judged
            and (self.before is Outcome.CORRECT) is not (self.after is Outcome.CORRECT)
        )

    @property
    def missing(self) -> bool:
        """Whether the item was judged earlier and cannot be now, usually because a reply is not in the journal.

        An item that is undecided now was compared, so it is not missing.
        """
        return self.before.judged and not self.after.judged and not self.undecided

    @property
    def undecided(self) -> bool:
        """Whether the item is undecided now, and was not before."""
        return self.after is Outcome.UNDECIDED and self.before is not Outcome.UNDECIDED

    @property
    def decided(self) -> bool:
        """Whether the item was undecided before, and has a verdict now."""
        return self.before is Outcome.UNDECIDED and self.after.has_verdict


@dataclass(slots=True, repr=False)
class RescoreReport(SectionsView):
    """The result of rescoring: both summaries, over the same items, and the changes, in the order of the run.

    `gone` items were left out because the benchmark lacks their question; `new` questions have no result yet.
    """

    before: Summary
    after: Summary
    changes: list[Change]
    gone: int
    new: int
    seconds: float

    @property
    def flips(self) -> list[Change]:
        """The changes of verdicts."""
        return [change for change in self.changes if change.flipped]

    def ordered_changes(self) -> list[Change]:
        """Return all changes, those of verdicts first, then those to and from undecided."""
        return sorted(self.changes, key=lambda one: 0 if one.flipped else 1 if one.undecided or one.decided else 2)

    @property
    def missing(self) -> list[Change]:
        """The items that could not be judged again."""
        return [change for change in self.changes if change.missing]


def report_rows(report: RescoreReport) -> Iterator[tuple[str, str]]:
    """Yield the lines of a report, each with its name."""
    flips = report.flips
    better = sum(change.after is Outcome.CORRECT for change in flips)
    for name, summary in (("Before", report.before), ("After", report.after)):
        for place, line in enumerate(group_lines(summary)):
            yield "" if place else name, line
    worse = len(flips) - better
    yield "Flips", f"{quantity(len(flips), 'item')}: {worse} no longer correct, {better} now correct"
    undecided, decided = (sum(getattr(one, name) for one in report.changes) for name in ("undecided", "decided"))
    if undecided or decided:
        yield "Undecided", f"{quantity(undecided, 'item')} undecided now, {decided:,} no longer"
    others = len(report.changes) - len(flips) - len(report.missing) - undecided - decided
    if others:
        yield "Besides", f"{quantity(others, 'item')} changed in fields or scores, but not in the verdict"
    if report.missing:
        first = report.missing[0]
        yield "Missing", f"{quantity(len(report.missing), 'item')} could not be judged again: {first.why}"
    if report.gone:
        yield "Left out", f"{quantity(report.gone, 'item')} of questions that the benchmark does not contain now"
    if report.new:
        yield "New", f"{quantity(report.new, 'question')} without a result; a run evaluates them"


def change_cells(change: Change) -> list[str]:
    """Return a change as the cells of a row with the columns of `CHANGE_HEAD`."""
    question, answering, judge, replicate = change.item
    models = answering if judge == answering else f"{answering}, judged by {judge}"
    values = [change.before.value, change.after.value, _changes_text(change), change.why]
    return [question, models, str(replicate), *values]


@sections_of.register(RescoreReport)
def _sections(report: RescoreReport) -> Iterator[Section]:
    yield [Title(f"Rescored {quantity(report.after.items, 'item')}"), Facts([*report_rows(report)])]
    changes = report.ordered_changes()
    if changes:
        shown = min(len(changes), _MOST_SHOWN)
        rows = [change_cells(change) for change in changes[:shown]]
        yield [
            Title(f"Changes ({shown} of {quantity(len(changes), 'item')})"),
            Grid([CHANGE_HEAD, *rows], CHANGE_TEXTS),
        ]


def _changes_text(change: Change) -> str:
    parts = [f"{name}: {_passed_text(was)} -> {_passed_text(now)}" for name, (was, now) in change.fields.items()]
    parts += [f"{name}: {was} -> {now}" for name, (was, now) in change.traits.items()]
    if change.granular is not None:
        parts.append(f"granular: {_number(change.granular[0])} -> {_number(change.granular[1])}")
    return "\n".join(parts)


def _passed_text(passed: bool | None) -> str:
    return "-" if passed is None else "passes" if passed else "fails"


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
