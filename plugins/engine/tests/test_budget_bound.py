"""Tests of the bound of a budget: it is exceeded by the cost of one call at most, in whatever order calls end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, ErrorCategory, LLMReply, Message, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.calls.call_runner import CallRunner
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.cost.budget import Budget, OverBudget
from karenina_engine.cost.ledger import Ledger, LedgerLine, Price, PriceTable, SpendCounts
from karenina_engine.cost.price_source import OwnPrice
from karenina_testing import ScriptedModels

RATES = {"cheap": 1, "dear": 10}
"""Dollars per million tokens."""
INPUT = 10
AT_ONCE = 16
LIMITED = {name: ModelConfig(id=name, interface="scripted", model_name=name, max_tokens=100) for name in RATES}
UNLIMITED = {name: ModelConfig(id=name, interface="scripted", model_name=name) for name in RATES}

Output = Callable[[int], int]
"""The output tokens of a request, which may depend on the most that an earlier reply of its line had."""


@dataclass
class Planned:
    """A call: the model and judge, the turns of the event loop that each request takes, and the requests' output.

    All requests but the last one are broken off, and charged. A prompt has `characters`, and `hidden` more tokens.
    """

    model: ModelConfig
    outputs: Sequence[Output]
    turns: int = 1
    judge: str = ""
    counted: bool = True
    characters: int = 11
    hidden: int = 0

    @property
    def input(self) -> int:
        return INPUT + self.characters // 4 + self.hidden if self.hidden else INPUT


@dataclass
class Bill:
    """The costs of calls, in millionths of a dollar. `largest` is that of the calls under way when the last began."""

    spent: int = 0
    largest: int = 0
    most_at_once: int = 0
    began_late: bool = False
    made: int = 0
    under_way: dict[int, int] = field(default_factory=dict)


async def pay(limit: int, planned: Sequence[Planned]) -> tuple[Bill, Budget]:
    """Make all calls at once, as far as a limit in millionths of a dollar allows."""
    plugins = Plugins()
    plugins.register(ScriptedModels())
    ledger = Ledger(PriceTable(plugins, {name: OwnPrice(input=rate, output=rate) for name, rate in RATES.items()}))
    budget = Budget(limit * 10**6, ledger)
    bounds = ConcurrencyLimits(lambda _: Bounds(AT_ONCE, AT_ONCE))
    calls = CallRunner(bounds, ledger=ledger, budget=budget, policy=RetryPolicy(base=0, cap=0))
    bill, longest = Bill(), dict[tuple[str, str], int]()

    async def make(order: int, one: Planned) -> None:
        info = CallInfo(str(order), order=order, stage="S", judge=one.judge, shared=order % 3 == 0)
        call = Call(Endpoint("llm", one.model, "scripted 1", {}), [Message.user("x" * one.characters)], info)
        line = one.model.id, one.judge
        left = list(one.outputs)

        async def ask() -> LLMReply:
            output = max(left.pop(0)(longest.get(line, 0)), 1)  # a server that counts none has not counted
            cost = RATES[one.model.id] * (one.input + output)
            bill.began_late |= bill.spent >= limit
            bill.made += 1
            bill.under_way[order] = cost
            bill.largest = max(bill.under_way.values())
            bill.most_at_once = max(bill.most_at_once, len(bill.under_way))
            for _ in range(one.turns):
                await asyncio.sleep(0)
            del bill.under_way[order]
            bill.spent += cost
            longest[line] = max(longest.get(line, 0), output)
            usage = Usage(one.input, output, calls=1) if one.counted else Usage(calls=1)
            if left:
                raise PortError("broken off", category=ErrorCategory.SERVER, usage=usage)
            return LLMReply("BCL2", usage)

        try:
            await calls.make(call, ask)
        except OverBudget:
            assert budget.exhausted

    await asyncio.gather(*(make(order, one) for order, one in enumerate(planned)))
    assert budget.reserved == 0
    return bill, budget


def check(limit: int, planned: Sequence[Planned]) -> Bill:
    """Make the calls, and check the bound."""
    bill, budget = asyncio.run(pay(limit, planned))
    assert budget.spent == bill.spent * 10**6
    assert bill.spent <= limit + bill.largest
    assert not bill.began_late
    return bill


def always(output: int) -> Output:
    return lambda _: output


def plans(
    models: dict[str, ModelConfig], outputs: st.SearchStrategy[Output], count: int = 30
) -> st.SearchStrategy[list[Planned]]:
    attempts = st.lists(outputs, min_size=1, max_size=3)
    one = st.builds(
        Planned, st.sampled_from([*models.values()]), attempts, st.integers(0, 20), st.sampled_from(["", "j"])
    )
    return st.lists(one, max_size=count)


@given(limit=st.integers(0, 20_000), planned=plans(LIMITED, st.integers(0, 100).map(always)))
def test_calls_within_max_tokens_exceed_it_by_one_at_most(limit: int, planned: list[Planned]) -> None:
    check(limit, planned)


@given(
    limit=st.integers(0, 3_000_000),
    outputs=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    limited=st.booleans(),
    drawn=plans(UNLIMITED, st.just(always(0)), 60),
)
def test_first_calls_exceed_it_by_one_whatever_they_cost(
    limit: int, outputs: tuple[int, int], limited: bool, drawn: list[Planned]
) -> None:
    models = LIMITED if limited else UNLIMITED  # some servers do not count hidden thoughts for the limit
    costs = dict(zip(models, outputs, strict=True))
    check(limit, [Planned(models[one.model.id], [always(costs[one.model.id])], one.turns, one.judge) for one in drawn])


def growing(multiple: int, first: int) -> Output:
    return lambda longest: min(multiple * longest // 10, 10**6) if longest else first


@given(
    limit=st.integers(0, 100_000),
    planned=plans(UNLIMITED, st.builds(growing, st.integers(0, 40), st.integers(0, 3_000)), 60),
)
def test_fourfold_growth_exceeds_it_by_one_call_at_most(limit: int, planned: list[Planned]) -> None:
    check(limit, planned)


@pytest.mark.parametrize("limit", [0, 1, 999_999, 3_000_000, 10_000_000, 100_000_000])
def test_calls_at_a_hundred_times_the_expected_cost_stop_in_time(limit: int) -> None:
    dollar = Planned(UNLIMITED["dear"], [always(10**5 - INPUT)], turns=3)
    bill = check(limit, [dollar] * 30)
    assert bill.spent <= limit or bill.most_at_once == 1 or limit > 3_000_000


def test_a_budget_that_suffices_lets_calls_run_at_once() -> None:
    planned = [Planned(UNLIMITED["cheap"], [always(200)], turns=5) for _ in range(300)]
    bill = check(2 * 300 * 210, planned)
    assert (bill.made, bill.most_at_once) == (300, AT_ONCE)


def test_larger_calls_are_noticed_while_others_are_under_way() -> None:
    line = UNLIMITED["dear"]
    small = [Planned(line, [always(20)], turns=2) for _ in range(40)]
    grown = [Planned(line, [always(4_000)], turns=2 + number) for number in range(200)]
    bill = check(3_000_000, [*small, *grown])
    assert bill.most_at_once > 8


def test_a_jump_at_the_end_costs_the_calls_under_way() -> None:
    """Without `max_tokens` nothing bounds a call: this is what the documentation says of it."""
    line = UNLIMITED["cheap"]
    planned = [*[Planned(line, [always(20)], turns=2)] * 200, *[Planned(line, [always(10**5)], turns=2)] * 200]
    bill, _ = asyncio.run(pay(50_000, planned))
    assert bill.spent > 50_000 + bill.largest
    assert not bill.began_late
    limited = line.model_copy(update={"max_tokens": 10**5})
    check(50_000, [Planned(limited, one.outputs, one.turns) for one in planned])


def test_replies_without_token_counts_are_spent_as_expected() -> None:
    planned = [Planned(UNLIMITED["cheap"], [always(20)], turns=2, counted=False) for _ in range(100)]
    bill, budget = asyncio.run(pay(20_000, planned))
    each = budget.max_cost(
        Call(Endpoint("llm", UNLIMITED["cheap"], "scripted 1", {}), [Message.user("Which gene?")], CallInfo(stage="S"))
    )
    assert each > 1024 * 10**6
    assert budget.spent == bill.made * each <= budget.limit < budget.spent + each


def test_a_first_call_that_is_cancelled_lets_the_next_begin() -> None:
    async def run() -> list[bool]:
        plugins = Plugins()
        plugins.register(ScriptedModels())
        ledger = Ledger(PriceTable(plugins, {"cheap": OwnPrice(input=1, output=1)}))
        budget = Budget(10**10, ledger)
        calls = [
            Call(Endpoint("llm", UNLIMITED["cheap"], "scripted 1", {}), [Message.user("?")], CallInfo(order=order))
            for order in range(3)
        ]
        first = await budget.reserve(calls[0])
        waiting = [asyncio.ensure_future(budget.reserve(call)) for call in calls[1:]]
        await asyncio.sleep(0)
        waited = [task.done() for task in waiting]
        waiting[0].cancel()
        budget.release(first)
        budget.release(await waiting[1])
        return [*waited, budget.reserved == 0]

    assert asyncio.run(run()) == [False, False, True]


def sized(characters: int, hidden: int = 15_000) -> Planned:
    return Planned(LIMITED["cheap"], [always(50)], turns=3, characters=characters, hidden=hidden)


@given(
    limit=st.integers(0, 500_000),
    sizes=st.lists(st.sampled_from([0, 20, 300, 5_000, 40_000]), max_size=60),
    hidden=st.sampled_from([1, 300, 15_000]),
)
def test_hidden_instructions_exceed_it_by_one_at_most(limit: int, sizes: list[int], hidden: int) -> None:
    check(limit, [sized(size, hidden) for size in sizes])


def test_short_prompts_after_long_ones_are_not_taken_for_cheap() -> None:
    check(100_000, [*[sized(5_000)] * 4, *[sized(20)] * 100])


def test_long_prompts_after_short_ones_are_not_taken_for_dear() -> None:
    bill = check(400_000, [*[sized(10, 300)] * 10, *[sized(40_000, 300)] * 30])
    assert bill.made == 40


def test_many_calls_that_wait_are_not_all_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    price = PriceTable.price

    def counted(self: PriceTable, model: ModelConfig) -> Price:
        nonlocal looked
        looked += 1
        return price(self, model)

    monkeypatch.setattr(PriceTable, "price", counted)
    lines = [Planned(UNLIMITED["cheap"], [always(20)], turns=9, judge=str(number % 3)) for number in range(600)]
    assert check(1_000_000, lines).made == 600
    assert looked < 600 * 50


def test_agents_of_earlier_runs_say_nothing_of_a_whole_conversation() -> None:
    async def run() -> list[bool]:
        plugins = Plugins()
        plugins.register(ScriptedModels())
        spent = SpendCounts(calls=400, input_tokens=4_000_000, output_tokens=40_000, cost=4 * 10**12)
        before = [LedgerLine("cheap", "scripted", "cheap", "S", "", spent)]
        budget = Budget(5 * 10**12, Ledger(PriceTable(plugins, {"cheap": OwnPrice(input=1, output=1)}), before))
        budget.spent = spent.cost
        calls = [
            Call(
                Endpoint("agent", UNLIMITED["cheap"], "scripted 1", {}),
                [Message.user("?")],
                CallInfo(order=order, stage="S"),
                {"max_turns": 20},
            )
            for order in range(2)
        ]
        waiting = [asyncio.ensure_future(budget.reserve(call)) for call in calls]
        await asyncio.sleep(0)
        began = [task.done() for task in waiting]
        budget.release(await waiting[0])
        budget.release(await waiting[1])
        return began

    assert asyncio.run(run()) == [True, False]
