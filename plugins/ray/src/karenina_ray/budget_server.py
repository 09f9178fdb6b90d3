"""The cashier: covers the workers' calls out of the one budget of the run."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from karenina_engine.cost.budget import OverBudget
from karenina_ray import serialization

if TYPE_CHECKING:
    from karenina_engine.cost.budget import Budget
    from karenina_ray.journal_server import Go, Tell
    from karenina_ray.serialization import Payload
    from karenina_ray.worker_handle import WorkerHandle

_Reserved = tuple["WorkerHandle", int]


class BudgetServer:
    """Answers the workers out of the budget. `tell` sends a message to a worker, `go` starts what waits.

    What is reserved for a worker that dies is lost: its calls may have been answered, and nobody knows.
    """

    def __init__(self, budget: Budget, tell: Tell, go: Go) -> None:
        self._budget = budget
        self._tell = tell
        self._go = go
        self._asking: dict[_Reserved, asyncio.Task[None]] = {}
        self._taken: dict[_Reserved, int] = {}

    def reserve(self, hand: WorkerHandle, told: Payload) -> None:
        """A worker wants to make a call: it hears whether that is covered, when it is known."""
        one = hand, told["reserved"]
        task = self._asking[one] = self._go(self._take(one, told))
        task.add_done_callback(lambda _: self._asking.pop(one, None))

    def release(self, hand: WorkerHandle, reserved: int) -> None:
        """A call of a worker has ended, or is not made after all."""
        one = hand, reserved
        if one in self._taken:
            self._budget.release(self._taken.pop(one))
        elif one in self._asking:
            self._asking[one].cancel()

    def gone(self, hand: WorkerHandle) -> None:
        """A worker has died."""
        for one in [one for one in self._asking if one[0] is hand]:
            self._asking[one].cancel()
        for one in [one for one in self._taken if one[0] is hand]:
            self._budget.forfeit(self._taken.pop(one))

    async def _take(self, one: _Reserved, told: Payload) -> None:
        hand = one[0]
        with contextlib.suppress(OverBudget):
            self._taken[one] = await self._budget.reserve(serialization.call_of(told, hand.models[told["model"]]))
        self._tell(hand, {"kind": "taken", "number": told["number"], "covered": one in self._taken})
