"""How a judge is asked for JSON: what its server accepts is found out once in a run, by one call for all. For adapters.

The ways are `json_schema` (the server holds the model to the schema), `tool` (the call of a tool whose parameters are
the schema) and `prompt` (the schema stands in the words). A server that lacks one refuses the request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from karenina_core.models.ports import ErrorCategory, Message, PortError, StructuredWay
from karenina_toolkit.http_errors import HTTPFailure
from karenina_toolkit.structured.mode_refusals import Refused, refused

T = TypeVar("T")

WAYS: Final[tuple[StructuredWay, ...]] = ("json_schema", "tool", "prompt")
"""All ways, the best one first."""

PATIENCE: Final = 0.2
"""Seconds that calls wait at most for the one that finds out whether a way is accepted, counted from its beginning:
servers refuse within moments, and one that says nothing for longer has most likely begun to answer. Where that was
wrong, as many calls as are under way are refused once; that costs no tokens."""


class WayMissing(PortError):
    """Raised by an adapter whose library cannot ask in this way at all: the next one is tried, as after a refusal."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


async def by_best_way(
    server: Hashable,
    ways: Sequence[StructuredWay],
    schema: Mapping[str, Any],
    ask: Callable[[StructuredWay], Awaitable[T]],
) -> tuple[T, StructuredWay]:
    """What `ask` brings in the first of `ways` that the server takes, and that way. Raises `PortError`.

    `server` names the server and the model there. What it refused is remembered as long as this event loop lives, so
    for one run: calls that come at the same time wait for the first, and none asks in a way that is known to fail. A
    refusal of one schema is remembered for this schema only, and so is any refusal by a server that took this way with
    another schema. A call that fails for good in all ways that are left has taught nothing.
    """
    known = _known(server)
    shape = _Shape(schema)
    learned: list[Callable[[], None]] = []
    while True:
        way = next((one for one in ways if not known.refuses(one, shape)), ways[-1])
        last = way == ways[-1]
        async with nullcontext() if last or way in known.accepted else known.turn(way, shape):
            if known.refuses(way, shape) and not last:
                continue
            try:
                found = await ask(way)
            except (HTTPFailure, WayMissing) as error:
                what = Refused.WAY if isinstance(error, WayMissing) else refused(error, way)
                if last or what is None:
                    if not error.retriable and not known.accepted:
                        for forget in learned:
                            forget()
                    raise
                learned.append(known.learn(way, what, shape))
            else:
                known.accepted.add(way)
                return found, way


def with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """`messages` for the way `prompt`: the order to fit `schema` stands at the end of the system message."""
    order = (
        "Reply with one JSON object that fits this JSON Schema, and with nothing else:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message.system(f"{messages[0].content}\n\n{order}"), *messages[1:]]
    return [Message.system(order), *messages]


class _Shape:
    """A schema, told from others by its content; that is looked at only where a schema was refused."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._mark: int | None = None

    @property
    def mark(self) -> int:
        if self._mark is None:
            self._mark = hash(json.dumps(self._schema, sort_keys=True))
        return self._mark


@dataclass(slots=True)
class _Asking:
    """A call that finds out about a way; until `silent`, a time of the loop, others wait for what it is told."""

    silent: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def over(self, patience: float) -> bool:
        """Wait until it has ended; whether it has, before it took too long or the waiting call's `patience` ended."""
        try:
            async with asyncio.timeout_at(min(self.silent, patience)):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class _Known:
    """What is known of one server and model."""

    accepted: set[StructuredWay] = field(default_factory=set)
    refused: set[StructuredWay] = field(default_factory=set)
    schemas: dict[StructuredWay, set[int]] = field(default_factory=dict)
    asking: dict[StructuredWay, _Asking] = field(default_factory=dict)

    def refuses(self, way: StructuredWay, shape: _Shape) -> bool:
        return way in self.refused or (way in self.schemas and shape.mark in self.schemas[way])

    def learn(self, way: StructuredWay, what: Refused, shape: _Shape) -> Callable[[], None]:
        """Remember a refusal; what is returned forgets it."""
        if what is Refused.WAY and way not in self.accepted:
            self.refused.add(way)
            return lambda: self.refused.discard(way)
        marks = self.schemas.setdefault(way, set())
        marks.add(shape.mark)
        return lambda: marks.discard(shape.mark)

    @asynccontextmanager
    async def turn(self, way: StructuredWay, shape: _Shape) -> AsyncIterator[None]:
        """The turn to find out about a way: one call has it at a time, until it is known or calls lose patience."""
        own: _Asking | None = None
        patience = asyncio.get_running_loop().time() + PATIENCE
        while not (way in self.accepted or self.refuses(way, shape)):
            if way not in self.asking:
                own = self.asking[way] = _Asking(asyncio.get_running_loop().time() + PATIENCE)
                break
            if not await self.asking[way].over(patience):
                break
        try:
            yield
        finally:
            if own is not None:
                del self.asking[way]
                own.ended.set()


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Known]] = WeakKeyDictionary()


def _known(server: Hashable) -> _Known:
    run = _runs.setdefault(asyncio.get_running_loop(), {})
    if server not in run:
        run[server] = _Known()
    return run[server]
