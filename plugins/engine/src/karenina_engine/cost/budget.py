"""A hard budget: the most that a call may cost is reserved before it is made.

The actual cost is settled afterwards. A call that is not covered waits until others are settled. If none is in flight
any more, the budget is exhausted: no item starts, items that have their answer end as far as the budget reaches, and
calls that are not covered end their items without a result, to be continued when the budget is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ItemInterrupt
from karenina_core.models.ports import Usage
from karenina_engine.calls.call_size import FRAME
from karenina_engine.cost.price_source import format_cost

if TYPE_CHECKING:
    from karenina_engine.calls.call import CallRecord
    from karenina_engine.cost.ledger import Ledger, LedgerLine

OUTPUT: Final = 1024
"""The assumed output tokens of a call without a limit of its own, until some replies were observed."""

_ENOUGH: Final = 3  # replies of a line from which its calls are estimated
_MARGIN: Final = 1.25


class OverBudget(ItemInterrupt):
    """A call that the budget does not cover. Its item ends without a result, not with an error."""


@dataclass(slots=True)
class _Observed:
    """Observations of the calls of one ledger line: the most output tokens, and the most tokens per character."""

    replies: int = 0
    output: int = 0
    density: float = 0.0


@dataclass(slots=True)
class Budget:
    """A budget in picodollars. `on_spent` is called once, when a call is not covered and none is in flight.

    `spent` is settled, including earlier runs; `reserved` is held for calls in flight. `lost` was reserved for calls
    with an unknown end, and is not spent again.
    """

    limit: int
    ledger: Ledger
    spent: int = 0
    reserved: int = 0
    lost: int = 0
    on_spent: Callable[[], None] | None = None
    exhausted: bool = False
    refused: int = 0
    """The maximal cost of the first call that the budget does not cover, once it is exhausted."""
    _observed_lines: dict[int, tuple[LedgerLine, _Observed]] = field(default_factory=dict)
    _queue: list[tuple[int, int, int, bool, asyncio.Future[None]]] = field(default_factory=list)
    _serial: int = 0

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the most that the call may cost, and return it. Waits while calls in flight may leave enough.

        Raises `OverBudget`.
        """
        amount = self.max_cost(call)
        if not amount:
            return 0
        if not self._queue and self._covers(amount) and not (self.exhausted and call.info.shared):
            self.reserved += amount
            return amount
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(self._queue, (call.info.order, self._serial, amount, call.info.shared, waiting))
        self._admit_waiting()
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.release(amount)
            raise
        return amount

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count the actual cost of a call; if it is not known, the most that it may be."""
        self.spent += self.max_cost(call) if cost is None else cost
        seen = self._observations(call)
        seen.replies += 1
        seen.output = max(seen.output, usage.output_tokens)
        seen.density = max(seen.density, usage.input_tokens / max(1, call.size.characters))

    def release(self, reserved: int) -> None:
        """Release the reservation of a call that has ended, after its actual cost was counted."""
        self.reserved -= reserved
        if self._queue:
            self._admit_waiting()

    def forfeit(self, reserved: int) -> None:
        """Keep the reservation of a call that may have been made and charged, such as one of a dead worker."""
        self.lost += reserved
        self.release(reserved)

    def max_cost(self, call: CallRecord) -> int:
        """Return the most that the call may cost, from its size and `max_tokens`, or from earlier calls of its line."""
        tariff = self.ledger.prices.price(call.endpoint.model).tariff
        if tariff is None:
            return 0
        seen = self._observations(call)
        observed = seen.replies >= _ENOUGH
        allowed = call.endpoint.model.max_tokens
        expected = int(seen.output * _MARGIN) + FRAME
        if allowed is None:
            output = expected if observed else max(OUTPUT, seen.output)
        else:
            output = min(expected, allowed) if observed else allowed
            if seen.output > allowed:  # some servers do not count hidden thoughts for the limit
                output = expected
        size, density, turns = call.size
        prompt = int(size * (seen.density * _MARGIN if observed and seen.density else density)) + FRAME
        written = prompt if tariff.rates.cache_write > tariff.rates.input else 0
        return tariff.cost(Usage(prompt, output, calls=1, cache_write_tokens=written)) * (1 if observed else turns)

    def describe_exhaustion(self) -> str:
        """Return why the run stopped, for messages."""
        lost = f" and {format_cost(self.lost)} was reserved for calls that were cut off" if self.lost else ""
        return (
            f"its budget of {format_cost(self.limit)} does not cover the next call, which may cost "
            f"{format_cost(self.refused)} (less with a lower max_tokens), after {format_cost(self.spent)} was spent"
            f"{lost}"
        )

    def _covers(self, amount: int) -> bool:
        return self.spent + self.lost + self.reserved + amount <= self.limit

    def _admit_waiting(self) -> None:
        """Admit waiting calls that are covered, the earliest items first. If none is in flight, refuse the others."""
        while self._queue and not self.exhausted:
            amount, waiting = self._queue[0][2], self._queue[0][4]
            if waiting.done():
                heappop(self._queue)
            elif self._covers(amount):
                heappop(self._queue)
                self.reserved += amount
                waiting.set_result(None)
            elif self.reserved:
                return
            else:
                self.exhausted, self.refused = True, amount
                if self.on_spent is not None:
                    self.on_spent()
        if self.exhausted:
            self._finish_waiting()

    def _finish_waiting(self) -> None:
        """After the budget is exhausted, judge existing answers as far as it reaches, and start nothing new."""
        left = []
        for entry in sorted(self._queue):
            _, _, amount, begins, waiting = entry
            if waiting.done():
                continue
            if not begins and self._covers(amount):
                self.reserved += amount
                waiting.set_result(None)
            elif begins or not self.reserved:
                waiting.set_exception(OverBudget())
            else:
                left.append(entry)
        heapify(left)
        self._queue = left

    def _observations(self, call: CallRecord) -> _Observed:
        line = self.ledger.line(call)
        observed = self._observed_lines.get(id(line))
        if observed is None:
            observed = self._observed_lines[id(line)] = line, self._from_earlier_runs(line)
        return observed[1]

    def _from_earlier_runs(self, line: LedgerLine) -> _Observed:
        """Return the observations of earlier runs of the journal; of their output twice the mean."""
        same = [one.spent for one in self.ledger.before if one.names[:4] == line.names[:4]]
        calls = sum(count.calls for count in same)
        if calls < _ENOUGH:
            return _Observed()
        return _Observed(calls, 2 * sum(count.output_tokens for count in same) // calls)
