"""The run's journal and budget, which workers access through these servers.

If several workers request the same call, it is only made once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import PortError
from karenina_engine.calls.call import CallOutcome
from karenina_engine.calls.reply_json import dump_error
from karenina_engine.cost.budget import OverBudget
from karenina_ray import serialization
from karenina_ray.serialization import Payload

if TYPE_CHECKING:
    from karenina_engine.calls.call import CallRecord, ReplyStore
    from karenina_engine.cost.budget import Budget
    from karenina_ray.work_queue import WorkerHandle


SendMessage = Callable[["WorkerHandle", Payload], None]
StartTask = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(slots=True)
class _PendingCall:
    """A call in progress, and the requests waiting for it, each identified by a worker and a number.

    `maker` is the worker that makes the call, or None while the journal is being read or written.
    """

    maker: WorkerHandle | None = None
    waiting: deque[tuple[WorkerHandle, int]] = field(default_factory=deque)


class JournalServer:
    """Gives workers access to the run's journal.

    `send` sends a message to a worker, and `start` starts a background task. Messages take effect immediately and in
    order. A worker can therefore request a call, withdraw from it and request it again without waiting.
    """

    def __init__(self, journal: ReplyStore, send: SendMessage, start: StartTask) -> None:
        self._journal = journal
        self._send = send
        self._start = start
        self._pending: dict[str, _PendingCall] = {}

    def find(self, worker: WorkerHandle, message: Payload) -> None:
        """Answer a worker's request for a call. A response of None means that the worker has to make the call. If
        another worker is making the call, the response is sent when the outcome has been stored.
        """
        key = message["key"]
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _PendingCall()
            call = serialization.decode_call(message, worker.models[message["model"]])
            self._start(self._find(key, pending, call))
        pending.waiting.append((worker, message["number"]))

    async def _find(self, key: str, pending: _PendingCall, call: CallRecord) -> None:
        """Send the stored outcome of a call to everyone waiting for it. If there is none, the first of them makes the
        call.
        """
        stored = await self._journal.find(call)
        if stored is None:
            self._assign_maker(key, pending)
        else:
            self._resolve(key, pending, stored)

    def store(self, worker: WorkerHandle, message: Payload) -> None:
        """Start storing the outcome of a worker's call. The response is sent once the outcome is in the journal's
        file.
        """
        pending = self._pending.get(message["key"])
        if pending is not None and pending.maker is worker:
            pending.maker = None
        self._start(self._store(worker, message))

    async def _store(self, worker: WorkerHandle, message: Payload) -> None:
        """Store the outcome in a worker's message, reply to it, and send the outcome to all waiting requests. If the
        journal cannot store it, its `PortError` is sent instead.
        """
        outcome = serialization.decode_outcome(message["outcome"], message["port"])
        response = {"kind": "response", "number": message["number"]}
        try:
            call = serialization.decode_call(message, worker.models[message["model"]])
            await self._journal.store(call, outcome)
        except PortError as error:  # the journal cannot store this reply, which fails the items that need it
            response["error"] = dump_error(error)
            outcome = CallOutcome(None, error, outcome.notes)
        self._send(worker, response)
        pending = self._pending.get(message["key"])
        if pending is not None:
            self._resolve(message["key"], pending, outcome)

    def leave(self, worker: WorkerHandle, key: str) -> None:
        """Withdraw a worker from a call. If the worker was making the call, the first waiting request takes over.
        Otherwise, the worker's own requests for the call are dropped. Unknown calls are ignored.
        """
        pending = self._pending.get(key)
        if pending is None:
            return
        if pending.maker is worker:
            self._assign_maker(key, pending)
        else:
            pending.waiting = deque(request for request in pending.waiting if request[0] is not worker)

    def on_worker_death(self, worker: WorkerHandle) -> None:
        """Reassign the calls of a dead worker to other workers that are waiting for them."""
        for key, pending in [(key, call) for key, call in self._pending.items() if call.maker is worker]:
            self._assign_maker(key, pending)

    def _assign_maker(self, key: str, pending: _PendingCall) -> None:
        """Let the first waiting request from a live worker make the call. If there is none, forget the call."""
        while pending.waiting:
            worker, number = pending.waiting.popleft()
            if worker.alive:
                pending.maker = worker
                self._respond(worker, number, None)
                return
        if self._pending.get(key) is pending:
            del self._pending[key]

    def _resolve(self, key: str, pending: _PendingCall, outcome: CallOutcome) -> None:
        """Send the outcome to all waiting requests, and forget the call."""
        if self._pending.get(key) is pending:
            del self._pending[key]
        while pending.waiting:
            self._respond(*pending.waiting.popleft(), outcome)

    def _respond(self, worker: WorkerHandle, number: int, outcome: CallOutcome | None) -> None:
        """Send the response to a worker's request: the outcome of the call, or None if the worker has to make it."""
        encoded = serialization.encode_outcome(outcome) if outcome is not None else None
        self._send(worker, {"kind": "response", "number": number, "outcome": encoded})


_ReservationId = tuple["WorkerHandle", int]


class BudgetServer:
    """Gives workers access to the run's budget.

    `send` sends a message to a worker, and `start` starts a background task. The reservations of a dead worker are not
    released, because its calls may have been answered and charged.
    """

    def __init__(self, budget: Budget, send: SendMessage, start: StartTask) -> None:
        self._budget = budget
        self._send = send
        self._start = start
        self._waiting: dict[_ReservationId, asyncio.Task[None]] = {}
        self._reserved: dict[_ReservationId, int] = {}

    def reserve(self, worker: WorkerHandle, message: Payload) -> None:
        """Start reserving the cost of a call. The response states whether the budget covers it."""
        id = worker, message["reserved"]
        task = self._waiting[id] = self._start(self._reserve(id, message))
        task.add_done_callback(lambda _: self._waiting.pop(id, None))

    def holds(self, worker: WorkerHandle, message: Payload) -> None:
        """Start checking a reservation. The response states whether the reservation still allows the worker's call."""
        self._start(self._holds((worker, message["reserved"]), message["number"]))

    def release(self, worker: WorkerHandle, reserved: int) -> None:
        """Release a reservation, or cancel a request for one. Unknown numbers are ignored."""
        id = worker, reserved
        if id in self._reserved:
            self._budget.release(self._reserved.pop(id))
        elif id in self._waiting:
            self._waiting[id].cancel()

    def on_worker_death(self, worker: WorkerHandle) -> None:
        """Cancel a dead worker's waiting requests, and keep what it had reserved: its calls may have been charged."""
        for id in [id for id in self._waiting if id[0] is worker]:
            self._waiting[id].cancel()
        for id in [id for id in self._reserved if id[0] is worker]:
            self._budget.forfeit(self._reserved.pop(id))

    async def _reserve(self, id: _ReservationId, message: Payload) -> None:
        """Reserve the cost of a call, and send a response that states whether the budget covers it."""
        worker = id[0]
        with contextlib.suppress(OverBudget):
            call = serialization.decode_call(message, worker.models[message["model"]])
            self._reserved[id] = await self._budget.reserve(call)
        self._send(worker, {"kind": "response", "number": message["number"], "covered": id in self._reserved})

    async def _holds(self, id: _ReservationId, number: int) -> None:
        """Send a response that states whether a reservation still allows its call. Unknown reservations do not."""
        covered = id in self._reserved and await self._budget.holds(self._reserved[id])
        self._send(id[0], {"kind": "response", "number": number, "covered": covered})
