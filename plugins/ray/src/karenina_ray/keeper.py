"""How a worker reaches what the run alone has: the journal, which is asked and waited for, and the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import astuple
from itertools import count
from typing import TYPE_CHECKING, Any

from karenina_core.run.calls import Call, Made
from karenina_core.run.ledger import Ledger
from karenina_ray import wire
from karenina_ray.wire import Told

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig
    from karenina_core.ports import Usage
    from karenina_core.run.pricing import Prices


class Teller:
    """Tells the run of calls. `tell` sends a message."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self.tell = tell
        self._models: dict[int, tuple[int, ModelConfig]] = {}

    def call(self, kind: str, call: Call, **more: Any) -> None:
        """A message of this kind about a call. Its model is told before, once."""
        model = call.target.model
        known = self._models.get(id(model))
        if known is None:
            known = self._models[id(model)] = len(self._models), model
            self.tell({"kind": "model", "model": known[0], "config": wire.plain(model)})
        self.tell({"kind": kind, **wire.call_told(call, known[0]), **more})


class FarLedger(Ledger):
    """The ledger of the run as a worker sees it: it tells what was used, and the run knows what that costs."""

    def __init__(self, prices: Prices, teller: Teller) -> None:
        super().__init__(prices)
        self._teller = teller

    def made(self, call: Call, usage: Usage) -> int | None:
        """Tell of a call that was made."""
        self._teller.call("made", call, usage=astuple(usage))
        return None

    def kept(self, call: Call, usage: Usage) -> None:
        """Tell of a reply that was kept."""
        self._teller.call("kept", call, usage=astuple(usage))


class FarJournal:
    """The journal of the run as the calls of a worker see it."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Told]] = {}

    async def find(self, call: Call) -> Made | None:
        """What the run has of such a call. None makes this worker the one that makes it: others wait for it."""
        try:
            told = await self._ask("find", call)
        except asyncio.CancelledError:
            self.leave(call)
            raise
        return wire.made_of(told["made"], call.target.port) if told["made"] is not None else None

    async def store(self, call: Call, made: Made) -> None:
        """Keep what became of a call: when this returns it is in the file of the run."""
        await self._ask("store", call, made=wire.made_told(made))

    def leave(self, call: Call) -> None:
        """Let somebody else make the call."""
        self._teller.tell({"kind": "leave", "key": call.key.hex()})

    def answered(self, told: Told) -> None:
        """Take the run's answer."""
        future = self._waiting.get(told["number"])
        if future is not None and not future.done():
            future.set_result(told)

    async def _ask(self, kind: str, call: Call, **more: Any) -> Told:
        number = next(self._numbers)
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._teller.call(kind, call, number=number, **more)
        try:
            return await future
        finally:
            del self._waiting[number]
