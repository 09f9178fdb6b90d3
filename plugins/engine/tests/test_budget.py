"""Tests of budgets: calls are reserved before they are made, and a stopped run continues when the budget is raised."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina, write_benchmark
from hypothesis import given
from hypothesis import strategies as st
from journal_runs import CONFIG, ScriptedRuns, make_benchmark, make_model, summarize

from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, ErrorCategory, LLMReply, Message, ParserReply, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.calls.call_runner import CallRunner
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.calls.reply_json import copy_error
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.cost.budget import Budget, OverBudget
from karenina_engine.cost.ledger import Ledger, LedgerLine, PriceTable, SpendCounts
from karenina_engine.cost.price_source import OwnPrice, to_dollars
from karenina_testing import ScriptedModels
from karenina_toolkit.structured.reply_checks import check_reply

MODEL = ModelConfig(id="m", interface="scripted", model_name="m", max_tokens=100)
PRICE = OwnPrice(input=1, output=1)


def calls_of(budget: int, places: int) -> CallRunner:
    plugins = Plugins()
    plugins.register(ScriptedModels())
    ledger = Ledger(PriceTable(plugins, {"m": PRICE}))
    return CallRunner(ConcurrencyLimits(lambda _: Bounds(places, places)), ledger=ledger, budget=Budget(budget, ledger))


def budget_of(calls: CallRunner) -> Budget:
    assert isinstance(calls.budget, Budget)
    return calls.budget


def call(order: int, *, begins: bool = False) -> Call:
    info = CallInfo(str(order), order=order, stage="S", shared=begins)
    return Call(Endpoint("llm", MODEL, "scripted 1", {}), [Message.user("Which gene?")], info)


def observe(budget: Budget) -> None:
    """Let a reply to an earlier call cost nothing, so that calls need not be made one by one."""
    budget.spend(call(0), Usage(0, 100, calls=1), 0)


async def make(calls: CallRunner, one: Call, output: int) -> bool:
    async def ask() -> LLMReply:
        assert budget_of(calls).reserved > 0
        await asyncio.sleep(0)
        return LLMReply("BCL2", Usage(10, output, calls=1))

    try:
        await calls.make(one, ask)
    except OverBudget:
        return False
    return True


@given(
    outputs=st.lists(st.integers(1, 100), max_size=30),
    limit=st.integers(0, 5_000),
    places=st.integers(1, 8),
    begins=st.integers(0, 30),
)
def test_budget_holds_if_calls_cost_their_maximum(outputs: list[int], limit: int, places: int, begins: int) -> None:
    calls = calls_of(limit * 10**6, places)
    budget = budget_of(calls)

    async def all_at_once() -> list[bool]:
        return await asyncio.gather(
            *(make(calls, call(at, begins=at >= begins), output) for at, output in enumerate(outputs))
        )

    made = asyncio.run(all_at_once())
    spent = sum(10 + output for output, was_made in zip(outputs, made, strict=True) if was_made) * 10**6
    assert calls.ledger is not None
    assert calls.ledger.total().cost == budget.spent == spent
    assert budget.reserved == 0
    most = max((10 + output for output in outputs), default=0) * 10**6
    assert spent <= budget.limit + most
    assert budget.exhausted == (not all(made))


def test_uncovered_call_waits_for_calls_in_flight() -> None:
    async def three() -> list[bool]:
        calls = calls_of(350 * 10**6, 8)
        most = budget_of(calls).max_cost(call(1))
        assert 2 * most <= budget_of(calls).limit < 3 * most
        return await asyncio.gather(make(calls, call(1), 20), make(calls, call(2), 20), make(calls, call(3), 20))

    assert asyncio.run(three()) == [True, True, True]


def test_waiting_for_the_budget_is_counted_as_waiting() -> None:
    async def make_two() -> tuple[Call, Call]:
        calls = calls_of(10_000 * 10**6, places=2)  # the first call of a model is made alone

        async def ask() -> LLMReply:
            await asyncio.sleep(0.3)
            return LLMReply("yes", Usage(10, 10, calls=1))

        first, second = call(1), call(2)
        await asyncio.gather(calls.make(first, ask), calls.make(second, ask))
        return first, second

    first, second = asyncio.run(make_two())
    assert second.notes.queued - first.notes.queued >= 0.25
    assert second.notes.seconds >= 0.25


def test_exhausted_budget_judges_existing_answers_and_starts_none() -> None:
    async def run() -> list[bool]:
        calls = calls_of(260 * 10**6, 1)
        calls.budget = Budget(260 * 10**6, calls.ledger, spent=100 * 10**6)  # type: ignore[arg-type] # it has one
        dear = ModelConfig(id="m", interface="scripted", model_name="m", max_tokens=9000)
        first = Call(Endpoint("llm", dear, "scripted 1", {}), [Message.user("?")], CallInfo("1", order=1, stage="T"))
        small = MODEL.model_copy(update={"max_tokens": 5})
        judged = Call(Endpoint("llm", small, "scripted 1", {}), [Message.user("?")], CallInfo("2", order=2, stage="J"))
        begun = Call(
            Endpoint("llm", small, "scripted 1", {}),
            [Message.user("?")],
            CallInfo("3", order=3, stage="G", shared=True),
        )
        return await asyncio.gather(*(make(calls, one, 1) for one in (first, begun, judged)))

    assert asyncio.run(run()) == [False, False, True]


def test_what_is_waited_for_in_vain_is_not_held() -> None:
    async def run() -> int:
        calls = calls_of(10**12, 1)
        waiting = asyncio.create_task(make(calls, call(1), 5))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return budget_of(calls).reserved

    assert asyncio.run(run()) == 0


def test_forfeited_reservation_is_not_spent_again() -> None:
    async def run() -> tuple[int, bool]:
        budget = budget_of(calls_of(350 * 10**6, 8))
        observe(budget)
        lost = [await budget.reserve(call(order)) for order in (1, 2)]
        waiting = asyncio.create_task(budget.reserve(call(3)))
        await asyncio.sleep(0)
        for reserved in lost:
            budget.forfeit(reserved)
        with pytest.raises(OverBudget):
            await waiting
        assert budget.reserved == 0
        assert "was reserved for calls that were cut off" in budget.describe_exhaustion()
        return budget.lost - 2 * budget.max_cost(call(3)), budget.exhausted

    assert asyncio.run(run()) == (0, True)


PRICED: dict[str, Any] = {
    "answering_models": [make_model("m")],
    "prices": {"m": {"input": 1, "output": 1}, "j": {"input": 10, "output": 10}},
    "max_concurrency": 4,
}
EACH = Decimal("0.0015") + Decimal("0.01")  # an answer, and a judge's reply to it


def world() -> ScriptedRuns:
    return ScriptedRuns(
        answers=lambda text: LLMReply(f"an answer to {text}", Usage(1000, 500, calls=1)),
        counts=lambda text: ParserReply('{"words": 1}', "json_schema", Usage(700, 300, calls=1)),
    )


def test_run_stops_at_its_budget_and_continues_when_raised(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(40)]
    whole, stopped = world(), world()
    undisturbed = whole.run(make_benchmark(*ids), journal=tmp_path / "whole.journal", config=PRICED)
    half = EACH * len(ids) / 2
    config = {**PRICED, "budget": half}
    first = stopped.run(make_benchmark(*ids), journal=tmp_path / "a.journal", config=config)

    assert 0 < len(first) < len(undisturbed)
    assert half - Decimal("0.02") < _spent(tmp_path / "a.journal") <= half

    more = stopped.run(
        make_benchmark(*ids), journal=tmp_path / "a.journal", config={**PRICED, "budget": EACH * len(ids) * 9}
    )
    assert summarize(more) == summarize(undisturbed)
    assert sorted(stopped.calls) == sorted(whole.calls)
    assert _spent(tmp_path / "a.journal") == _spent(tmp_path / "whole.journal") == EACH * len(ids)


def test_budget_spent_by_earlier_runs_allows_no_call(tmp_path: Path) -> None:
    one = world()
    one.run(make_benchmark("a", "b"), journal=tmp_path / "a.journal", config=PRICED)
    known = len(one.calls)
    found = one.run(make_benchmark("a", "b", "c"), journal=tmp_path / "a.journal", config={**PRICED, "budget": EACH})
    assert {result.question_id for result in found} == {"a", "b"}
    assert len(one.calls) == known


def test_a_budget_needs_every_price() -> None:
    with pytest.raises(ConfigError, match=r"a budget needs the price of 'n', which is unknown.*prices\.n = "):
        world().run(make_benchmark("a"), config={"budget": 1, "prices": {"m": PRICE, "j": PRICE}})


def test_a_model_that_is_free_takes_nothing_of_it() -> None:
    free = {name: {"input": 0, "output": 0} for name in "mnj"}
    assert len(world().run(make_benchmark("a"), config={"budget": 0, "prices": free})) == 2


@pytest.mark.parametrize("budget", ["-1", "0.0000001", "much"])
def test_a_budget_is_a_sum_of_money(budget: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        VerificationConfig(**{**CONFIG, "budget": budget})


MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
PRICES = ("--set", 'prices={"m": {"input": 1, "output": 1}, "j": {"input": 10, "output": 10}}')


def test_a_quiet_run_is_continued_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, here = write_benchmark(tmp_path, *(f"q{number}" for number in range(9))), world()
    done = run_karenina("run", file, *MODELS, *PRICES, "--budget", "0.05", "--quiet", plugins=here.plugins())
    assert "`karenina resume words.journal --budget MORE --quiet`" in done.err


def test_command_says_how_to_continue_after_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, here = write_benchmark(tmp_path, *(f"q{number}" for number in range(9))), world()
    first = run_karenina("run", file, *MODELS, *PRICES, "--budget", "0.05", "--json", plugins=here.plugins())

    assert first.code == 3
    assert first.json["not_run"] == 9 - len(first.json["results"]) > 0
    assert first.json["stopped"].startswith("the run's budget of $0.0500 does not cover the next call")
    assert first.json["money"]["budget_spent"]
    assert "karenina resume words.journal --budget MORE" in first.err
    assert "a budget of $0.051 or more" in first.err

    again = run_karenina("resume", "words.journal", "--budget", "1", "--json", plugins=here.plugins())
    assert (again.code, again.json["not_run"], len(again.json["results"])) == (0, 0, 9)
    assert len(here.calls) == len(set(here.calls)) == 18
    assert again.json["money"]["earlier"]["calls"] + again.json["money"]["spent"]["calls"] == 18

    status = run_karenina("status", "words.journal", "--json", plugins=here.plugins()).json
    assert status["spent"]["spent"]["calls"] == 18
    assert status["spent"]["spent"]["cost_usd"] == pytest.approx(9 * 0.0115)
    assert not list(tmp_path.glob("words.results-*"))


def _spent(journal: Path) -> Decimal:
    from karenina_engine.journal.view import JournalView

    with JournalView(journal) as view:
        return to_dollars(sum(line.spent.cost for line in view.spent()))


def test_replies_that_are_not_used_are_spent_too() -> None:
    calls = calls_of(10_000 * 10**6, 1)

    async def ask() -> LLMReply:
        raise PortError("an empty reply", category=ErrorCategory.EMPTY, usage=Usage(10, 50, calls=1))

    with pytest.raises(PortError) as caught:
        asyncio.run(calls.make(call(0), ask))
    assert caught.value.usage == Usage(20, 100, calls=2), "it was requested once more"
    assert budget_of(calls).spent == 120 * 10**6


def test_a_reply_after_one_that_was_not_used_has_the_tokens_of_both() -> None:
    calls = calls_of(10_000 * 10**6, 1)
    replies: list[LLMReply | PortError] = [
        PortError("an empty reply", category=ErrorCategory.EMPTY, usage=Usage(10, 50, calls=1)),
        LLMReply("BCL2", Usage(10, 5, calls=1)),
    ]

    async def ask() -> LLMReply:
        reply = replies.pop(0)
        if isinstance(reply, PortError):
            raise reply
        return reply

    assert asyncio.run(calls.make(call(0), ask)).usage == Usage(20, 55, calls=2)
    assert budget_of(calls).spent == 75 * 10**6


@given(limit=st.integers(0, 20_000), hidden=st.integers(0, 5_000))
def test_tokens_beyond_the_limit_of_a_model_exceed_a_budget_by_one_call_at_most(limit: int, hidden: int) -> None:
    calls = calls_of(limit * 10**6, 1)

    async def one_by_one() -> None:
        for order in range(30):
            await make(calls, call(order, begins=True), 100 + hidden)

    asyncio.run(one_by_one())
    assert budget_of(calls).spent <= (limit + 110 + hidden) * 10**6


@given(limit=st.integers(0, 20_000), failures=st.integers(0, 4), places=st.integers(1, 8))
def test_retries_of_paid_calls_stay_within_a_budget(limit: int, failures: int, places: int) -> None:
    calls = calls_of(limit * 10**6, places)
    calls.policy = RetryPolicy(base=0, cap=0)

    async def stubborn(order: int) -> bool:
        left = [PortError("broken off", category=ErrorCategory.SERVER, usage=Usage(10, 100, calls=1))] * failures

        async def ask() -> LLMReply:
            await asyncio.sleep(0)
            if left:
                raise copy_error(left.pop())
            return LLMReply("BCL2", Usage(10, 100, calls=1))

        try:
            await calls.make(call(order, begins=True), ask)
        except OverBudget:
            return False
        return True

    async def all_at_once() -> list[bool]:
        return await asyncio.gather(*map(stubborn, range(20)))

    made = asyncio.run(all_at_once())
    assert budget_of(calls).spent <= limit * 10**6
    assert budget_of(calls).reserved == 0
    assert all(made) or budget_of(calls).exhausted


def test_a_retry_that_is_not_covered_releases_no_other_reservation() -> None:
    calls = calls_of(600 * 10**6, 2)
    calls.policy = RetryPolicy(base=0, cap=0)
    observe(budget_of(calls))

    async def two() -> list[LLMReply | BaseException]:
        over = asyncio.Event()

        async def slow() -> LLMReply:
            await over.wait()
            return LLMReply("BCL2", Usage(10, 5, calls=1))

        async def dear() -> LLMReply:
            asyncio.get_running_loop().call_later(0.05, over.set)
            raise PortError("broken off", category=ErrorCategory.SERVER, usage=Usage(10, 500, calls=1))

        found = calls.make(call(0), slow), calls.make(call(1, begins=True), dear)
        return await asyncio.gather(*found, return_exceptions=True)

    answered, refused = asyncio.run(two())
    assert isinstance(answered, LLMReply)
    assert isinstance(refused, OverBudget)
    assert budget_of(calls).reserved == 0


def test_other_calls_are_made_while_one_waits_for_its_retry() -> None:
    calls = calls_of(10_000 * 10**6, 8)
    calls.policy = RetryPolicy(base=0, cap=0)
    unlimited = MODEL.model_copy(update={"max_tokens": None})
    made: list[int] = []

    async def one(order: int) -> LLMReply:
        async def ask() -> LLMReply:
            made.append(order)
            if made.count(order) == 1:
                raise PortError("overloaded", category=ErrorCategory.SERVER, retry_after=0.05)
            return LLMReply("BCL2", Usage(10, 5, calls=1))

        info = CallInfo(str(order), order=order, stage="S", shared=True)
        return await calls.make(Call(Endpoint("llm", unlimited, "scripted 1", {}), [Message.user("?")], info), ask)

    async def three() -> None:
        await asyncio.gather(*map(one, range(3)))

    asyncio.run(three())
    assert made[:3] == [0, 1, 2]
    assert sorted(made) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("reply", "known"),
    [
        (LLMReply("", Usage(10, 0, calls=1), "content_filter"), True),
        (LLMReply("", Usage(10, 0, calls=1)), True),
        (LLMReply("BCL2", Usage(10, 0, calls=1)), False),
        (LLMReply("BCL", Usage(10, 0, calls=1), "content_filter"), False),
        (LLMReply("", Usage(10, 0, calls=1), reasoning="BCL2?"), False),
        (LLMReply("", Usage(10, 0, calls=1), "content_filter", reasoning="BCL2?"), False),
        (LLMReply("", Usage(10, 0, calls=1), "length"), False),
        (LLMReply("", Usage(0, 0, calls=1), "content_filter"), False),
    ],
)
def test_a_blank_reply_without_output_tokens_costs_its_prompt(reply: LLMReply, known: bool) -> None:
    calls = calls_of(10_000 * 10**6, 1)

    async def ask() -> LLMReply:
        return check_reply("m", reply)

    with suppress(PortError):
        asyncio.run(calls.make(call(0), ask))
    spent = budget_of(calls).ledger.total()
    assert spent.cost == (10 * 10**6 * spent.calls if known else 0)
    assert spent.known is known


def test_failed_requests_with_impossible_counts_return_no_money() -> None:
    calls = calls_of(10_000 * 10**6, 1)

    async def ask() -> LLMReply:
        raise PortError("broken off", category=ErrorCategory.PERMANENT, usage=Usage(-(10**6), 50, calls=1))

    with pytest.raises(PortError) as caught:
        asyncio.run(calls.make(call(0), ask))
    assert caught.value.usage == Usage(0, 50, calls=1)
    assert budget_of(calls).spent >= 50 * 10**6


@pytest.mark.parametrize(
    ("earlier", "spent"),
    [
        (SpendCounts(calls=4, output_tokens=100, cost=100 * 10**6, unpriced=3), 400),
        (SpendCounts(calls=4, input_tokens=50, output_tokens=100, unpriced=4), 150),
        (SpendCounts(calls=4, unpriced=4), 4 * (64 + 100)),
    ],
    ids=["like the others", "by their tokens", "as a full reply"],
)
def test_earlier_calls_of_unknown_cost_are_not_free(earlier: SpendCounts, spent: int) -> None:
    budget = budget_of(calls_of(10**12, 1))
    budget.ledger.before = [LedgerLine("m", "scripted", "m", "S", "", earlier)]
    budget.count_earlier([MODEL])
    assert budget.spent == spent * 10**6


def test_earlier_calls_of_unknown_cost_include_what_they_wrote_to_the_cache() -> None:
    plugins = Plugins()
    plugins.register(ScriptedModels())
    ledger = Ledger(PriceTable(plugins, {"m": OwnPrice(input=1, output=1, cache_write=3)}))
    counts = SpendCounts(calls=1, input_tokens=50, cache_write_tokens=40, unpriced=1)
    ledger.before = [LedgerLine("m", "scripted", "m", "S", "", counts)]
    budget = Budget(10**12, ledger)
    budget.count_earlier([MODEL])
    assert budget.spent == (10 + 40 * 3) * 10**6


def test_later_calls_reserve_what_searches_cost_in_earlier_ones() -> None:
    plugins = Plugins()
    plugins.register(ScriptedModels())
    ledger = Ledger(PriceTable(plugins, {"m": OwnPrice(input=1, output=1, web_searches=10)}))
    budget = Budget(10**12, ledger)
    searched, plain = Usage(10, 5, calls=1, web_searches=2), Usage(10, 5, calls=1)
    for usage in (searched, plain):
        budget.spend(call(0), usage, ledger.cost(call(0), usage))
    assert 2 * 10**10 < budget.max_cost(call(1)) < 3 * 10**10
