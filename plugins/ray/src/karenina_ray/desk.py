"""The journal's desk: what the workers want to know and keep. One call is made by one of them, and others wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karenina_ray import wire
from karenina_ray.wire import Told

if TYPE_CHECKING:
    from karenina_core.run.calls import Keeper, Made
    from karenina_core.run.journal import Journal
    from karenina_ray.hand import Hand

Tell = Callable[["Hand", Told], None]


@dataclass(slots=True)
class _Made:
    """A call that `maker` makes now, and those who wait for what becomes of it, by the numbers of their questions."""

    maker: Hand
    waiting: deque[tuple[Hand, int]] = field(default_factory=deque)


class Desk:
    """Answers the workers out of the one journal. `tell` sends a message to a worker."""

    def __init__(self, journal: Journal, tell: Tell) -> None:
        self._journal: Keeper = journal
        self._tell = tell
        self._under_way: dict[str, _Made] = {}

    async def find(self, hand: Hand, told: Told) -> None:
        """A worker wants to make a call: it gets what is kept of it, or makes it, or waits for another who does."""
        key, number = told["key"], told["number"]
        other = self._under_way.get(key)
        if other is not None:
            other.waiting.append((hand, number))
            return
        mine = self._under_way[key] = _Made(hand)
        try:
            kept = await self._journal.find(wire.call_of(told, hand.models[told["model"]]))
        except BaseException:
            self._under_way.pop(key, None)
            raise
        if kept is None:
            self._answer(hand, number, None)
        else:
            self._answer(hand, number, kept)
            self._end(key, mine, kept)

    async def store(self, hand: Hand, told: Told) -> None:
        """A worker has made a call. When it hears so, what became of it is in the file."""
        made = wire.made_of(told["made"], told["port"])
        await self._journal.store(wire.call_of(told, hand.models[told["model"]]), made)
        self._tell(hand, {"kind": "stored", "number": told["number"]})
        one = self._under_way.get(told["key"])
        if one is not None:
            self._end(told["key"], one, made)

    def leave(self, hand: Hand, key: str) -> None:
        """A worker does not make a call after all: the first of those who wait for it does."""
        one = self._under_way.get(key)
        if one is None or one.maker is not hand:
            return
        while one.waiting:
            other, number = one.waiting.popleft()
            if other.alive:
                one.maker = other
                self._answer(other, number, None)
                return
        del self._under_way[key]

    def gone(self, hand: Hand) -> None:
        """A worker has died: others make what it was making."""
        for key in [key for key, one in self._under_way.items() if one.maker is hand]:
            self.leave(hand, key)

    def _end(self, key: str, one: _Made, made: Made) -> None:
        if self._under_way.get(key) is one:
            del self._under_way[key]
        for hand, number in one.waiting:
            self._answer(hand, number, made)

    def _answer(self, hand: Hand, number: int, made: Made | None) -> None:
        self._tell(
            hand, {"kind": "found", "number": number, "made": wire.made_told(made) if made is not None else None}
        )
