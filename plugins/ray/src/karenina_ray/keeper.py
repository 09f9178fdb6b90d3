"""How a worker asks the journal, which the run has: a question or a reply is told, and the answer waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from karenina_core.run.calls import Call, Made
from karenina_ray import wire
from karenina_ray.wire import Told

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig


class FarJournal:
    """The journal of the run as the calls of a worker see it. `tell` sends a message to the run."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._models: dict[int, tuple[int, ModelConfig]] = {}

    async def find(self, call: Call) -> Made | None:
        """What the run has of such a call. None makes this worker the one that makes it: others wait for it."""
        try:
            told = await self._ask("find", call, {})
        except asyncio.CancelledError:
            self.leave(call)
            raise
        return wire.made_of(told["made"], call.target.port) if told["made"] is not None else None

    async def store(self, call: Call, made: Made) -> None:
        """Keep what became of a call: when this returns it is in the file of the run."""
        await self._ask("store", call, {"made": wire.made_told(made)})

    def leave(self, call: Call) -> None:
        """Let somebody else make the call."""
        self._tell({"kind": "leave", "key": call.key.hex()})

    def answered(self, told: Told) -> None:
        """Take the run's answer."""
        future = self._waiting.get(told["number"])
        if future is not None and not future.done():
            future.set_result(told)

    async def _ask(self, kind: str, call: Call, more: Told) -> Told:
        number = next(self._numbers)
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._tell({"kind": kind, "number": number, **wire.call_told(call, self._model(call.target.model)), **more})
        try:
            return await future
        finally:
            del self._waiting[number]

    def _model(self, model: ModelConfig) -> int:
        """The number of a model, which is told once."""
        known = self._models.get(id(model))
        if known is None:
            known = self._models[id(model)] = len(self._models), model
            self._tell({"kind": "model", "model": known[0], "config": wire.plain(model)})
        return known[0]
