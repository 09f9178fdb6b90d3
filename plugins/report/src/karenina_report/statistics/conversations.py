"""Conversations' outcomes by turn, and the reasons why they ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from karenina_core.data.outcome import Outcome
from karenina_engine.results.rates import pass_rate
from karenina_report.statistics.statistics_result import TurnRate
from karenina_toolkit.conversations import OWNER

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.statistics.columns import JudgeNamer, Units

_OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.UNDECIDED}


def turn_rates(results: Sequence[VerificationResult], units: Units, judge_name: JudgeNamer) -> Iterator[TurnRate]:
    """Yield the rate of fields that pass, by turn and judge, and the number of fields left out because their turn was
    skipped.
    """
    fields: dict[tuple[str, str], list[tuple[Hashable, Outcome]]] = defaultdict(list)
    left_out: Counter[tuple[str, str]] = Counter()
    for result in results:
        own = result.extensions.get("karenina-template", {})
        judge, passed = judge_name(result), result.template.field_results or {}
        for name, turn in own.get("field_turns", {}).items():
            if name in passed:
                fields[str(turn), judge].append((units.of(result.question_id), _OUTCOMES[passed[name]]))
            elif name in own.get("left_out", {}):
                left_out[str(turn), judge] += 1
    for turn, judge in sorted(fields.keys() | left_out.keys(), key=_by_number):
        rate = pass_rate(fields[turn, judge])
        yield TurnRate(turn=turn, judge=judge, rate=rate, left_out=left_out[turn, judge])


def _by_number(key: tuple[str, str]) -> tuple[int, str, str]:
    """Return a turn's sort key, which puts numbers first."""
    turn, judge = key
    return (int(turn), "", judge) if turn.isdecimal() else (10**9, turn, judge)


def reasons_for_ends(results: Sequence[VerificationResult]) -> Mapping[str, int]:
    """Return how many conversations ended for each reason, the most frequent first, each conversation counted once."""
    ends: dict[tuple[Any, ...], str] = {}
    for result in results:
        described = result.extensions.get(OWNER, {}).get("conversation")
        if described:
            meta = result.metadata
            ends[meta.question_id, meta.answering_id, meta.replicate] = str(described["ended"] or "broke off")
    return dict(Counter(ends.values()).most_common())


def user_faults(results: Sequence[VerificationResult]) -> Mapping[str, int]:
    """Return the number of items with each fault of a simulated user, and with `none` for users without a fault. Items
    without a simulated user are not counted.

    Items with a fault are not judged.
    """
    owned = [result.extensions.get(OWNER, {}) for result in results]
    played = [values for values in owned if "user_fault" in values or "user_checked" in values]
    return dict(Counter(str(values.get("user_fault", "none")) for values in played).most_common())


def count_faults(faults: Mapping[str, int]) -> int:
    """Return the number of items with a fault, given the counts from `user_faults`."""
    return sum(count for fault, count in faults.items() if fault != "none")
