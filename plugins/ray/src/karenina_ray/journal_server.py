"""The journal's desk: what the workers want to know and keep. One call is made by one of them, and others wait."""

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

Tell = Callable[["WorkerHandle", Payload], None]
Go = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(slots=True)
class _Wanted:
    """A call that `maker` makes now, and those who wait for what becomes of it, by the numbers of their questions.

    Nobody is the maker while the journal is asked for it, or keeps it.
    """

    maker: WorkerHandle | None = None
    waiting: deque[tuple[WorkerHandle, int]] = field(default_factory=deque)


class JournalServer:
    """Answers the workers out of the one journal. `tell` sends a message to a worker, `go` starts what waits.

    What a worker says counts at once, in the order in which it says it: it may ask, leave and ask again in a breath.
    """

    def __init__(self, journal: ReplyStore, tell: Tell, go: Go) -> None:
        self._journal = journal
        self._tell = tell
        self._go = go
        self._under_way: dict[str, _Wanted] = {}

    def find(self, hand: WorkerHandle, told: Payload) -> None:
        """A worker wants to make a call: it gets what is kept of it, or makes it, or waits for another who does."""
        key = told["key"]
        one = self._under_way.get(key)
        if one is None:
            one = self._under_way[key] = _Wanted()
            self._go(self._find(key, one, serialization.call_of(told, hand.models[told["model"]])))
        one.waiting.append((hand, told["number"]))

    async def _find(self, key: str, one: _Wanted, call: CallRecord) -> None:
        kept = await self._journal.find(call)
        if kept is None:
            self._pass_on(key, one)
        else:
            self._end(key, one, kept)

    def store(self, hand: WorkerHandle, told: Payload) -> None:
        """A worker has made a call. When it hears so, what became of it is in the file."""
        one = self._under_way.get(told["key"])
        if one is not None and one.maker is hand:
            one.maker = None
        self._go(self._store(hand, told))

    async def _store(self, hand: WorkerHandle, told: Payload) -> None:
        made, stored = serialization.made_of(told["made"], told["port"]), {"kind": "stored", "number": told["number"]}
        try:
            await self._journal.store(serialization.call_of(told, hand.models[told["model"]]), made)
        except PortError as error:  # the journal cannot hold it: an error of the items that want this reply
            stored["error"] = dump_error(error)
            made = CallOutcome(None, error, made.notes)
        self._tell(hand, stored)
        one = self._under_way.get(told["key"])
        if one is not None:
            self._end(told["key"], one, made)

    def leave(self, hand: WorkerHandle, key: str) -> None:
        """A worker does not make a call after all: the first of those who wait for it does. Or it waits no longer."""
        one = self._under_way.get(key)
        if one is None:
            return
        if one.maker is hand:
            self._pass_on(key, one)
        else:
            one.waiting = deque(waiter for waiter in one.waiting if waiter[0] is not hand)

    def gone(self, hand: WorkerHandle) -> None:
        """A worker has died: others make what it was making."""
        for key, one in [(key, one) for key, one in self._under_way.items() if one.maker is hand]:
            self._pass_on(key, one)

    def _pass_on(self, key: str, one: _Wanted) -> None:
        """Have the first one who waits make the call, if there is one."""
        while one.waiting:
            hand, number = one.waiting.popleft()
            if hand.alive:
                one.maker = hand
                self._answer(hand, number, None)
                return
        if self._under_way.get(key) is one:
            del self._under_way[key]

    def _end(self, key: str, one: _Wanted, made: CallOutcome) -> None:
        if self._under_way.get(key) is one:
            del self._under_way[key]
        while one.waiting:
            self._answer(*one.waiting.popleft(), made)

    def _answer(self, hand: WorkerHandle, number: int, made: CallOutcome | None) -> None:
        told = serialization.made_told(made) if made is not None else None
        self._tell(hand, {"kind": "found", "number": number, "made": told})
