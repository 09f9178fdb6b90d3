"""A hard budget: every call is paid for beforehand, from what is left, with the most that it may cost.

What the call did cost is settled afterwards. A call that is not covered waits until others are settled; where none is
under way any more, the budget is spent: no item starts, those that have their answer end as far as it reaches, and
whatever is not covered then ends without a result, to go on when the budget is raised.
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
"""The output tokens that a call is taken to have at the most, until some were seen, where the model has no limit."""

_SEEN: Final = 3  # replies after which what was seen is believed
_MARGIN: Final = 1.25


class OverBudget(ItemInterrupt):
    """A call that the budget does not cover. No error of the item's: it ends without a result, and may go on later."""


@dataclass(slots=True)
class _Seen:
    """What the calls of one line have shown: the most output tokens, and the most tokens a character."""

    replies: int = 0
    output: int = 0
    density: float = 0.0


@dataclass(slots=True)
class Budget:
    """What may be spent, in picodollars. `on_spent` is called once, when a call is not covered and none is under way.

    `spent` is what was settled, that of earlier runs included; `reserved` is held for calls under way. `lost` was
    reserved for calls of which nobody knows what became, and is not given out again.
    """

    limit: int
    ledger: Ledger
    spent: int = 0
    reserved: int = 0
    lost: int = 0
    on_spent: Callable[[], None] | None = None
    exhausted: bool = False
    refused: int = 0
    """The most that the cheapest call that was not covered may have cost, once the budget is spent."""
    _seen: dict[int, tuple[LedgerLine, _Seen]] = field(default_factory=dict)
    _queue: list[tuple[int, int, int, bool, asyncio.Future[None]]] = field(default_factory=list)
    _serial: int = 0

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the most that the call may cost, and return it. Waits while calls under way may leave enough.

        Raises `OverBudget`.
        """
        amount = self.most(call)
        if not amount:
            return 0
        if not self._queue and self._covers(amount) and not (self.exhausted and call.info.shared):
            self.reserved += amount
            return amount
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(self._queue, (call.info.order, self._serial, amount, call.info.shared, waiting))
        self._wake()
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.release(amount)
            raise
        return amount

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count what a call did cost. Where that is not known it is taken to be the most that it may be."""
        self.spent += self.most(call) if cost is None else cost
        seen = self._of(call)
        seen.replies += 1
        seen.output = max(seen.output, usage.output_tokens)
        seen.density = max(seen.density, usage.input_tokens / max(1, call.size.characters))

    def release(self, reserved: int) -> None:
        """Give back what was reserved for a call that has ended, after what it did cost was counted."""
        self.reserved -= reserved
        if self._queue:
            self._wake()

    def forfeit(self, reserved: int) -> None:
        """Keep all that was reserved for a call: it may have been made, and nobody is left who knows."""
        self.lost += reserved
        self.release(reserved)

    def most(self, call: CallRecord) -> int:
        """The most that the call may cost: by its length and `max_tokens`, or by what calls of its line have shown."""
        tariff = self.ledger.prices.price(call.endpoint.model).tariff
        if tariff is None:
            return 0
        seen = self._of(call)
        known = seen.replies >= _SEEN
        allowed = call.endpoint.model.max_tokens
        output = int(seen.output * _MARGIN) + FRAME if known else allowed or OUTPUT
        if allowed is not None:
            output = min(output, allowed)
        size, density, turns = call.size
        prompt = int(size * (seen.density * _MARGIN if known and seen.density else density)) + FRAME
        written = prompt if tariff.rates.cache_write > tariff.rates.input else 0
        return tariff.cost(Usage(prompt, output, calls=1, cache_write_tokens=written)) * (1 if known else turns)

    def describe_exhaustion(self) -> str:
        """Why the run stopped, as one says it."""
        lost = f", {format_cost(self.lost)} was reserved for calls that were cut off" if self.lost else ""
        return (
            f"its budget of {format_cost(self.limit)} is used up: {format_cost(self.spent)} was spent{lost}, and "
            f"the next call may cost {format_cost(self.refused)}"
        )

    def _covers(self, amount: int) -> bool:
        return self.spent + self.lost + self.reserved + amount <= self.limit

    def _wake(self) -> None:
        """Let calls go that are covered, the earliest items first; where nothing is under way, refuse the others."""
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
            self._let_end()

    def _let_end(self) -> None:
        """Once the budget is spent: judge the answers that are there as far as it reaches, and begin nothing more."""
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
                self.refused = min(self.refused, amount)
            else:
                left.append(entry)
        heapify(left)
        self._queue = left

    def _of(self, call: CallRecord) -> _Seen:
        line = self.ledger.line(call)
        known = self._seen.get(id(line))
        if known is None:
            known = self._seen[id(line)] = line, self._earlier(line)
        return known[1]

    def _earlier(self, line: LedgerLine) -> _Seen:
        """What earlier runs of the journal have shown of such calls: of their output twice the mean."""
        same = [one.spent for one in self.ledger.before if one.names[:4] == line.names[:4]]
        calls = sum(count.calls for count in same)
        if calls < _SEEN:
            return _Seen()
        return _Seen(calls, 2 * sum(count.output_tokens for count in same) // calls)
