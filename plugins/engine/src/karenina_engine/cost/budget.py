"""A hard budget for the calls of a run.

Before a call is made, its maximum expected cost is reserved. Afterwards, its actual cost replaces the reservation. If
the budget does not cover a call, the call waits for others to end. If it is still not covered when no other call is in
flight, the budget is exhausted: no new items start, answers are judged as far as the budget allows, and a run with a
higher budget can finish the items without a result.

A call may cost more than expected, for example because of hidden reasoning without `max_tokens`. One call in flight may
exceed the budget in this way. All other calls must be covered at their highest possible cost, which is a reply of
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
"""The number of output tokens that a call without `max_tokens` is assumed to have, before there are any replies."""

_ENOUGH: Final = 3  # after this many replies for a ledger line, its calls are estimated from them
_MARGIN: Final = 1.25
_LARGEST: Final = 2**20  # output tokens: no model has a larger context
_FIRST_MULTIPLE: Final = 64  # a call may cost this many times the observed output after one reply; 1/n of it after n
_MULTIPLE: Final = 4  # the least multiple, after many replies


class OverBudget(ItemInterrupt):
    """Raised if the budget does not cover a call. The item ends without a result, but this is not an error."""


@dataclass(slots=True)
class _Observed:
    """What has been observed about the calls of a ledger line.

    `output` and `prompt` are the highest numbers of tokens in a reply and in a prompt. `density` is the highest number
    of tokens per character. `hidden` is the highest number of tokens by which a prompt exceeded its estimate, for
    example because of the server's own instructions. `extra` is the highest amount by which a cost exceeded that of the
    tokens at the rates for text, for example because of searches or sound. `replies` is the number of replies of known
    cost, and `ended` is the number of all calls that ended.
    """

    replies: int = 0
    ended: int = 0
    output: int = 0
    prompt: int = 0
    density: float = 0.0
    hidden: int = 0
    extra: int = 0


_Entry = tuple[int, int, "CallRecord", asyncio.Future[int]]


@dataclass(slots=True)
class _Reservation:
    """The reservation for a call in flight: its `expected` cost, and the `most` that it may cost."""

    call: CallRecord
    seen: _Observed
    expected: int
    most: int


@dataclass(slots=True)
class Budget:
    """A budget of `limit` picodollars.

    `spent` is the cost of finished calls, including those of earlier runs. `reserved` is the expected cost of calls in
    flight. `lost` is the amount reserved for calls that never reported back. It cannot be spent again.
    """

    limit: int
    ledger: Ledger
    spent: int = 0
    reserved: int = 0
    lost: int = 0
    exhaustion: str = ""
    """The reason why the run stops. It is empty until the budget is exhausted."""
    refused: int = 0
    """The maximum expected cost of the call that was refused first. It is only set once the budget is exhausted."""
    _most: int = 0
    _in_flight: dict[int, _Reservation] = field(default_factory=dict)
    _observed_lines: dict[int, tuple[LedgerLine, _Observed]] = field(default_factory=dict)
    _queues: dict[int, list[_Entry]] = field(default_factory=dict)
    """The waiting calls of each ledger line, earliest items first."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def count_earlier(self, models: Iterable[ModelConfig]) -> None:
        """Set `spent` to the amount spent by earlier runs with this journal. Calls of unknown cost are estimated, if
        necessary with the current prices of `models`, or count as nothing if their model has no price.

        Such a call counts as the mean cost of its ledger line. If the line has no calls of known cost, but its model is
        among `models` and now has a price, the call's tokens are counted, or else a reply of `max_tokens` tokens.
        """
        self.spent = self.ledger.earlier.cost
        by_names = {(model.id, model.interface, model.model_name): model for model in models}
        for line in self.ledger.before:
            unknown = line.spent.unpriced
            priced = line.spent.calls - unknown
            model = by_names.get(line.names[:3])
            tariff = self.ledger.prices.price(model).expected if model is not None else None
            if unknown and priced > 0:
                self.spent += line.spent.cost * unknown // priced
            elif unknown and model is not None and tariff is not None:
                tokens = line.spent.input_tokens, line.spent.output_tokens
                counted = Usage(
                    *(*tokens, line.spent.cached_tokens, line.spent.reasoning_tokens),
                    calls=unknown,
                    cache_write_tokens=line.spent.cache_write_tokens,
                )
                assumed = Usage(FRAME * unknown, (model.max_tokens or OUTPUT) * unknown, calls=unknown)
                self.spent += tariff.cost(counted if any(tokens) else assumed)

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the cost of a call, and return the number of the reservation, or 0 if the call is free. Waits as long
        as the calls in flight may leave enough of the budget, and raises `OverBudget` if they do not. Once the budget
        is exhausted, only calls that judge existing answers are made.
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
        """Return whether the call with the given reservation can still be made. Other calls may have cost more than
        expected in the meantime. Always returns True if there is no reservation with this number, for example for 0.
        """
        return reserved not in self._in_flight or self._is_balanced()

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Add a call's actual cost. If `cost` is None, its maximum expected cost is used instead. A known cost also
        improves the estimates for the call's ledger line, including those for calls in flight.
        """
        self.spent += self.max_cost(call) if cost is None else cost
        seen = self._observations(call)
        seen.ended += 1
        if cost is None:
            return
        before = seen.output, seen.prompt, seen.density, seen.hidden, seen.extra
        seen.replies += 1
        seen.output = max(seen.output, usage.output_tokens)
        seen.prompt = max(seen.prompt, usage.input_tokens)
        texts = max(0, usage.input_tokens - call.size.attached)
        seen.density = max(seen.density, texts / max(1, call.size.characters))
        seen.hidden = max(seen.hidden, usage.input_tokens - _prompt_tokens(call))
        tariff = self.ledger.prices.price(call.endpoint.model).expected
        if tariff is not None:
            seen.extra = max(seen.extra, cost - tariff.cost(usage))
        if before != (seen.output, seen.prompt, seen.density, seen.hidden, seen.extra):
            self._estimate_again(seen)

    def release(self, reserved: int) -> None:
        """Release a call's reservation. Call `spend` before this. Unknown numbers are ignored."""
        if self._drop(reserved) and self._queues:
            self._admit_waiting()

    def forfeit(self, reserved: int) -> None:
        """Keep the amount reserved for a call that may have been charged, for example after its worker died."""
        self.lost += self._drop(reserved)
        if self._queues:
            self._admit_waiting()

    def max_cost(self, call: CallRecord) -> int:
        """Return the maximum expected cost of a call, or 0 if its model has no price. The cost is estimated from the
        call's size, from `max_tokens`, and from earlier calls of the same ledger line.
        """
        return self._costs(call, self._observations(call))[0]

    def _costs(self, call: CallRecord, seen: _Observed) -> tuple[int, int]:
        """Return a call's maximum expected cost, judging by the calls `seen`, and the most that it may cost if that
        estimate is too low, in picodollars. Both are 0 if the model has no price.
        """
        tariff = self.ledger.prices.price(call.endpoint.model).expected
        if tariff is None:
            return 0, 0
        rates = tariff.rates

        def cost(prompt: int, output: int) -> int:
            """Return the highest cost, in picodollars, of requests with these numbers of tokens."""
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
        size, _, turns, attached = call.size
        unseen = _prompt_tokens(call)
        with_hidden = unseen + seen.hidden
        if observed and seen.density:
            prompt = min(max(int(size * seen.density * _MARGIN) + FRAME + attached, seen.hidden), with_hidden)
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
        return amount + seen.extra, max(amount, most) + seen.extra

    @property
    def exhausted(self) -> bool:
        """Whether the budget is exhausted, so that it does not cover even a single call."""
        return bool(self.exhaustion)

    def describe_exhaustion(self) -> str:
        """Return a clause that states that the budget did not cover the next call, with the amounts."""
        lost = f" and {format_cost(self.lost)} was reserved for calls that were cut off" if self.lost else ""
        return (
            f"the run's budget of {format_cost(self.limit)} does not cover the next call, which may cost "
            f"{format_cost(self.refused)} (less with a lower max_tokens), after {format_cost(self.spent)} was "
            f"spent{lost}"
        )

    def _covers(self, call: CallRecord) -> bool:
        """Return whether the budget covers this call in addition to the calls in flight."""
        return self._fits(*self._costs(call, self._observations(call)))

    def _fits(self, expected: int, most: int) -> bool:
        """Return whether the budget covers another call with these costs. All reservations have to fit at their
        expected cost. All except the largest have to fit at their highest cost.
        """
        left = self.limit - self.spent - self.lost
        if self.reserved + expected > left:
            return False
        return self._most + most - max(most, *(held.most for held in self._in_flight.values()), 0) <= left

    def _is_balanced(self) -> bool:
        """Return whether the budget still covers the calls in flight, whose reservations may have grown."""
        return self._fits(0, 0)

    def _hold(self, call: CallRecord) -> int:
        """Reserve the cost of a call, and return the number of the reservation. This works even if the budget does not
        cover the call.
        """
        seen = self._observations(call)
        held = _Reservation(call, seen, *self._costs(call, seen))
        self.reserved += held.expected
        self._most += held.most
        number = next(self._numbers)
        self._in_flight[number] = held
        return number

    def _drop(self, number: int) -> int:
        """Remove a reservation and return its expected cost, or 0 if it does not exist. Waiting calls are not
        admitted.
        """
        held = self._in_flight.pop(number, None)
        if held is None:
            return 0
        self.reserved -= held.expected
        self._most -= held.most
        return held.expected

    def _estimate_again(self, seen: _Observed) -> None:
        """Update the reservations of the calls in flight of a ledger line, whose calls were observed in `seen`, after
        one of them reached a new maximum.
        """
        for held in self._in_flight.values():
            if held.seen is seen:
                expected, most = self._costs(held.call, seen)
                self.reserved += expected - held.expected
                self._most += most - held.most
                held.expected, held.most = expected, most

    def _admit_waiting(self) -> None:
        """Admit the waiting calls that the budget covers, earliest items first. If no calls are in flight, and the
        first one is not covered, the budget is exhausted, and the rest are refused. The first call of a ledger line may
        need the whole budget, so calls of other lines may overtake it.
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
        """Return the line and the queue entry of the first waiting call, or None, ignoring the lines in `passed`. Calls
        that are no longer waiting are removed from the queues.
        """
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
        """End the wait of all calls after the budget is exhausted. Calls that judge existing answers are admitted if
        the budget covers them, and otherwise wait as long as calls are in flight. All others are refused.
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
        """Return the observations for the call's ledger line, including those from earlier runs."""
        line = self.ledger.line(call)
        observed = self._observed_lines.get(id(line))
        if observed is None:
            observed = self._observed_lines[id(line)] = line, self._from_earlier_runs(line, call.size.turns)
        return observed[1]

    def _from_earlier_runs(self, line: LedgerLine, turns: int) -> _Observed:
        """Estimate a line's numbers of tokens as twice their mean in earlier runs with the journal. Fewer than
        `_ENOUGH` calls of known cost give no estimate: all numbers are 0.

        If agents are called as a whole, the journal does not store their number of requests.
        """
        same = [earlier.spent for earlier in self.ledger.before if earlier.names[:4] == line.names[:4]]
        calls = sum(count.calls - count.unpriced for count in same)
        if calls < _ENOUGH:
            return _Observed()
        output = 2 * sum(count.output_tokens for count in same) // calls
        prompt = 2 * sum(count.input_tokens for count in same) // calls
        return _Observed(_ENOUGH, _ENOUGH if turns == 1 else 0, output, prompt)


def _prompt_tokens(call: CallRecord) -> int:
    """Return the highest expected number of input tokens for one request, based on the size of the call."""
    return int(call.size.characters * call.size.density) + FRAME + call.size.attached
