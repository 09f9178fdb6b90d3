"""The one way of every call of a model: kept replies, places, retries, and then the adapter.

Ports know none of this. A port of the run (`karenina_core.run.ports`) describes what it is about to ask as a `Call` and
hands it to `Calls.make`, and whatever a run adds to a call stands here, once, for every port and every adapter.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from karenina_core.ports import AgentReply, CallInfo, CallNotes, LLMReply, Message, ParserReply, Turn
from karenina_core.run.retry import RetryPolicy

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig
    from karenina_core.run.limits import Limits

PortKind = Literal["llm", "parser", "agent", "turn"]
Reply = LLMReply | ParserReply | AgentReply | Turn
R = TypeVar("R", LLMReply, ParserReply, AgentReply, Turn)


@dataclass(frozen=True)
class Target:
    """What is called: a model through one port of an adapter.

    `adapter` is its interface and version; `identity` are all parameters that may change a reply, as JSON values,
    without secrets. Made once for each model and port.
    """

    port: PortKind
    model: ModelConfig
    adapter: str
    identity: Mapping[str, Any]

    @cached_property
    def digest(self) -> bytes:
        """A digest of all of it."""
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass(frozen=True)
class Call:
    """One call that is about to be made.

    `asked` is what else decides the reply, as JSON values: the schema, or an agent's tools and bounds. `messages` are
    what the model is sent; of a turn, those that the agent was given and its trace so far. `notes` say what the reply
    took; they are complete when the reply is stored.
    """

    target: Target
    messages: Sequence[Message]
    info: CallInfo
    asked: Any = None
    notes: CallNotes = field(default_factory=CallNotes, compare=False)

    @cached_property
    def key(self) -> str:
        """SHA-256 of target, messages, what else was asked, and the replicate, in hexadecimal digits.

        Two calls with the same key would be answered alike, so that the reply to one serves the other.
        """
        written = json.dumps(
            [[message.to_dict() for message in self.messages], self.asked, self.info.replicate], sort_keys=True
        )
        return hashlib.sha256(self.target.digest + written.encode("utf-8", "surrogatepass")).hexdigest()


class Keeper(Protocol):
    """Where replies are kept, so that no finished call is made twice."""

    def find(self, call: Call) -> Reply | None:
        """The reply that was kept for such a call, or None."""

    async def store(self, call: Call, reply: Reply) -> None:
        """Keep `reply`. When this returns it is safe, whatever happens to the process."""


@dataclass(slots=True)
class Calls:
    """Makes calls. `keeper` is None where nothing is kept."""

    limits: Limits
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    keeper: Keeper | None = None

    async def make(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """The reply to `call`: kept from earlier, or what `ask` brings.

        `ask` is one request, which may be made several times. Raises `PortError` where all of them failed.
        """
        if self.keeper is None:
            return await self._ask(call, ask)
        kept = self.keeper.find(call)
        if kept is None:
            reply: R = await self._ask(call, ask)
            await self.keeper.store(call, reply)
            return reply
        return kept  # type: ignore[return-value] # the key holds the port, and each port has one type of reply

    async def _ask(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        notes = call.notes

        async def once() -> R:
            async with self.limits.place(call.target.model):
                began = time.monotonic()
                reply = await ask()
                notes.seconds = time.monotonic() - began
                return reply

        try:
            return await self.policy.call(once, notes)
        finally:
            if call.info.notes is not None:
                call.info.notes.add(notes)
