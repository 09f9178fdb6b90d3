"""A hard budget for the calls of a run.

Before a call is made, its expected maximum cost is reserved, and its actual cost replaces the reservation afterwards.
If the budget does not cover a call, the call waits for others to end. Once no call is left in flight, the budget is
exhausted: no new items start, answers are judged as far as the budget allows, and items without a result can be
finished by a run with a higher budget.

A call may cost more than expected, for example because of hidden reasoning without `max_tokens`. One call in flight may
exceed the budget in this way. All others must be covered at their highest possible cost, which is a reply of
`max_tokens` tokens or a multiple of what was observed. Nothing is known about the first call of a ledger line, so it is
usually made alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ItemInterrupt
from karenina_core.models.ports import Usage
from karenina_engine.calls.call import FRAME
from karenina_engine.cost.price_source import format_cost

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_engine.calls.call import CallRecord
    from karenina_engine.cost.ledger import Ledger, LedgerLine

OUTPUT: Final = 1024
"""The assumed output tokens of a call without `max_tokens`, until the first replies."""

_ENOUGH: Final = 3  # after this many replies for a ledger line, its calls are estimated from them
_MARGIN: Final = 1.25
_LARGEST: Final = 2**20  # output tokens: no model has a larger context
_FIRST_MULTIPLE: Final = 64  # a call may cost this many times the observed output after one reply; 1/n of it after n
_MULTIPLE: Final = 4  # the least multiple, after many replies


class OverBudget(ItemInterrupt):
    """Raised if the budget does not cover a call. The item ends without a result, which is not an error."""


@dataclass(slots=True)
class _Observed:
    """What has been observed about the calls of a ledger line.

    `output` and `prompt` are the most tokens seen in a reply and a prompt, and `density` is the most tokens per
    character. `hidden` is the most tokens by which a prompt exceeded its estimate, for example because of the server's
    own instructions. `replies` counts replies of known cost, and `ended` counts all calls that ended.
    """

    replies: int = 0
    ended: int = 0
    output: int = 0
    prompt: int = 0
    density: float = 0.0
    hidden: int = 0


_Entry = tuple[int, int, "CallRecord", asyncio.Future[int]]


@dataclass(slots=True)
class _Reservation:
    """The reservation for a call in flight: its `expected` cost, and the `most` it may cost."""

    call: CallRecord
    seen: _Observed
    expected: int
    most: int


@dataclass(slots=True)
class Budget:
    """A budget of `limit` picodollars.

    `spent` is the cost of finished calls, including earlier runs. `reserved` is the expected cost of calls in flight.
    `lost` is what was reserved for calls that never reported back, and cannot be spent again.
    """

    limit: int
    ledger: Ledger
    spent: int = 0
    reserved: int = 0
    lost: int = 0
    exhaustion: str = ""
    """Why the run stops, once the budget is exhausted."""
    refused: int = 0
    """The expected maximum cost of the first call that was refused, once the budget is exhausted."""
    _most: int = 0
    _in_flight: dict[int, _Reservation] = field(default_factory=dict)
    _observed_lines: dict[int, tuple[LedgerLine, _Observed]] = field(default_factory=dict)
    _queues: dict[int, list[_Entry]] = field(default_factory=dict)
    """The waiting calls of each ledger line, earliest items first."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def count_earlier(self, models: Iterable[ModelConfig]) -> None:
        """Set `spent` to the amount spent by earlier runs with this journal.

        Calls of unknown cost count at the mean cost of their ledger line. If the line has no other calls but the model
        is among `models` and now has a price, they are counted by their tokens, or as a reply of `max_tokens` tokens.
        Failing that, they count as nothing.
        """
        self.spent = self.ledger.earlier.cost
        by_names = {(model.id, model.interface, model.model_name): model for model in models}
        for line in self.ledger.before:
            unknown = line.spent.unpriced
            priced = line.spent.calls - unknown
            model = by_names.get(line.names[:3])
            tariff = self.ledger.prices.price(model).tariff if model is not None else None
            if unknown and priced > 0:
                self.spent += line.spent.cost * unknown // priced
            elif unknown and model is not None and tariff is not None:
                tokens = line.spent.input_tokens, line.spent.output_tokens
                counted = Usage(*tokens, line.spent.cached_tokens, line.spent.reasoning_tokens, calls=unknown)
                assumed = Usage(FRAME * unknown, (model.max_tokens or OUTPUT) * unknown, calls=unknown)
                self.spent += tariff.cost(counted if any(tokens) else assumed)

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the cost of a call, and return the number of the reservation, or 0 if the call is free.

        Waits as long as calls in flight may leave enough of the budget, and raises `OverBudget` after that. Once the
        budget is exhausted, only calls that judge existing answers are let through.
        """
        if not self.max_cost(call):
            return 0
        if not self._queues and not (self.exhausted and call.info.shared) and self._covers(call):
            return self._hold(call)
        place = call.info.order, next(self._numbers)
        line = id(self._observations(call))
        while True:
            waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            heappush(self._queues.setdefault(line, []), (*place, call, waiting))
            self._admit_waiting()
            try:
                number = await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                    self.release(waiting.result())
                raise
            if self._is_balanced():
                return number
            self.release(number)

    async def holds(self, reserved: int) -> bool:
        """Return whether a call with this reservation can still be made.

        Other calls may have cost more than expected in the meantime. Returns True for 0 and other numbers that have no
        reservation.
        """
        return reserved not in self._in_flight or self._is_balanced()

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Add the actual cost of a call, or its expected maximum cost if `cost` is None.

        A known cost also improves the estimates for its ledger line, including calls in flight.
        """
        self.spent += self.max_cost(call) if cost is None else cost
        seen = self._observations(call)
        seen.ended += 1
        if cost is None:
            return
        before = seen.output, seen.prompt, seen.density, seen.hidden
        seen.replies += 1
        seen.output = max(seen.output, usage.output_tokens)
        seen.prompt = max(seen.prompt, usage.input_tokens)
        seen.density = max(seen.density, usage.input_tokens / max(1, call.size.characters))
        seen.hidden = max(seen.hidden, usage.input_tokens - _prompt_tokens(call))
        if before != (seen.output, seen.prompt, seen.density, seen.hidden):
            self._estimate_again(seen)

    def release(self, reserved: int) -> None:
        """Release the reservation of a call. Call `spend` first.

        Unknown numbers are ignored.
        """
        if self._drop(reserved) and self._queues:
            self._admit_waiting()

    def forfeit(self, reserved: int) -> None:
        """Keep the reservation of a call that may have been charged, for example after its worker died."""
        self.lost += self._drop(reserved)
        if self._queues:
            self._admit_waiting()

    def max_cost(self, call: CallRecord) -> int:
        """Return the expected maximum cost of a call, or 0 if the model has no price.

        It is estimated from the call's size, `max_tokens`, and earlier calls of the ledger line.
        """
        return self._costs(call, self._observations(call))[0]

    def _costs(self, call: CallRecord, seen: _Observed) -> tuple[int, int]:
        """Return the expected maximum cost of a call, and the most it may cost if the estimate is too low.

        Both are 0 if the model has no price.
        """
        tariff = self.ledger.prices.price(call.endpoint.model).tariff
        if tariff is None:
            return 0, 0
        rates = tariff.rates

        def cost(prompt: int, output: int) -> int:
            """Return the highest cost of requests with these numbers of tokens, in picodollars."""
            written = prompt if rates.cache_write > rates.input else 0
            thought = output if rates.reasoning > rates.output else 0
            return tariff.cost(Usage(prompt, output, 0, thought, calls=1, cache_write_tokens=written))

        observed = seen.replies >= _ENOUGH
        allowed = call.endpoint.model.max_tokens
        expected = int(seen.output * _MARGIN) + FRAME
        if allowed is None:
            output = expected if observed else max(OUTPUT, seen.output)
        else:
            output = min(expected, allowed) if observed else allowed
            if seen.output > allowed:  # some servers do not count hidden reasoning towards the limit
                output = expected
        size, _, turns = call.size
        unseen = _prompt_tokens(call)
        with_hidden = unseen + seen.hidden
        if observed and seen.density:
            prompt = min(max(int(size * seen.density * _MARGIN) + FRAME, seen.hidden), with_hidden)
        else:
            prompt = with_hidden if turns == 1 else unseen
        amount = cost(prompt, output) * (1 if observed else turns)
        if not seen.ended:
            most = cost(unseen, _LARGEST) * turns
        else:
            multiple = max(_MULTIPLE, _FIRST_MULTIPLE // seen.ended)
            largest = min(_LARGEST, multiple * (seen.output if seen.replies else output) + FRAME)
            if allowed is not None and seen.output <= allowed and turns == 1:
                largest = allowed
            longest = max(prompt, with_hidden, seen.prompt)
            most = cost(longest * multiple if turns > 1 else longest, largest)
        return amount, max(amount, most)

    @property
    def exhausted(self) -> bool:
        """Whether the budget is exhausted, so that not even a single call is covered."""
        return bool(self.exhaustion)

    def describe_exhaustion(self) -> str:
        """Return a clause stating why the run stopped."""
        lost = f" and {format_cost(self.lost)} was reserved for calls that were cut off" if self.lost else ""
        return (
            f"the run's budget of {format_cost(self.limit)} does not cover the next call, which may cost "
            f"{format_cost(self.refused)} (less with a lower max_tokens), after {format_cost(self.spent)} was "
            f"spent{lost}"
        )

    def _covers(self, call: CallRecord) -> bool:
        """Return whether the budget covers this call on top of the calls in flight."""
        return self._fits(*self._costs(call, self._observations(call)))

    def _fits(self, expected: int, most: int) -> bool:
        """Return whether another call with these costs fits in the budget.

        All reservations have to fit at their expected cost, and all but the largest at their highest cost.
        """
        left = self.limit - self.spent - self.lost
        if self.reserved + expected > left:
            return False
        return self._most + most - max(most, *(held.most for held in self._in_flight.values()), 0) <= left

    def _is_balanced(self) -> bool:
        """Return whether the budget still covers the calls in flight. Their reservations may have grown."""
        return self._fits(0, 0)

    def _hold(self, call: CallRecord) -> int:
        """Reserve the cost of a call, even if the budget does not cover it, and return the reservation's number."""
        seen = self._observations(call)
        held = _Reservation(call, seen, *self._costs(call, seen))
        self.reserved += held.expected
        self._most += held.most
        number = next(self._numbers)
        self._in_flight[number] = held
        return number

    def _drop(self, number: int) -> int:
        """Remove a reservation and return its expected cost, or 0 if there is none."""
        held = self._in_flight.pop(number, None)
        if held is None:
            return 0
        self.reserved -= held.expected
        self._most -= held.most
        return held.expected

    def _estimate_again(self, seen: _Observed) -> None:
        """Update the reservations of a ledger line after one of its calls set a new maximum."""
        for held in self._in_flight.values():
            if held.seen is seen:
                expected, most = self._costs(held.call, seen)
                self.reserved += expected - held.expected
                self._most += most - held.most
                held.expected, held.most = expected, most

    def _admit_waiting(self) -> None:
        """Admit the waiting calls that are covered, earliest items first.

        The first call of a ledger line may need the whole budget, so calls of other lines may overtake it. If no calls
        are in flight, calls that are still not covered are refused.
        """
        passed: set[int] = set()
        while not self.exhausted and (head := self._first_waiting(passed)) is not None:
            line, (_, _, call, waiting) = head
            if self._covers(call):
                heappop(self._queues[line])
                waiting.set_result(self._hold(call))
            elif not self._in_flight:
                self.refused = self.max_cost(call)
                self.exhaustion = self.describe_exhaustion()
            elif not self._observations(call).ended and any(not held.seen.ended for held in self._in_flight.values()):
                passed.add(line)
            else:
                break
        if self.exhausted:
            self._finish_waiting()

    def _first_waiting(self, passed: Collection[int]) -> tuple[int, _Entry] | None:
        """Return the first waiting call and its line, ignoring the lines in `passed`."""
        first: tuple[int, _Entry] | None = None
        for line, queue in [*self._queues.items()]:
            while queue and queue[0][3].done():
                heappop(queue)
            if not queue:
                del self._queues[line]
            elif line not in passed and (first is None or queue[0][:2] < first[1][:2]):
                first = line, queue[0]
        return first

    def _finish_waiting(self) -> None:
        """Stop all waiting after the budget is exhausted.

        Calls that judge existing answers are admitted as far as the budget allows. All others are refused.
        """
        entries = sorted((entry for queue in self._queues.values() for entry in queue), key=itemgetter(0, 1))
        self._queues = {}
        for entry in entries:
            _, _, call, waiting = entry
            if waiting.done():
                continue
            if not call.info.shared and self._covers(call):
                waiting.set_result(self._hold(call))
            elif call.info.shared or not self._in_flight:
                waiting.set_exception(OverBudget())
            else:
                self._queues.setdefault(id(self._observations(call)), []).append(entry)

    def _observations(self, call: CallRecord) -> _Observed:
        """Return what is known about the call's ledger line, including earlier runs."""
        line = self.ledger.line(call)
        observed = self._observed_lines.get(id(line))
        if observed is None:
            observed = self._observed_lines[id(line)] = line, self._from_earlier_runs(line, call.size.turns)
        return observed[1]

    def _from_earlier_runs(self, line: LedgerLine, turns: int) -> _Observed:
        """Estimate the tokens of a line from earlier runs with the journal, as twice the mean.

        There is no estimate with fewer than `_ENOUGH` calls of known cost. The journal does not store the number of
        requests made by agents that are called as a whole.
        """
        same = [earlier.spent for earlier in self.ledger.before if earlier.names[:4] == line.names[:4]]
        calls = sum(count.calls - count.unpriced for count in same)
        if calls < _ENOUGH:
            return _Observed()
        output = 2 * sum(count.output_tokens for count in same) // calls
        prompt = 2 * sum(count.input_tokens for count in same) // calls
        return _Observed(_ENOUGH, _ENOUGH if turns == 1 else 0, output, prompt)


def _prompt_tokens(call: CallRecord) -> int:
    """Return the most input tokens to expect for one request, based on the size of the call."""
    return int(call.size.characters * call.size.density) + FRAME
