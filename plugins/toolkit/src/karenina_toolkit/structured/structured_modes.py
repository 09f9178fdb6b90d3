"""How a judge is asked for JSON: what its server accepts is found out once in a run, by one call for all. For adapters.

The modes are `json_schema` (the server holds the model to the schema), `tool` (the call of a tool whose parameters are
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

from karenina_core.models.ports import ErrorCategory, Message, PortError, StructuredMode
from karenina_toolkit.http_errors import HTTPStatusError
from karenina_toolkit.structured.mode_refusals import Refusal, classify_refusal

T = TypeVar("T")

MODES: Final[tuple[StructuredMode, ...]] = ("json_schema", "tool", "prompt")
"""All modes, the best one first."""

PATIENCE: Final = 0.2
"""Seconds that calls wait at most for the one that finds out whether a mode is accepted, counted from its beginning:
servers refuse within moments, and one that says nothing for longer has most likely begun to answer. Where that was
wrong, as many calls as are under mode are refused once; that costs no tokens."""


class ModeUnsupported(PortError):
    """Raised by an adapter whose library cannot ask in this mode at all: the next one is tried, as after a refusal."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


async def with_best_mode(
    server: Hashable,
    modes: Sequence[StructuredMode],
    schema: Mapping[str, Any],
    ask: Callable[[StructuredMode], Awaitable[T]],
) -> tuple[T, StructuredMode]:
    """What `ask` brings in the first of `modes` that the server takes, and that mode. Raises `PortError`.

    `server` names the server and the model there. What it refused is remembered as long as this event loop lives, so
    for one run: calls that come at the same time wait for the first, and none asks in a mode that is known to fail. A
    refusal of one schema is remembered for this schema only, and so is any refusal by a server that took this mode with
    another schema. A call that fails for good in all modes that are left has taught nothing.
    """
    known = _known(server)
    shape = _Shape(schema)
    learned: list[Callable[[], None]] = []
    while True:
        mode = next((one for one in modes if not known.refuses(one, shape)), modes[-1])
        last = mode == modes[-1]
        async with nullcontext() if last or mode in known.accepted else known.turn(mode, shape):
            if known.refuses(mode, shape) and not last:
                continue
            try:
                found = await ask(mode)
            except (HTTPStatusError, ModeUnsupported) as error:
                what = Refusal.MODE if isinstance(error, ModeUnsupported) else classify_refusal(error, mode)
                if last or what is None:
                    if not error.retriable and not known.accepted:
                        for forget in learned:
                            forget()
                    raise
                learned.append(known.learn(mode, what, shape))
            else:
                known.accepted.add(mode)
                return found, mode


def append_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """`messages` for the mode `prompt`: the order to fit `schema` stands at the end of the system message."""
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
    """A call that finds out about a mode; until `silent`, a time of the loop, others wait for what it is told."""

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

    accepted: set[StructuredMode] = field(default_factory=set)
    refused: set[StructuredMode] = field(default_factory=set)
    schemas: dict[StructuredMode, set[int]] = field(default_factory=dict)
    asking: dict[StructuredMode, _Asking] = field(default_factory=dict)

    def refuses(self, mode: StructuredMode, shape: _Shape) -> bool:
        return mode in self.refused or (mode in self.schemas and shape.mark in self.schemas[mode])

    def learn(self, mode: StructuredMode, what: Refusal, shape: _Shape) -> Callable[[], None]:
        """Remember a refusal; what is returned forgets it."""
        if what is Refusal.MODE and mode not in self.accepted:
            self.refused.add(mode)
            return lambda: self.refused.discard(mode)
        marks = self.schemas.setdefault(mode, set())
        marks.add(shape.mark)
        return lambda: marks.discard(shape.mark)

    @asynccontextmanager
    async def turn(self, mode: StructuredMode, shape: _Shape) -> AsyncIterator[None]:
        """The turn to find out about a mode: one call has it at a time, until it is known or calls lose patience."""
        own: _Asking | None = None
        patience = asyncio.get_running_loop().time() + PATIENCE
        while not (mode in self.accepted or self.refuses(mode, shape)):
            if mode not in self.asking:
                own = self.asking[mode] = _Asking(asyncio.get_running_loop().time() + PATIENCE)
                break
            if not await self.asking[mode].over(patience):
                break
        try:
            yield
        finally:
            if own is not None:
                del self.asking[mode]
                own.ended.set()


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Known]] = WeakKeyDictionary()


def _known(server: Hashable) -> _Known:
    run = _runs.setdefault(asyncio.get_running_loop(), {})
    if server not in run:
        run[server] = _Known()
    return run[server]
