"""The path of every model call: stored replies, identical calls in flight, the budget, limits, retries, the adapter.

A port of the run (`karenina_engine.calls.port_factory`) describes a request as a `Call` and passes it to
`CallRunner.make`. Everything that a run adds to a call is here, once, for every port and every adapter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from karenina_core.models.ports import AgentReply, LLMReply, ParserReply, PortError, Turn, Usage
from karenina_engine.calls.call import BudgetGuard, Call, CallCounts, CallLedger, CallListener, CallOutcome, ReplyStore
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits, is_refusal
from karenina_engine.calls.in_flight import CallInFlight
from karenina_engine.calls.reply_json import copy_error
from karenina_engine.calls.retry import RetryPolicy

R = TypeVar("R", LLMReply, ParserReply, AgentReply, Turn)


@dataclass(slots=True)
class CallRunner:
    """Makes calls. `reply_store` is None if nothing is kept, `ledger` and `budget` if nothing counts the money."""

    limits: ConcurrencyLimits
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    reply_store: ReplyStore | None = None
    tally: CallCounts = field(default_factory=CallCounts)
    ledger: CallLedger | None = None
    budget: BudgetGuard | None = None
    storing: int = 0
    consulting: int = 0
    observers: CallListener | None = None
    _in_flight: dict[bytes, CallInFlight] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Calls that a model or a service is answering, and replies that are not yet kept."""
        return self.answering() + self.storing

    def take_counts(self) -> CallCounts:
        """Return the counts so far, and begin new ones."""
        taken, self.tally = self.tally, CallCounts()
        return taken

    def answering(self) -> int:
        """Calls that a model or a service is answering."""
        return self.limits.held + self.consulting

    async def make(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """The reply to `call`: kept from earlier, or what `ask` brings.

        `ask` is one request, which may be made several times. Where the same call is under way, its reply serves both.
        Raises `PortError` where all tries failed.
        """
        reply_store = self.reply_store
        if reply_store is None:
            return await self._made(call, ask)
        while (other := self._in_flight.get(call.key)) is not None:
            await other.wait()
            if other.made is not None:
                shared: R = self._spared(call, other.made)
                return shared
            # Who made it was cancelled: now one of those who waited makes it.
        mine = self._in_flight[call.key] = CallInFlight()
        try:
            kept = await reply_store.find(call)
            if kept is not None:
                mine.made = kept
                found: R = self._spared(call, kept)
                return found
            try:
                try:
                    reply = await self._made(call, ask)
                except PortError as error:
                    await self._keep(reply_store, call, mine, CallOutcome(None, error, call.notes))
                    raise
                await self._keep(reply_store, call, mine, CallOutcome(reply, None, call.notes))
                return reply
            finally:
                if mine.made is None:
                    reply_store.leave(call)
        finally:
            del self._in_flight[call.key]
            mine.end()

    async def _keep(self, reply_store: ReplyStore, call: Call, mine: CallInFlight, made: CallOutcome) -> None:
        """Keep what became of the call, and then have it for those who wait."""
        self.storing += 1
        try:
            await reply_store.store(call, made)
        except PortError as error:
            mine.made = CallOutcome(None, error, call.notes)
            raise
        finally:
            self.storing -= 1
        mine.made = made

    def _made(self, call: Call, ask: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Make the call, and report it to the observers, if there are any."""
        observers = self.observers
        if observers is None or not observers.observes_calls:
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
            finished(CallOutcome(reply, error, call.notes))
        return reply

    async def _noted(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        """Make the call; what it took is added to what its stage has noted."""
        try:
            reply = await self._asked(call, ask)
        except PortError:
            self.tally.failed += not call.composite
            raise
        finally:
            if call.info.notes is not None:
                call.info.notes.add(call.notes)
        if call.is_model_call and not call.composite:
            self.tally.made += reply.usage.calls
            self.tally.used += reply.usage
        return reply

    def _asked(self, call: Call, ask: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Have the call go the way of its kind."""
        if call.composite:
            return ask()
        if not call.is_model_call:
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

    async def _covered(self, call: Call, ask: Callable[[], Awaitable[R]], budget: BudgetGuard) -> R:
        """Make the call when the budget covers it. Raises `OverBudget`."""
        reserved = await budget.reserve(call)
        try:
            return await self._ask(call, ask)
        finally:
            budget.release(reserved)

    def _count(self, call: Call, usage: Usage) -> None:
        """Count what a request has used, also one of an agent that failed on its way."""
        if self.ledger is not None:
            cost = self.ledger.record_call(call, usage)
            if self.budget is not None:
                self.budget.spend(call, usage, cost)

    async def _ask(self, call: Call, ask: Callable[[], Awaitable[R]]) -> R:
        notes = call.notes
        places = self.limits.limiter(call.endpoint.model)
        while True:
            place = places.acquire() or await places.wait(call.info.order)
            began = time.monotonic()
            try:
                reply = await ask()
            except PortError as error:
                if error.partial is not None:
                    self._count(call, error.partial.usage)
                if is_refusal(error):
                    places.on_overload(place, error.retry_after)
                else:
                    places.release()
                waiting = self.policy.next_delay(error, notes, places.seconds_refusing())
            except BaseException:
                places.release()
                raise
            else:
                places.on_success()
                notes.seconds = time.monotonic() - began
                self._count(call, reply.usage)
                return reply
            places.retrying += 1
            self.limits.changed()
            try:
                await asyncio.sleep(waiting)
            finally:
                places.retrying -= 1

    def _spared(self, call: Call, kept: CallOutcome) -> Any:
        """What was kept, as if the call had been made: the reply with its usage, or its error."""
        if call.info.notes is not None:
            call.info.notes.add(kept.notes)
        if kept.error is not None:
            raise copy_error(kept.error)
        assert kept.reply is not None
        if call.is_model_call and not call.composite:
            self.tally.cached += kept.reply.usage.calls
            self.tally.saved += kept.reply.usage
            if self.ledger is not None:
                self.ledger.record_cached(call, kept.reply.usage)
        return kept.reply
