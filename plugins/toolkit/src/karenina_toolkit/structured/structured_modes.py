"""Modes for structured output, and finding the best one that a server supports.

The modes are `json_schema` (the server enforces the schema), `tool` (a call to a tool that has the schema as its
parameters) and `prompt` (the schema is part of the prompt). A server rejects requests in a mode that it does not
support. A single call determines this for the whole run.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from karenina_core.models.ports import ErrorCategory, Message, PortError, StructuredMode
from karenina_toolkit.http.http_errors import HTTPStatusError

_STATUSES: Final = frozenset({400, 404, 422, 501})
_TOPICS: Final[dict[StructuredMode, re.Pattern[str]]] = {
    "json_schema": re.compile(
        r"response[_ ](?:format|schema)|output_?(?:config|format)|structured[_ ]outputs?|json[_ ](?:schema|mode)"
        r"|\bschemas?\b|\bgrammars?\b|\bguided\b|requested parameters",
        re.IGNORECASE,
    ),
    "tool": re.compile(
        r"\btools?\b|tool_|\btool(?:config|choice)|\bfunctions?\b|function_|requested parameters", re.IGNORECASE
    ),
}
_REFUSING: Final = re.compile(
    r"support|(?:not|n't)(?: \w+)? (?:allowed|permitted|available|enabled|implemented|accepted|recogni[sz]ed|valid)"
    r"|no such|has no|unavailable|unimplemented|unknown|unrecogni[sz]ed|unexpected|forbidden|disabled|invalid"
    r"|\brequires?\b|must be|should be|extra (?:inputs?|fields?)|type mismatch"  # the last one is of Cloudflare
    r"|no endpoints found that can handle the requested parameters",  # OpenRouter
    re.IGNORECASE,
)
# Messages about this schema, not about the mode. They need not name tools, for which servers use grammars, too.
_OF_THE_SCHEMA: Final = re.compile(
    r"invalid (?:\w+ )?schema|schema (?:is|was) (?:invalid|not valid|too)|input_schema|additionalproperties"
    r"|(?:pars|compil|convert|transform)\w* (?:\w+ ){0,3}(?:grammar|schema)|too complex"
    r"|too many (?:\w+ )?(?:properties|states|parameters)|grammar is too large"  # the last one is of Anthropic
    r"|schema .{0,60}maximum allowed nesting depth"  # Google
    r"|schema contains \w+ (?:that are )?not supported|unimplemented keys",  # vLLM with xgrammar, llguidance
    re.IGNORECASE,
)
# Messages about the length of a request may mention its tools, too.
_OF_THE_LENGTH: Final = re.compile(
    r"context[_ ](?:length|window|size)|(?<!grammar is )too (?:long|large)|maximum .{0,40}tokens|token limit",
    re.IGNORECASE,
)


class Refusal(Enum):
    """What a server rejected: the mode, or only the given schema in that mode."""

    MODE = "mode"
    SCHEMA = "schema"


def classify_refusal(error: HTTPStatusError, mode: StructuredMode) -> Refusal | None:
    """Return whether the server rejected the mode or the schema, or None for other errors, after which no other mode is
    tried. The status must be 400, 404, 422 or 501, and the message must say that the feature is not supported.
    """
    topic = _TOPICS.get(mode)
    message = error.server_text
    if topic is None or error.status not in _STATUSES or _OF_THE_LENGTH.search(message):
        return None
    if error.category is ErrorCategory.FILTERED:
        return None
    is_named = topic.search(message) is not None
    if _OF_THE_SCHEMA.search(message) and (is_named or _TOPICS["json_schema"].search(message)):
        return Refusal.SCHEMA
    return Refusal.MODE if is_named and _REFUSING.search(message) else None


T = TypeVar("T")

MODES: Final[tuple[StructuredMode, ...]] = ("json_schema", "tool", "prompt")
"""All modes, starting with the best one."""

PATIENCE: Final = 0.2
"""The maximum number of seconds to wait for the call that tests a mode.

Servers reject requests quickly, so a server that has not answered by then has probably accepted the mode. If it has
not, every call in flight is rejected once, which costs no tokens.
"""


class ModeUnsupported(PortError):
    """Raised by an adapter whose library does not support a mode. The next mode is then tried."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


async def with_best_mode(
    server: Hashable,
    modes: Sequence[StructuredMode],
    schema: Mapping[str, Any],
    ask: Callable[[StructuredMode], Awaitable[T]],
) -> tuple[T, StructuredMode]:
    """Call `ask` in the first of the `modes` that the server is not known to reject, or in the next ones if it rejects
    that too, and return its result and the mode. Rejections are remembered for as long as the event loop runs, which is
    one run. Raises a request's `PortError` if the error does not concern the mode, or if there are no modes left.

    `server` identifies the server and model. Concurrent calls wait a short time for the first one, so that they do not
    try a mode that will fail.

    If a server rejects only this schema, or has accepted the mode with another schema, the rejection only applies to
    this schema. If a call fails permanently in all remaining modes, its rejections are forgotten.
    """
    memory = _modes_of(server)
    shape = _SchemaKey(schema)
    learned: list[Callable[[], None]] = []
    while True:
        mode = next((candidate for candidate in modes if not memory.refuses(candidate, shape)), modes[-1])
        last = mode == modes[-1]
        test = None if last or mode in memory.accepted else await memory.start_test(mode, shape)
        try:
            if memory.refuses(mode, shape) and not last:
                continue
            try:
                result = await ask(mode)
            except (HTTPStatusError, ModeUnsupported) as error:
                refusal = Refusal.MODE if isinstance(error, ModeUnsupported) else classify_refusal(error, mode)
                if last or refusal is None:
                    if not error.retriable and not memory.accepted:
                        for forget in learned:
                            forget()
                    raise
                learned.append(memory.learn(mode, refusal, shape))
            else:
                memory.accepted.add(mode)
                return result, mode
        finally:
            if test is not None:
                memory.end_test(mode, test)


def append_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Return the messages with the schema at the end of the system message, for the mode `prompt`. If the first message
    is not a system message, one is added.
    """
    order = (
        "Reply with one JSON object that fits this JSON Schema, and with nothing else:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message.system(f"{messages[0].content}\n\n{order}"), *messages[1:]]
    return [Message.system(order), *messages]


class _SchemaKey:
    """A schema, identified by a hash of its contents. The hash is only computed after a rejection."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._mark: int | None = None

    @property
    def mark(self) -> int:
        """The hash of the schema, computed on first use."""
        if self._mark is None:
            self._mark = hash(json.dumps(self._schema, sort_keys=True))
        return self._mark


@dataclass(slots=True)
class _ModeTest:
    """A call that tests a mode. Other calls wait for it until `give_up_at`, in event loop time."""

    give_up_at: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, patience: float) -> bool:
        """Wait until the test ends. Return False if `give_up_at` or `patience` is reached first. `patience` is a point
        in event loop time, not a number of seconds.
        """
        try:
            async with asyncio.timeout_at(min(self.give_up_at, patience)):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class _ServerModes:
    """The modes that a server has accepted and rejected for a model."""

    accepted: set[StructuredMode] = field(default_factory=set)
    refused: set[StructuredMode] = field(default_factory=set)
    schemas: dict[StructuredMode, set[int]] = field(default_factory=dict)
    tests: dict[StructuredMode, _ModeTest] = field(default_factory=dict)

    def refuses(self, mode: StructuredMode, shape: _SchemaKey) -> bool:
        """Return whether the server has rejected the mode, or the schema `shape` in that mode."""
        return mode in self.refused or (mode in self.schemas and shape.mark in self.schemas[mode])

    def learn(self, mode: StructuredMode, refusal: Refusal, shape: _SchemaKey) -> Callable[[], None]:
        """Remember a rejection, and return a function that forgets it. It only applies to the schema `shape` if that is
        what was refused, or if the server has accepted the mode before.
        """
        if refusal is Refusal.MODE and mode not in self.accepted:
            self.refused.add(mode)
            return lambda: self.refused.discard(mode)
        marks = self.schemas.setdefault(mode, set())
        marks.add(shape.mark)
        return lambda: marks.discard(shape.mark)

    async def start_test(self, mode: StructuredMode, shape: _SchemaKey) -> _ModeTest | None:
        """Return the test of a mode, to pass to `end_test`, if this call, with a schema of the given `shape`, has to
        make it, or None. One call at a time tests a mode. The others wait here until the result is known or they run
        out of time.
        """
        patience = asyncio.get_running_loop().time() + PATIENCE
        while not (mode in self.accepted or self.refuses(mode, shape)):
            if mode not in self.tests:
                test = self.tests[mode] = _ModeTest(asyncio.get_running_loop().time() + PATIENCE)
                return test
            if not await self.tests[mode].wait(patience):
                break
        return None

    def end_test(self, mode: StructuredMode, test: _ModeTest) -> None:
        """End the test of a mode, and wake the calls that wait for its result."""
        del self.tests[mode]
        test.ended.set()


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _ServerModes]] = WeakKeyDictionary()


def _modes_of(server: Hashable) -> _ServerModes:
    """Return the modes that a server has accepted and rejected in this run, as an object that all its callers share."""
    run = _runs.setdefault(asyncio.get_running_loop(), {})
    if server not in run:
        run[server] = _ServerModes()
    return run[server]
