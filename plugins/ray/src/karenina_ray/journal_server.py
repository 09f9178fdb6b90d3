"""`JournalServer`: looks up and stores replies for the workers. Of identical calls one is made, and the others wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import PortError
from karenina_engine.calls.call import CallOutcome
from karenina_engine.calls.reply_json import dump_error
from karenina_ray import serialization
from karenina_ray.serialization import Payload

if TYPE_CHECKING:
    from karenina_engine.calls.call import CallRecord, ReplyStore
    from karenina_ray.worker_handle import WorkerHandle

SendMessage = Callable[["WorkerHandle", Payload], None]
StartTask = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(slots=True)
class _PendingCall:
    """A call that `maker` makes now, and the requests (worker and number) that wait for its outcome.

    `maker` is None while the journal is read or written.
    """

    maker: WorkerHandle | None = None
    waiting: deque[tuple[WorkerHandle, int]] = field(default_factory=deque)


class JournalServer:
    """The journal of the run, for its workers. `send` sends a message to a worker, `start` starts a background task.

    Messages of a worker take effect at once, in the order in which they were sent: a worker may request a call, give it
    up and request it again without waiting in between.
    """

    def __init__(self, journal: ReplyStore, send: SendMessage, start: StartTask) -> None:
        self._journal = journal
        self._send = send
        self._start = start
        self._pending: dict[str, _PendingCall] = {}

    def find(self, worker: WorkerHandle, message: Payload) -> None:
        """Look up a worker's call: send its stored outcome, have the worker make it, or wait for the one that does."""
        key = message["key"]
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _PendingCall()
            call = serialization.decode_call(message, worker.models[message["model"]])
            self._start(self._find(key, pending, call))
        pending.waiting.append((worker, message["number"]))

    async def _find(self, key: str, pending: _PendingCall, call: CallRecord) -> None:
        stored = await self._journal.find(call)
        if stored is None:
            self._assign_maker(key, pending)
        else:
            self._resolve(key, pending, stored)

    def store(self, worker: WorkerHandle, message: Payload) -> None:
        """Store the outcome of a worker's call. The response is sent when it is in the file."""
        pending = self._pending.get(message["key"])
        if pending is not None and pending.maker is worker:
            pending.maker = None
        self._start(self._store(worker, message))

    async def _store(self, worker: WorkerHandle, message: Payload) -> None:
        outcome = serialization.decode_outcome(message["outcome"], message["port"])
        response = {"kind": "response", "number": message["number"]}
        try:
            call = serialization.decode_call(message, worker.models[message["model"]])
            await self._journal.store(call, outcome)
        except PortError as error:  # the journal cannot store this reply: an error of the items that need it
            response["error"] = dump_error(error)
            outcome = CallOutcome(None, error, outcome.notes)
        self._send(worker, response)
        pending = self._pending.get(message["key"])
        if pending is not None:
            self._resolve(message["key"], pending, outcome)

    def leave(self, worker: WorkerHandle, key: str) -> None:
        """Withdraw a worker from a call: if it was the maker, the first request that waits makes the call."""
        pending = self._pending.get(key)
        if pending is None:
            return
        if pending.maker is worker:
            self._assign_maker(key, pending)
        else:
            pending.waiting = deque(request for request in pending.waiting if request[0] is not worker)

    def on_worker_death(self, worker: WorkerHandle) -> None:
        """Assign the calls of a worker that has died to other workers."""
        for key, pending in [(key, one) for key, one in self._pending.items() if one.maker is worker]:
            self._assign_maker(key, pending)

    def _assign_maker(self, key: str, pending: _PendingCall) -> None:
        """Have the first request that waits make the call, if there is one."""
        while pending.waiting:
            worker, number = pending.waiting.popleft()
            if worker.alive:
                pending.maker = worker
                self._respond(worker, number, None)
                return
        if self._pending.get(key) is pending:
            del self._pending[key]

    def _resolve(self, key: str, pending: _PendingCall, outcome: CallOutcome) -> None:
        """Send the outcome to all requests that wait for the call."""
        if self._pending.get(key) is pending:
            del self._pending[key]
        while pending.waiting:
            self._respond(*pending.waiting.popleft(), outcome)

    def _respond(self, worker: WorkerHandle, number: int, outcome: CallOutcome | None) -> None:
        encoded = serialization.encode_outcome(outcome) if outcome is not None else None
        self._send(worker, {"kind": "response", "number": number, "outcome": encoded})
