"""A hard budget: the expected maximum cost of each call is reserved before the call is made.

The actual cost replaces the reservation afterwards. A call that the budget does not cover waits until other calls have
ended. If no calls are left in flight, the budget is exhausted. No further items then start, items that already have an
answer are judged as far as the budget allows, and an item whose call is not covered ends without a result. A run with a
higher budget continues with these items.

A call may cost more than expected, for example because of hidden reasoning without `max_tokens`. Any one call in flight
may exceed the budget in this way. All other calls must therefore be covered at their highest possible cost: a reply of
`max_tokens` tokens, or a multiple of the observed usage. Nothing is known about a ledger line before its first reply,
so its first call is usually made alone.
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
"""The assumed output tokens of a call without `max_tokens`, until replies were observed."""

_ENOUGH: Final = 3  # after this many replies for a ledger line, its calls are estimated from them
_MARGIN: Final = 1.25
_LARGEST: Final = 2**20  # output tokens: no model has a larger context
_FIRST_MULTIPLE: Final = 64  # a call may cost this many times the observed output after one reply; 1/n of it after n
_MULTIPLE: Final = 4  # the least multiple, after many replies


class OverBudget(ItemInterrupt):
    """Raised for a call that the budget does not cover. Its item ends without a result, not with an error."""


@dataclass(slots=True)
class _Observed:
    """Observations of the calls in a ledger line.

    `output` and `prompt` are the largest numbers of tokens in a reply and in a prompt, and `density` is the largest
    number of tokens per character. `hidden` is the largest number of tokens by which a prompt exceeded the estimate
    based on its size, for example because a server adds its own instructions. `replies` counts replies with a known
    cost; `ended` also counts replies whose tokens the server did not count, and calls of unknown cost.
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
    """A budget in picodollars (`limit`). It is exhausted when a call is not covered and no calls are in flight.

    `spent` is the cost of finished calls, including those of earlier runs, and `reserved` is the expected cost of calls
    in flight. `lost` is the amount reserved for calls whose outcome is unknown, which cannot be spent again.
    """

    limit: int
    ledger: Ledger
    spent: int = 0
    reserved: int = 0
    lost: int = 0
    exhaustion: str = ""
    """Why the run stops, once the budget is exhausted."""
    refused: int = 0
    """The expected maximum cost of the first call that the exhausted budget does not cover."""
    _most: int = 0
    _in_flight: dict[int, _Reservation] = field(default_factory=dict)
    _observed_lines: dict[int, tuple[LedgerLine, _Observed]] = field(default_factory=dict)
    _queues: dict[int, list[_Entry]] = field(default_factory=dict)
    """The waiting calls, the earliest items first, by the identity of their ledger line's observations."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def count_earlier(self, models: Iterable[ModelConfig]) -> None:
        """Set `spent` to the amount spent by earlier runs with this journal.

        If the cost of a call was unknown at the time, it is counted at the mean cost of the other calls in its ledger
        line. If there are no other calls, and the call was to one of `models` and now has a price, it is counted by its
        tokens or, if the server did not report them, as a reply of `max_tokens` tokens. Otherwise, it counts as
        nothing.
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
        """Reserve the cost of a call, and return the number of the reservation, or 0 if the call costs nothing.

        Waits as long as the calls in flight may still leave enough of the budget. Raises `OverBudget` once they no
        longer can. Once the budget is exhausted, only calls that judge existing answers are still admitted.
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
        """Return whether a call with this reservation may still be made, given the cost of other calls since then.

        A number without a reservation, such as 0 for a call that costs nothing, gives True.
        """
        return reserved not in self._in_flight or self._is_balanced()

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count the actual cost of a call. If it is unknown (None), count the expected maximum cost instead.

        A known cost also updates the estimates for the ledger line, including the reservations of its calls in flight.
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
        """Release the reservation of a call that has ended, after its actual cost has been counted.

        Numbers that have no reservation are ignored.
        """
        if self._drop(reserved) and self._queues:
            self._admit_waiting()

    def forfeit(self, reserved: int) -> None:
        """Keep the reservation of a call that may have been made and charged, such as one from a worker that died."""
        self.lost += self._drop(reserved)
        if self._queues:
            self._admit_waiting()

    def max_cost(self, call: CallRecord) -> int:
        """Return the call's expected maximum cost, based on its size and `max_tokens` or on earlier calls in its ledger
        line.

        Returns 0 if the model has no price.
        """
        return self._costs(call, self._observations(call))[0]

    def _costs(self, call: CallRecord, seen: _Observed) -> tuple[int, int]:
        """Return the call's expected maximum cost, and the most it may cost if that estimate is too low.

        Both are 0 if the model has no price.
        """
        tariff = self.ledger.prices.price(call.endpoint.model).tariff
        if tariff is None:
            return 0, 0
        rates = tariff.rates

        def cost(prompt: int, output: int) -> int:
            """Return the most that requests with these numbers of tokens can cost, in picodollars."""
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
        """Whether the budget is exhausted, meaning that a call was not covered while no calls were in flight."""
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
        """Return whether the budget covers this call and the calls in flight if all but one cost their maximum."""
        return self._fits(*self._costs(call, self._observations(call)))

    def _fits(self, expected: int, most: int) -> bool:
        """Return whether the budget covers another call with these costs.

        All reservations must fit at their expected cost, and all but the largest must fit at the most they may cost.
        """
        left = self.limit - self.spent - self.lost
        if self.reserved + expected > left:
            return False
        return self._most + most - max(most, *(held.most for held in self._in_flight.values()), 0) <= left

    def _is_balanced(self) -> bool:
        """Return whether the budget still covers the calls in flight, whose reservations may have been raised."""
        return self._fits(0, 0)

    def _hold(self, call: CallRecord) -> int:
        """Reserve the cost of a call, whether or not the budget covers it, and return the reservation's number."""
        seen = self._observations(call)
        held = _Reservation(call, seen, *self._costs(call, seen))
        self.reserved += held.expected
        self._most += held.most
        number = next(self._numbers)
        self._in_flight[number] = held
        return number

    def _drop(self, number: int) -> int:
        """End a reservation and return its expected cost, or 0 if no reservation has this number."""
        held = self._in_flight.pop(number, None)
        if held is None:
            return 0
        self.reserved -= held.expected
        self._most -= held.most
        return held.expected

    def _estimate_again(self, seen: _Observed) -> None:
        """Update the reservations of a ledger line's calls in flight, after one of its calls set a new maximum."""
        for held in self._in_flight.values():
            if held.seen is seen:
                expected, most = self._costs(held.call, seen)
                self.reserved += expected - held.expected
                self._most += most - held.most
                held.expected, held.most = expected, most

    def _admit_waiting(self) -> None:
        """Admit waiting calls that are covered, starting with the earliest items. If no calls are in flight,
        refuse the rest.

        The first call of a ledger line may need the whole budget, because nothing is known about the line. While
        another such call is in flight, calls of other lines may overtake it.
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
        """Return the line and entry of the first waiting call, or None if no call is waiting.

        The lines in `passed` are ignored.
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
        """End the wait of all calls after the budget is exhausted.

        Calls that judge existing answers are admitted as far as the budget allows, and wait while calls are in flight.
        All other calls are refused.
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
        """Return the observations for the call's ledger line, starting from those of earlier runs."""
        line = self.ledger.line(call)
        observed = self._observed_lines.get(id(line))
        if observed is None:
            observed = self._observed_lines[id(line)] = line, self._from_earlier_runs(line, call.size.turns)
        return observed[1]

    def _from_earlier_runs(self, line: LedgerLine, turns: int) -> _Observed:
        """Return what earlier runs with the journal suggest for this line: twice the mean tokens of its requests.

        With fewer than `_ENOUGH` calls of known cost, nothing is suggested. The journal does not store how many
        requests an agent makes when it is called as a whole.
        """
        same = [earlier.spent for earlier in self.ledger.before if earlier.names[:4] == line.names[:4]]
        calls = sum(count.calls - count.unpriced for count in same)
        if calls < _ENOUGH:
            return _Observed()
        output = 2 * sum(count.output_tokens for count in same) // calls
        prompt = 2 * sum(count.input_tokens for count in same) // calls
        return _Observed(_ENOUGH, _ENOUGH if turns == 1 else 0, output, prompt)


def _prompt_tokens(call: CallRecord) -> int:
    """Return the largest number of input tokens expected for one request of the call, based on the call's size."""
    return int(call.size.characters * call.size.density) + FRAME
