"""Making model calls with everything that a run adds: stored replies, limits, retries and the budget.

`karenina_engine.run.port_factory` turns a request into a `Call` and passes it to `CallRunner.make`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from karenina_core.models.ports import NO_USAGE, CallNotes, PortError, Usage
from karenina_engine.calls.attachment_memory import AttachmentMemory
from karenina_engine.calls.call import BudgetGuard, Call, CallCounts, CallLedger, CallListener, CallOutcome, ReplyStore
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits, ServerLimiter, is_refusal
from karenina_engine.calls.reply_json import Reply, copy_error
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.results.kept_files import add_call_files, collect_call_files
from karenina_toolkit.replies.reply_bounds import sanitize_usage
from karenina_toolkit.replies.reply_ends import NO_REASON
from karenina_toolkit.structured.reply_checks import wrote_nothing

logger = logging.getLogger("karenina")

_MOST_REASONS = 10
_MORE_REASONS = "(more)"
_LEAST_WAIT = 0.001
"""The shortest delay, in seconds, that counts as waiting."""

R = TypeVar("R", bound=Reply)


@dataclass(slots=True)
class _CallInFlight:
    """A call in flight that identical calls can wait for. If the call was cancelled, `outcome` is None."""

    ended: asyncio.Event | None = None  # created by the first call that waits; usually none does
    outcome: CallOutcome | None = None

    async def wait(self) -> None:
        """Wait until the call has ended."""
        if self.ended is None:
            self.ended = asyncio.Event()
        await self.ended.wait()

    def end(self) -> None:
        """Wake the calls that are waiting for this one."""
        if self.ended is not None:
            self.ended.set()


@dataclass(slots=True)
class CallRunner:
    """Makes the model calls of a run.

    Replies are only stored if there is a `reply_store`, and costs are only counted if there are both a `ledger` and a
    `budget`. `storing` is the number of replies that are being stored at the moment. `memory` limits the attachments in
    flight.
    """

    limits: ConcurrencyLimits
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    reply_store: ReplyStore | None = None
    tally: CallCounts = field(default_factory=CallCounts)
    ledger: CallLedger | None = None
    budget: BudgetGuard | None = None
    storing: int = 0
    observers: CallListener | None = None
    memory: AttachmentMemory = field(default_factory=AttachmentMemory)
    _in_flight: dict[bytes, _CallInFlight] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """The number of calls in flight plus the number of replies being stored."""
        return self.limits.answering + self.storing

    def take_counts(self) -> CallCounts:
        """Return the counts so far, and reset them. Unknown reasons that were warned of stay known."""
        taken = self.tally
        self.tally = CallCounts(unknown_ends=Counter(dict.fromkeys(taken.unknown_ends, 0)))
        return taken

    async def make(self, call: Call, send: Callable[[], Awaitable[R]]) -> R:
        """Make a call, or reuse the reply to an identical call, stored or in flight. Raises `PortError` if the call
        fails or its reply cannot be stored, and `OverBudget` if the budget does not cover the call.

        Without a reply store, replies are never reused, and the files that the call keeps are not collected for it. To
        make the call, `send` is called, more than once if there are retries. The notes also get the time during which
        at least one call was open.
        """
        notes = call.info.notes if call.info.notes is not None else CallNotes()
        if notes.open_calls == 0:
            notes.open_seconds -= time.monotonic()
        notes.open_calls += 1
        try:
            store = self.reply_store
            if store is not None:
                notes.keys.append(call.key.hex())
                if (stored := await self._find(call, store)) is not None:
                    _note_stored_key(notes, call, stored)
                    cached: R = self._from_cache(call, stored)
                    return cached
            outcome: CallOutcome | None = None
            began = time.monotonic()
            try:
                if store is None:
                    reply = await self._dispatch(call, send)
                else:
                    with collect_call_files() as collected:
                        reply = await self._dispatch(call, send)
                    outcome = CallOutcome(reply, None, call.notes, collected.files if collected is not None else ())
                self._count_reply(call, reply)
            except PortError as error:
                self.tally.failed += not call.composite
                outcome = CallOutcome(None, error, call.notes)
                raise
            finally:
                waiting = time.monotonic() - began - call.notes.seconds - call.notes.waited
                if waiting >= _LEAST_WAIT and not call.composite:  # the parts of a composite call count their own waits
                    call.notes.queued = waiting
                notes.add(call.notes)
                if store is not None:
                    await self._store(call, outcome, store)
                    if outcome is not None:
                        _note_stored_key(notes, call, outcome)
            return reply
        finally:
            notes.open_calls -= 1
            if notes.open_calls == 0:
                notes.open_seconds += time.monotonic()

    async def _find(self, call: Call, store: ReplyStore) -> CallOutcome | None:
        """Return the outcome of an identical call that is stored or in flight, waiting for it if necessary. If there is
        none, register this call as being in flight, which the caller must end, and return None.
        """
        while (other := self._in_flight.get(call.key)) is not None:
            await other.wait()
            if other.outcome is not None:
                return other.outcome
            # The other call was cancelled: the first of the waiting calls makes it instead.
        mine = self._in_flight[call.key] = _CallInFlight()
        to_be_made = False
        try:
            mine.outcome = await store.find(call)
            to_be_made = mine.outcome is None
        finally:
            if not to_be_made:
                self._end_flight(call)
        return mine.outcome

    async def _store(self, call: Call, outcome: CallOutcome | None, store: ReplyStore) -> None:
        """Store the outcome of a call and pass it on to the calls waiting for it. It is None if the call was cancelled.
        Raises `PortError` if the outcome cannot be stored.

        After a cancelled call, one of the waiting calls will be made instead.
        """
        mine = self._in_flight[call.key]
        self.storing += 1
        try:
            if outcome is not None:
                await store.store(call, outcome)
            mine.outcome = outcome
        except PortError as error:
            mine.outcome = CallOutcome(None, error, call.notes)
            raise
        finally:
            self.storing -= 1
            if mine.outcome is None:
                store.leave(call)
            self._end_flight(call)

    def _end_flight(self, call: Call) -> None:
        """Remove a call from the calls in flight, and wake the calls waiting for it."""
        self._in_flight.pop(call.key).end()

    def _dispatch(self, call: Call, send: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Return an awaitable that makes the call with `send`. Calls of models wait for the budget, if any, and for
        their server's limit; these and calls of services are retried. Composite calls are made as they are. All are
        reported to the observers.
        """
        if call.composite:
            making = send()
        elif not call.is_model_call:
            making = self._call_service(call, send)
        elif self.budget is None:
            making = self._attempt(call, send)
        else:
            making = self._within_budget(call, send, self.budget)
        observers = self.observers
        return making if observers is None or not observers.observes_calls else self._observe(call, making, observers)

    async def _observe(self, call: Call, making: Awaitable[R], observers: CallListener) -> R:
        """Await `making`, report the call's start and outcome to the observers, and return the reply or raise its
        error.
        """
        finished = observers.call_started(call)
        reply: R | None = None
        error: PortError | None = None
        try:
            reply = await making
        except PortError as failure:
            error = failure
            raise
        finally:
            finished(CallOutcome(reply, error, call.notes))
        return reply

    def _count_reply(self, call: Call, reply: Reply) -> None:
        """Add a model's reply to `tally`, unless the call was composite. Also notes if the server counted no output
        tokens, or if the reply ended for an unknown reason.
        """
        if call.is_model_call and not call.composite:
            call.notes.uncounted += reply.usage.calls > 0 and not reply.usage.output_tokens
            self.tally.made += reply.usage.calls
            self.tally.used += reply.usage
            if reply.server_reason is not None and reply.finish_reason == "other":
                self._count_unknown_end(call, reply.server_reason)

    def _count_unknown_end(self, call: Call, reason: str) -> None:
        """Count a reply that ended for an unknown reason. The first time a model gives a reason, a warning is logged.
        Reasons may contain ids, so only the first `_MOST_REASONS` reasons of each model are counted separately.
        """
        model, ends = call.endpoint.model.display_string, self.tally.unknown_ends
        place = (model, reason)
        if place not in ends and sum(other == model for other, _ in ends) >= _MOST_REASONS:
            place = (model, _MORE_REASONS)
        if place not in self.tally.unknown_ends:
            logger.warning("%s, which is treated as a normal end", describe_unknown_ends(*place, 1))
        self.tally.unknown_ends[place] += 1

    async def _call_service(self, call: Call, send: Callable[[], Awaitable[R]]) -> R:
        """Call a service, with retries. Raises `PortError` if every attempt fails. The duration of the call is added to
        its notes. It does not include delays between attempts.
        """
        self.limits.services += 1
        began = time.monotonic()
        try:
            return await self.policy.call(send, call.notes)
        finally:
            self.limits.services -= 1
            call.notes.seconds = time.monotonic() - began - call.notes.waited

    async def _within_budget(self, call: Call, send: Callable[[], Awaitable[R]], budget: BudgetGuard) -> R:
        """Wait until the budget covers the call, then make it. Raises `OverBudget` if the budget runs out first, and
        `PortError` if the call fails.
        """
        reservation = _Reserved(budget, call)
        await reservation.renew()
        try:
            return await self._attempt(call, send, reservation)
        finally:
            reservation.release()

    async def _send_attached(self, call: Call, send: Callable[[], Awaitable[R]]) -> R:
        """Send a call with attachments when there is memory for them. Raises `PortError` if the call fails."""
        async with self.memory.hold(call.attached_bytes * 4 // 3):  # in base64
            return await send()

    def _record_usage(self, call: Call, usage: Usage, *, is_blank: bool = False) -> None:
        """Record the usage of a request in the ledger, and its cost in the budget (if there is one) and in the call's
        notes. Without a ledger, nothing is recorded, and the cost in the call's notes becomes None. `is_blank` states
        that the model wrote nothing.
        """
        notes, cost = call.notes, None
        if self.ledger is not None:
            cost = self.ledger.record_call(call, usage, is_blank=is_blank)
            if self.budget is not None:
                self.budget.spend(call, usage, cost)
        notes.cost = None if cost is None or notes.cost is None else notes.cost + cost

    async def _attempt(self, call: Call, send: Callable[[], Awaitable[R]], reservation: _Reserved | None = None) -> R:
        """Make the call with `send`, within the server's limit and with retries, and return the reply. While the call
        waits for its next attempt, its `reservation` of the budget, if any, is released so that other calls can use it.
        If every attempt fails, raises the last attempt's `PortError`, or `OverBudget` if the budget no longer covers
        the call.

        Failed attempts count too: their usage is recorded and added to the usage of the final reply or error.
        """
        notes = call.notes
        paid = NO_USAGE
        limiter = self.limits.limiter(call.endpoint.model)
        while True:
            while not (permit := limiter.acquire()):
                permit = await limiter.wait(call.info.order)
                if reservation is None or await reservation.holds(limiter):
                    break
            began = time.monotonic()
            try:
                try:
                    reply = await (send() if not call.attached_bytes else self._send_attached(call, send))
                finally:
                    notes.seconds += time.monotonic() - began
            except PortError as error:
                if error.partial is not None:
                    self._record_usage(call, sanitize_usage(error.partial.usage))
                error.usage = sanitize_usage(error.usage)
                if error.usage.calls:
                    self._record_usage(call, error.usage, is_blank=wrote_nothing(error))
                    paid += error.usage
                error.usage = paid
                if is_refusal(error):
                    limiter.on_overload(permit, error.retry_after)
                else:
                    limiter.release()
                delay = self.policy.next_delay(error, notes, limiter.seconds_refusing())
            except BaseException:
                limiter.release()
                raise
            else:
                notes.answered = time.monotonic() - began
                limiter.on_success()
                if reply.usage is not NO_USAGE:  # a request that a filter refused costs nothing
                    self._record_usage(call, reply.usage, is_blank=wrote_nothing(reply))
                return reply if paid is NO_USAGE else replace(reply, usage=paid + reply.usage)
            if reservation is not None:
                reservation.release()
            limiter.retrying += 1
            self.limits.changed.set()
            try:
                await asyncio.sleep(delay)
            finally:
                limiter.retrying -= 1
            if reservation is not None:
                await reservation.renew()

    def _from_cache(self, call: Call, cached: CallOutcome) -> Any:
        """Return a stored reply, or raise a copy of a stored error. Notes and files that were stored with the reply are
        added to the current item, and its usage is counted as saved.
        """
        if call.info.notes is not None:
            call.info.notes.add(cached.notes)
        if cached.error is not None:
            raise copy_error(cached.error)
        assert cached.reply is not None
        add_call_files(cached.files)
        if call.is_model_call and not call.composite:
            self.tally.cached += cached.reply.usage.calls
            self.tally.saved += cached.reply.usage
            if self.ledger is not None:
                self.ledger.record_cached(call, cached.reply.usage, is_blank=wrote_nothing(cached.reply))
        return cached.reply


def _note_stored_key(notes: CallNotes, call: Call, outcome: CallOutcome) -> None:
    """Replace the call's key in its item's notes by the key under which its outcome is stored, if that is another."""
    if outcome.key is not None:
        notes.keys[notes.keys.index(call.key.hex())] = outcome.key.hex()


@dataclass(slots=True)
class _Reserved:
    """A call's budget reservation. `number` is None while nothing is reserved."""

    budget: BudgetGuard
    call: Call
    number: int | None = None

    async def renew(self) -> None:
        """Release the current reservation, if any, and make a new one. Raises `OverBudget` if the budget does not cover
        the call.
        """
        self.release()
        self.number = await self.budget.reserve(self.call)

    async def holds(self, limiter: ServerLimiter) -> bool:
        """Return whether the call can be made now, with the permit it holds. If other calls have cost more than
        expected, the permit is released and the reservation renewed, and the call needs a new permit. Raises
        `OverBudget` if the budget no longer covers it.
        """
        try:
            held = self.number is not None and await self.budget.holds(self.number)
        except BaseException:
            limiter.release()
            raise
        if not held:
            limiter.release()
            await self.renew()
        return held

    def release(self) -> None:
        """Release the reservation, if there is one."""
        number, self.number = self.number, None
        if number is not None:
            self.budget.release(number)


def describe_unknown_ends(model: str, reason: str, count: int) -> str:
    """Describe how many of a server's replies ended for an unknown reason. `reason` may also be `NO_REASON`, or
    `_MORE_REASONS` for reasons that were counted together.
    """
    noun = "reply" if count == 1 else "replies"
    replies, more = f"{count} {noun}", f"{count} more {noun}"
    if reason == NO_REASON:
        return f"the server of {model} ended {replies} without a finish reason"
    if reason == _MORE_REASONS:
        return f"the server of {model} ended {more} for other unknown reasons"
    return f"the server of {model} ended {replies} with the unknown reason {reason!r}"
