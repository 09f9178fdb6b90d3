"""How a worker reaches what the run alone has: the journal and the budget, which are asked and waited for, and the
ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import astuple
from itertools import count
from typing import TYPE_CHECKING, Any

from karenina_engine.calls.call import CallOutcome, CallRecord
from karenina_engine.calls.reply_json import load_error
from karenina_engine.cost.budget import OverBudget
from karenina_ray import serialization
from karenina_ray.serialization import Payload

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Usage


class RemoteClient:
    """Tells the run of calls, and asks it. `tell` sends a message; `paid` says whether the run has a budget."""

    def __init__(self, tell: Callable[[Payload], None], *, paid: bool) -> None:
        self.tell = tell
        self._paid = paid
        self._models: dict[int, tuple[int, ModelConfig]] = {}
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Payload]] = {}

    def call(self, kind: str, call: CallRecord, **more: Any) -> None:
        """A message of this kind about a call. Its model is told before, once."""
        model = call.endpoint.model
        known = self._models.get(id(model))
        if known is None:
            known = self._models[id(model)] = len(self._models), model
            self.tell({"kind": "model", "model": known[0], "config": serialization.plain(model)})
        self.tell({"kind": kind, **serialization.call_told(call, known[0], paid=self._paid), **more})

    async def ask(self, kind: str, call: CallRecord, **more: Any) -> Payload:
        """What the run answers to a message about a call."""
        number = next(self._numbers)
        future: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self.call(kind, call, number=number, **more)
        try:
            return await future
        finally:
            del self._waiting[number]

    def answered(self, told: Payload) -> None:
        """Take the run's answer."""
        future = self._waiting.get(told["number"])
        if future is not None and not future.done():
            future.set_result(told)


class RemoteLedger:
    """The ledger of the run as a worker sees it: it tells what was used, and the run knows what that costs."""

    def __init__(self, teller: RemoteClient) -> None:
        self._teller = teller

    def record_call(self, call: CallRecord, usage: Usage) -> int | None:
        """Tell of a call that was made."""
        self._teller.call("made", call, usage=astuple(usage))
        return None

    def record_cached(self, call: CallRecord, usage: Usage) -> None:
        """Tell of a reply that was kept."""
        self._teller.call("kept", call, usage=astuple(usage))


class RemoteJournal:
    """The journal of the run as the calls of a worker see it."""

    def __init__(self, teller: RemoteClient) -> None:
        self._teller = teller

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """What the run has of such a call. None makes this worker the one that makes it: others wait for it."""
        try:
            told = await self._teller.ask("find", call)
        except asyncio.CancelledError:
            self.leave(call)
            raise
        return serialization.made_of(told["made"], call.endpoint.port) if told["made"] is not None else None

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Store what became of a call: when this returns it is in the file of the run.

        Raises `PortError` if the run's journal cannot hold it.
        """
        told = await self._teller.ask("store", call, made=serialization.made_told(made))
        if "error" in told:
            raise load_error(told["error"])

    def leave(self, call: CallRecord) -> None:
        """Let somebody else make the call."""
        self._teller.tell({"kind": "leave", "key": call.key.hex()})


class RemoteBudget:
    """The budget of the run as the calls of a worker see it: the run covers them, and settles what they did cost."""

    def __init__(self, teller: RemoteClient) -> None:
        self._teller = teller
        self._numbers = count()

    async def reserve(self, call: CallRecord) -> int:
        """Have the call covered; what is returned is the number under which the run keeps what it has reserved."""
        reserved = next(self._numbers)
        try:
            told = await self._teller.ask("take", call, reserved=reserved)
        except asyncio.CancelledError:
            self.release(reserved)
            raise
        if not told["covered"]:
            raise OverBudget
        return reserved

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """The run does it when the ledger tells it of the call."""

    def release(self, reserved: int) -> None:
        """Tell that the call has ended."""
        self._teller.tell({"kind": "release", "reserved": reserved})
