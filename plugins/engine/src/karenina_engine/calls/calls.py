"""The one way of every call of a model: kept replies, places, retries, and then the adapter.

Ports know none of this. A port of the run (`karenina_engine.calls.ports`) describes what it is about to ask as a `Call`
and hands it to `Calls.make`, and whatever a run adds to a call stands here, once, for every port and every adapter.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from karenina_core.models.ports import (
    AgentReply,
    CallInfo,
    CallNotes,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    Turn,
    Usage,
)
from karenina_engine.calls.bulk import Bulk, bulk_of
from karenina_engine.calls.limits import Limits, refuses
from karenina_engine.calls.replies import Reply, as_bytes, same_error
from karenina_engine.calls.retry import RetryPolicy

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig

PortKind = Literal["llm", "parser", "agent", "turn", "service"]
R = TypeVar("R", LLMReply, ParserReply, AgentReply, Turn)


@dataclass(frozen=True)
class Target:
    """What is called: a model through one port of an adapter, or a service that is no model (the port `service`).

    `adapter` is its interface and version; `identity` are all parameters that may change a reply, as JSON values,
    without secrets. `by_item` says that the reply depends on the question and replicate that it is for, and not only on
    what is sent (recordings are looked up so). `spec` is what the adapter declares. Made once for each model and port.
    """

    port: PortKind
    model: ModelConfig
    adapter: str
    identity: Mapping[str, Any]
    by_item: bool = False
    spec: AdapterSpec | None = None
    noted: bytes | None = None

    @cached_property
    def digest(self) -> bytes:
        """A digest of all of it."""
        if self.noted is not None:
            return self.noted
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass(frozen=True)
class Call:
    """One call that is about to be made.

    `asked` is what else decides the reply, as JSON values: the schema, or an agent's tools and bounds. `messages` are
    what the model is sent; of a turn, those that the agent was given and its trace so far. `notes` say what the reply
    took; they are complete when the reply is stored. `lasting` says whether the reply is all that the call leaves
    behind; where it also leaves files that somebody reads, the reply alone is not taken from a journal to go on with.
    `parts` says that it consists of calls that come this way themselves, such as an agent's turns, so that the whole is
    neither limited nor repeated nor counted.
    """

    target: Target
    messages: Sequence[Message]
    info: CallInfo
    asked: Any = None
    notes: CallNotes = field(default_factory=CallNotes, compare=False)
    lasting: bool = True
    parts: bool = False

    @property
    def of_model(self) -> bool:
        """Whether a model is asked: else nobody's places, tokens or prices are concerned."""
        return self.target.port != "service"

    @cached_property
    def key(self) -> bytes:
        """SHA-256 of target, messages, what else was asked, the replicate and the sample.

        Two calls with the same key would be answered alike, so that the reply to one serves the other.
        """
        info = self.info
        parts: list[Any] = [[message.to_dict() for message in self.messages], self.asked, info.replicate, info.sample]
        if self.target.by_item:
            parts += [info.question_id, info.question, info.task]
        return hashlib.sha256(self.target.digest + as_bytes(parts, str)).digest()

    @cached_property
    def bulk(self) -> Bulk:
        """How much is sent, by which a budget knows what it may cost."""
        return bulk_of(self.messages, self.asked, is_agent=self.target.port == "agent")

    def as_noted(self, target: bytes) -> Call:
        """Return the call with the key that it has if its target has this digest."""
        return replace(self, target=replace(self.target, noted=target))


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a call: a `reply`, or the `error` that its last try ended in, and what it took.

    One that was cut off has neither; such a one is told to observers, and never kept.
    """

    reply: Reply | None
    error: PortError | None
    notes: CallNotes


class CallRecord(Protocol):
    """What stores, ledgers and budgets use of a call: all but what is sent. A `Call`, or one of another process."""

    @property
    def target(self) -> Target:
        """What is called."""

    @property
    def info(self) -> CallInfo:
        """What the call is for."""

    @property
    def key(self) -> bytes:
        """The key under which the reply is stored."""

    @property
    def bulk(self) -> Bulk:
        """How much is sent."""

    @property
    def lasting(self) -> bool:
        """Whether the reply is all that the call leaves behind."""

    @property
    def parts(self) -> bool:
        """Whether the call consists of others that are recorded themselves."""

    @property
    def of_model(self) -> bool:
        """Whether a model is called, and not a service."""

    def as_noted(self, target: bytes) -> CallRecord:
        """Return the call with the key that it has if its target has this digest."""


class ReplyStore(Protocol):
    """Where replies are kept, so that no finished call is made twice."""

    async def find(self, call: CallRecord) -> Made | None:
        """What was kept of such a call, or None where it is to be made: then `store` or `leave` follows.

        Raises `PortError` where no call may be made and none was kept.
        """

    def store(self, call: CallRecord, made: Made) -> Awaitable[None]:
        """Keep what became of a call. When the awaitable returns it is safe, whatever happens to the process.

        Awaiting it raises `PortError` for a reply that cannot be kept.
        """

    def leave(self, call: CallRecord) -> None:
        """Be told that a call that was not found is not made after all, or that nothing could be kept of it."""


class Purse(Protocol):
    """What calls are paid from: `karenina_engine.cost.budget.Budget`, or the way to it from another process."""

    async def take(self, call: CallRecord) -> int:
        """Reserve the most that the call may cost; what is returned is given back to `release`. Raises `OverBudget`."""

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count what a call did cost; None where that is not known."""

    def release(self, reserved: int) -> None:
        """Give back what `take` has reserved, after what the call did cost was counted."""


class CallListener(Protocol):
    """What each call of a run is reported to: `karenina_engine.scheduling.observers.Observers`."""

    of_calls: bool
    """Whether calls are reported at all."""

    def call_started(self, call: Call) -> Callable[[Made], None]:
        """Report that a call begins. What is returned reports what became of it."""


class CallLedger(Protocol):
    """What counts the usage of calls: `karenina_engine.cost.ledger.Ledger`."""

    def made(self, call: CallRecord, usage: Usage) -> int | None:
        """Count a call that was made, and return its cost in picodollars; None if it is not known."""

    def kept(self, call: CallRecord, usage: Usage) -> None:
        """Count a reply that was kept."""


@dataclass(slots=True)
class Tally:
    """How many calls a run has made now, how many replies it had kept or shared, and what both used."""

    made: int = 0
    kept: int = 0
    failed: int = 0
    used: Usage = field(default_factory=Usage)
    spared: Usage = field(default_factory=Usage)

    def add(self, other: Tally) -> None:
        """Add the counts of `other`."""
        self.made += other.made
        self.kept += other.kept
        self.failed += other.failed
        self.used += other.used
        self.spared += other.spared


@dataclass(slots=True)
class _UnderWay:
    """A call that somebody makes, and that others with the same wait for. `made` stays None where it was cancelled."""

    ended: asyncio.Event | None = None  # most have nobody who waits
    made: Made | None = None

    async def wait(self) -> None:
        """Return when the call has ended."""
        if self.ended is None:
            self.ended = asyncio.Event()
        await self.ended.wait()

    def end(self) -> None:
        """Wake those who wait."""
        if self.ended is not None:
            self.ended.set()


@dataclass(slots=True)
class Calls:
    """Makes calls. `keeper` is None if nothing is kept, `ledger` and `budget` if nothing counts the money."""

    limits: Limits
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    keeper: ReplyStore | None = None
    tally: Tally = field(default_factory=Tally)
    ledger: CallLedger | None = None
    budget: Purse | None = None
    storing: int = 0
    consulting: int = 0
    observers: CallListener | None = None
    _under_way: dict[bytes, _UnderWay] = field(default_factory=dict)

    @property
    def under_way(self) -> int:
        """Calls that a model or a service is answering, and replies that are not yet kept."""
        return self.answering() + self.storing

    def take_tally(self) -> Tally:
        """Return the counts so far, and begin new ones."""
        taken, self.tally = self.tally, Tally()
        return taken

    def answering(self) -> int:
        """Calls that a model or a service is answering."""
        return self.limits.held + self.consulting

    async def make(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """The reply to `call`: kept from earlier, or what `ask` brings.

        `ask` is one request, which may be made several times. Where the same call is under way, its reply serves both.
        Raises `PortError` where all tries failed.
        """
        keeper = self.keeper
        if keeper is None:
            return await self._made(call, ask)
        while (other := self._under_way.get(call.key)) is not None:
            await other.wait()
            if other.made is not None:
                shared: R = self._spared(call, other.made)
                return shared
            # Who made it was cancelled: now one of those who waited makes it.
        mine = self._under_way[call.key] = _UnderWay()
        try:
            kept = await keeper.find(call)
            if kept is not None:
                mine.made = kept
                found: R = self._spared(call, kept)
                return found
            try:
                try:
                    reply = await self._made(call, ask)
                except PortError as error:
                    await self._keep(keeper, call, mine, Made(None, error, call.notes))
                    raise
                await self._keep(keeper, call, mine, Made(reply, None, call.notes))
                return reply
            finally:
                if mine.made is None:
                    keeper.leave(call)
        finally:
            del self._under_way[call.key]
            mine.end()

    async def _keep(self, keeper: ReplyStore, call: Call, mine: _UnderWay, made: Made) -> None:
        """Keep what became of the call, and then have it for those who wait."""
        self.storing += 1
        try:
            await keeper.store(call, made)
        except PortError as error:
            mine.made = Made(None, error, call.notes)
            raise
        finally:
            self.storing -= 1
        mine.made = made

    def _made(self, call: Call, ask: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Make the call, and report it to the observers, if there are any."""
        observers = self.observers
        if observers is None or not observers.of_calls:
            return self._noted(call, ask)
        return self._observed(call, ask, observers)

    async def _observed(self, call: Call, ask: Callable[[], Awaitable[R]], observers: CallListener) -> R:
        """Make the call, and report it to the observers."""
        finished = observers.call_started(call)
        reply: R | None = None
        error: PortError | None = None
        try:
            reply = await self._noted(call, ask)
        except PortError as failure:
            error = failure
            raise
        finally:
            finished(Made(reply, error, call.notes))
        return reply

    async def _noted(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """Make the call; what it took is added to what its stage has noted."""
        try:
            reply = await self._asked(call, ask)
        except PortError:
            self.tally.failed += not call.parts
            raise
        finally:
            if call.info.notes is not None:
                call.info.notes.add(call.notes)
        if call.of_model and not call.parts:
            self.tally.made += reply.usage.calls
            self.tally.used += reply.usage
        return reply

    def _asked(self, call: Call, ask: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Have the call go the way of its kind."""
        if call.parts:
            return ask()
        if not call.of_model:
            return self._consulted(call, ask)
        return self._ask(call, ask) if self.budget is None else self._covered(call, ask, self.budget)

    async def _consulted(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask a service, as often as the retries allow."""
        self.consulting += 1
        began = time.monotonic()
        try:
            return await self.policy.call(ask, call.notes)
        finally:
            self.consulting -= 1
            call.notes.seconds = time.monotonic() - began - call.notes.waited

    async def _covered(self, call: Call, ask: Callable[[], Awaitable[R]], budget: Purse) -> R:
        """Make the call when the budget covers it. Raises `OverBudget`."""
        reserved = await budget.take(call)
        try:
            return await self._ask(call, ask)
        finally:
            budget.release(reserved)

    def _count(self, call: Call, usage: Usage) -> None:
        """Count what a request has used, also one of an agent that failed on its way."""
        if self.ledger is not None:
            cost = self.ledger.made(call, usage)
            if self.budget is not None:
                self.budget.spend(call, usage, cost)

    async def _ask(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        notes = call.notes
        places = self.limits.of(call.target.model)
        while True:
            place = places.take() or await places.wait(call.info.order)
            began = time.monotonic()
            try:
                reply = await ask()
            except PortError as error:
                if error.partial is not None:
                    self._count(call, error.partial.usage)
                if refuses(error):
                    places.refused(place, error.retry_after)
                else:
                    places.left()
                waiting = self.policy.waiting(error, notes, places.refusing())
            except BaseException:
                places.left()
                raise
            else:
                places.replied()
                notes.seconds = time.monotonic() - began
                self._count(call, reply.usage)
                return reply
            places.retrying += 1
            self.limits.changed()
            try:
                await asyncio.sleep(waiting)
            finally:
                places.retrying -= 1

    def _spared(self, call: Call, kept: Made) -> Any:
        """What was kept, as if the call had been made: the reply with its usage, or its error."""
        if call.info.notes is not None:
            call.info.notes.add(kept.notes)
        if kept.error is not None:
            raise same_error(kept.error)
        assert kept.reply is not None
        if call.of_model and not call.parts:
            self.tally.kept += kept.reply.usage.calls
            self.tally.spared += kept.reply.usage
            if self.ledger is not None:
                self.ledger.kept(call, kept.reply.usage)
        return kept.reply
