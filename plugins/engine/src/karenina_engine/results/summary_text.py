"""The summary of results as text: rates, traits, failures and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from karenina_core.data.outcome import Outcome
from karenina_toolkit.printable import clean, in_one_line, quantity, shorten

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage
    from karenina_engine.results.aggregate import Counts, Failure, GroupSummary, Summary, UserFaults
    from karenina_engine.results.rates import Rate, TraitSummary

MAX_TRAITS: Final = 20
"""The maximum number of traits shown in a summary."""
MAX_FAILURES: Final = 5
"""The maximum number of failures shown in a summary."""
MAX_GROUPS: Final = 50
"""The maximum number of groups shown in a summary."""
GROUP_TEXTS: Final = (0, 1)
"""The indexes of the columns in `group_table` that contain text. All other columns contain numbers."""
_MAX_NAME: Final = 200
_MOST_PLACES: Final = 9
_MOST_DIGITS: Final = 12
"""The maximum number of decimal places of a percentage. What is closer to 0% or 100% is an error of rounding."""


class Summarized(Protocol):
    """Results or totals of results that have a summary."""

    def summary(self) -> Summary:
        """Return the summary of all results."""

    def failures(self) -> Sequence[Failure]:
        """Return the reasons why items were not judged, most frequent first."""

    def failed_checks(self) -> Sequence[Failure]:
        """Return the reasons why planned checks of answers were not performed, most frequent first."""

    def usage(self) -> Usage:
        """Return the usage of all results."""


def summary_rows(results: Summarized, *, all_failures: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines of a summary as pairs of a name and a value, with an empty name for continuation lines. If there
    are several groups of models, their rates and bounds are not included (see `group_table`). Unless `all_failures` is
    set, only the most frequent failures are listed, and another line says where to find the rest.

    The lines contain rates, unjudged items, bounds, traits, tokens, failures and failed checks. At most `MAX_TRAITS`
    traits are listed.
    """
    summary = results.summary()
    several = len(summary.groups) > 1
    if summary.pass_rate is not None and not scores_only(summary):
        yield "Pass rate", rate_text(summary.pass_rate)
    if summary.not_judged:
        kinds = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items() if not Outcome(name).judged)
        yield "Not judged", f"{summary.not_judged} of {summary.items}: {kinds}"
        if summary.worst is not None and summary.not_judged < summary.items:
            wrong, right = percent(summary.worst), percent(summary.best)
            yield "Bounds", f"{wrong} if every unjudged item were wrong, {right} if right"
    for place, line in enumerate(user_lines(summary)):
        yield "" if place else "Users", line
    yield "Outcomes", ", ".join(f"{count} {name}" for name, count in summary.outcomes.items()) or "none"
    if summary.mean_granular is not None:
        yield (
            "Granular",
            f"{number_text(summary.mean_granular)} (mean field score, {quantity(summary.granular_out_of, 'item')})",
        )
    traits = [(group.name if several else "", *trait) for group in summary.groups for trait in group.traits.items()]
    for place, (group, name, trait) in enumerate(traits[:MAX_TRAITS]):
        of = f"{shorten(group, _MAX_NAME)}: " if group else ""
        yield "" if place else "Traits", f"{of}{shorten(name, _MAX_NAME)}: {trait_text(trait)}"
    if len(traits) > MAX_TRAITS:
        where = "groups" if several else "traits"
        yield "", f"and {len(traits) - MAX_TRAITS} more, in `summary().{where}` and --json"
    usage = results.usage()
    if usage.calls or usage.total_tokens:
        read = f"{usage.input_tokens:,} in" if usage.input_tokens else "input not reported"
        written = f"{usage.output_tokens:,} out" if usage.output_tokens else "output not reported"
        counts = f"{read}, {written}" if usage.total_tokens else "not reported"
        yield "Tokens", f"{counts}, {quantity(usage.calls, 'call')}"
    yield from _failure_rows("Failures", results.failures(), all_failures=all_failures)
    yield from _failure_rows("Checks", results.failed_checks(), all_failures=all_failures)
    if len(summary.groups) > MAX_GROUPS:
        yield "", f"{len(summary.groups) - MAX_GROUPS} more groups of models, in `summary().groups` and --json"


def group_table(summary: Summary) -> list[list[str]]:
    """Return a table with a heading, and a row for each of the first `MAX_GROUPS` groups. Empty columns are omitted. If
    there is only one group, the table is empty.
    """
    groups = summary.groups[:MAX_GROUPS]
    if len(groups) < 2:
        return []
    undecided, unjudged = bool(summary.undecided), bool(summary.not_judged)
    scored, granular = bool(summary.scored), any(group.mean_granular is not None for group in groups)
    head = ["Model", "Judge", "Pass rate", "95% CI", "Correct", "Judged"]
    head += ["If undecided wrong"] if undecided else []
    head += ["Not judged", "Bounds"] if unjudged else []
    head += ["Scored"] if scored else []
    head += ["Granular"] if granular else []
    return [head, *(_group_cells(group, undecided, unjudged, scored, granular) for group in groups)]


def _group_cells(group: GroupSummary, undecided: bool, unjudged: bool, scored: bool, granular: bool) -> list[str]:
    """Return the row for a group. The flags determine which optional columns the table has."""
    rate = group.pass_rate
    rough = "rough " if rate.is_rough else ""
    bounds = f"{rough}{percent(rate.low)}-{percent(rate.high)}" if rate.value is not None else "-"
    row = [*(shorten(id, _MAX_NAME) for id in (group.answering, group.judge)), percent(rate.value), bounds]
    row += [f"{rate.hits:,}", f"{group.judged:,}"]
    row += [percent(rate.if_undecided_wrong)] if undecided else []
    if unjudged:
        bounded = group.not_judged and group.worst is not None
        row += [f"{group.not_judged:,}", f"{percent(group.worst)}-{percent(group.best)}" if bounded else "-"]
    row += [f"{group.scored:,}"] if scored else []
    grade = "-" if group.mean_granular is None else number_text(group.mean_granular)
    return [*row, grade] if granular else row


def group_lines(summary: Summary) -> Iterator[str]:
    """Yield a line for each group, with its pass rate and the number of unjudged items. If there are more than
    `MAX_GROUPS` groups, the last line gives the number of groups that are not shown.
    """
    several = len(summary.groups) > 1
    for group in summary.groups[:MAX_GROUPS]:
        name = f"{shorten(group.name, _MAX_NAME)}: " if several else ""
        yield f"{name}{share_text(group)}{unjudged_text(group)}"
    if len(summary.groups) > MAX_GROUPS:
        yield f"and {len(summary.groups) - MAX_GROUPS} more groups"


def user_lines(summary: Summary) -> Iterator[str]:
    """Yield a line for each of the first `MAX_GROUPS` groups with a simulated user at fault, with the bounds of its
    pass rate.
    """
    for group in summary.groups[:MAX_GROUPS]:
        if (users := group.users) is not None:
            name = f"{shorten(group.name, _MAX_NAME)}: " if len(summary.groups) > 1 else ""
            of = f"{users.faulty:,} of {quantity(users.items, 'conversation')} not judged"
            yield f"{name}{of}, because the simulated user was at fault; {fault_bounds(users)}"


def fault_bounds(users: UserFaults) -> str:
    """Return the bounds of a pass rate as text, for items that were not judged because of a simulated user."""
    return f"pass rate {percent(users.worst)} if these were wrong, {percent(users.best)} if right"


def _failure_rows(name: str, failures: Sequence[Failure], *, all_failures: bool) -> Iterator[tuple[str, str]]:
    """Yield failures, each with its number of items, below `name`. Unless `all_failures` is set, only the
    `MAX_FAILURES` most frequent are listed, and the last line gives the number of the others.
    """
    shown = MAX_FAILURES + (len(failures) == MAX_FAILURES + 1)  # "1 other reason" would take as much room
    shown = len(failures) if all_failures else shown
    for number, failure in enumerate(failures[:shown]):
        yield name if number == 0 else "", f"{failure.items:,} x {in_one_line(failure.error)}"
    left = failures[shown:]
    if left:
        count = sum(failure.items for failure in left)
        where = "`failures()`" if name == "Failures" else "`failed_checks()`"
        yield "", f"{count:,} x {quantity(len(left), 'other reason')}, in {where} and `karenina show`"


def scores_only(summary: Counts) -> bool:
    """Return whether the items have only trait scores or trait errors, and no verdicts."""
    has_rate = summary.judged > 0 or summary.outcomes.get(Outcome.UNDECIDED.value, 0) > 0
    return not has_rate and bool(summary.scored or Outcome.RUBRIC_ERROR.value in summary.outcomes)


def share_text(group: GroupSummary) -> str:
    """Return a group's pass rate as text. If there are no verdicts, return the number of scored items instead."""
    return f"{group.scored} of {group.items} scored" if scores_only(group) else rate_text(group.pass_rate)


def trait_text(trait: TraitSummary) -> str:
    """Return a trait's scores as text, such as `80.0% true of 10, 2 not scored` or `mean 3.5 of 12`."""
    parts = []
    if trait.share is not None:
        parts.append(f"{percent(trait.share)} true")
    if trait.mean is not None:
        parts.append(f"mean {short_number(trait.mean)}")
    parts += [f"{clean(label)} {count}" for label, count in trait.labels.items()]
    parts += [
        f"{clean(name)} {short_number(mean)}{f' (of {trait.fewer[name]})' if name in trait.fewer else ''}"
        for name, mean in trait.parts.items()
    ]
    text = f"{', '.join(parts) or 'scored'} of {trait.n}" if trait.n else ""
    missing = f"{trait.not_scored} not scored" if trait.not_scored else ""
    absent = f"{trait.skipped} without its concept" if trait.skipped else ""
    return ", ".join(filter(None, (text, missing, absent)))


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval as text, such as `8 of 10 judged items correct (80.0%, ...)`, or a text that says
    that no item has a verdict. If there are undecided items, their number is added. An interval that is based on few
    questions is called rough.
    """
    if rate.value is None:
        return f"none: no item has a verdict{undecided_text(rate)}"
    about = "" if rate.clusters == rate.out_of else f" on {rate.clusters} question{'' if rate.clusters == 1 else 's'}"
    bounds = f"{'rough ' if rate.is_rough else ''}95% CI {percent(rate.low)}-{percent(rate.high)}"
    items = "item" if rate.out_of == 1 else "items"
    text = f"{rate.hits} of {rate.out_of} judged {items} correct{about} ({percent(rate.value)}, {bounds})"
    return text + undecided_text(rate)


def undecided_text(rate: Rate) -> str:
    """Return the rate if undecided items were wrong, as the end of a rate's text. Returns an empty string if there are
    no undecided items.
    """
    if not rate.undecided:
        return ""
    which = f"{rate.undecided:,} undecided are" if rate.undecided > 1 else "1 undecided is"
    return f"; {percent(rate.if_undecided_wrong)} if the {which} wrong"


def percent(share: float | None) -> str:
    """Return a share between 0 and 1 as a percentage with one decimal place, or "-" if it is None. If this would be 0%
    or 100% although the share is neither 0 nor 1, it has as many more decimal places as it takes.
    """
    if share is None:
        return "-"
    text = f"{100 * share:.1f}"
    if 0 < share < 1 and float(text) in (0, 100):
        longer = (f"{100 * share:.{places}f}" for places in range(2, _MOST_PLACES + 1))
        text = next((number for number in longer if float(number) not in (0, 100)), text)
    return f"{text}%"


def number_text(value: float) -> str:
    """Return a number with three decimal places, or with as many more as it takes if it is not a whole number but would
    look like one.
    """
    texts = [f"{value or 0.0:.{places}f}" for places in range(3, _MOST_PLACES + 1)]
    return next((text for text in texts if _is_faithful(text, value)), texts[0])


def short_number(value: float) -> str:
    """Return a number with three significant digits, or with as many more as it takes if it is not a whole number but
    would look like one, or if it is a larger whole number.
    """
    texts = [f"{value or 0.0:.{digits}g}" for digits in range(3, _MOST_DIGITS + 1)]
    return next((text for text in texts if "e" not in text and _is_faithful(text, value)), texts[0])


def seconds_text(seconds: float) -> str:
    """Return seconds with two decimal places. A time that is not zero is at least `< 0.01`."""
    return "< 0.01" if 0 < seconds < 0.005 else f"{seconds:.2f}"


def _is_faithful(text: str, value: float) -> bool:
    """Return whether a rounded number is exact, or shows that it is not a whole number."""
    return float(text) == value or not float(text).is_integer()


def unjudged_text(summary: Counts) -> str:
    """Return the number of unjudged items as the end of a line. Returns an empty string if there are none."""
    return f", {summary.not_judged} not judged" if summary.not_judged else ""
