"""A run: the order of its calls, its time limits, and its reports of unfinished items."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from string import ascii_letters
from typing import Any

import pytest
from command_runs import make_plugins
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark
from karenina_core import ArtifactKey, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.outcome import Outcome
from karenina_core.errors import RunError
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import NO_INFO, CallInfo, ErrorCategory, LLMReply, Message, PortError
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.progress.observers import RunFinished
from karenina_engine.results.aggregate import OutcomeTally
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.run.execution import collect_results, run_blocking
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession
from karenina_testing.virtual_time import run_in_virtual_time

JUDGED = ArtifactKey("test.judged", str)


@dataclass(eq=False)
class Live:
    """A plugin with models that answer as `reply` does, and a stage that calls a judge. `asked` lists the calls."""

    reply: Callable[[CallInfo], Awaitable[str]]
    asked: list[tuple[str, str]] = field(default_factory=list)
    now: int = 0
    most: int = 0
    finished: RunFinished | None = None

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        self.asked.append((info.question_id, info.task))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return LLMReply(await self.reply(info))
        finally:
            self.now -= 1

    async def aclose(self) -> None:
        """Do nothing."""

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [AdapterSpec(interface="live", description="Answers.", llm=lambda _: self)]

    @hookimpl
    def karenina_extra_stages(self) -> Sequence[type[Stage]]:
        return [Judge]

    @hookimpl
    def karenina_run_finished(self, event: RunFinished) -> None:
        self.finished = event


class Judge(Stage):
    """A stage that calls the judge, if there is one."""

    name = "Judge"
    usage_key = "judging"
    produces = frozenset({JUDGED})

    def included(self, config: VerificationConfig, question: object) -> bool:
        return bool(config.core.parsing_models)

    async def execute(self, context: VerificationContext) -> None:
        reply = await context.llm().invoke([], info=context.call_info)
        context.set_artifact(JUDGED, reply.text)


def run(
    live: Live,
    ids: str,
    *,
    judges: Sequence[str] = (),
    policy: RetryPolicy | None = None,
    collected: Callable[[RunSession], Coroutine[Any, Any, VerificationResultSet]] = collect_results,
    **values: Any,
) -> VerificationResultSet:
    """Return the results of a run over questions with these ids, as `collected` takes them."""
    benchmark = Benchmark.create("Words")
    for id in ids:
        benchmark.add_question(f"What is {id}?", question_id=id)
    plugins = make_plugins()
    plugins.register(live, distribution="karenina-test", version="1")

    def models(ids: Sequence[str]) -> list[dict[str, Any]]:
        return [{"id": id, "interface": "live", "model_name": id} for id in ids]

    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            evaluation_mode="rubric_only",
            answering_models=models(values.pop("answering", ["m"])),
            parsing_models=models(judges),
            **values,
        )
        return run_in_virtual_time(collected(prepare_session(RunRequest(benchmark, config, policy=policy))))


def test_calls_of_one_question_follow_one_another() -> None:
    async def reply(info: CallInfo) -> str:
        for _ in range(1 + 10 * (len(live.asked) % 4)):  # turns of the event loop: a busy machine changes nothing
            await asyncio.sleep(0)
        return "yes"

    live = Live(reply)
    run(live, "uvwxyz", judges=["j"], answering=["a", "b", "c"], replicate_count=3, max_concurrency=4)

    judged = [question for question, task in live.asked if task == "judging"]
    assert len(judged) == 6 * 9
    for question in "uvwxyz":
        first, last = judged.index(question), len(judged) - judged[::-1].index(question)
        assert len([one for one in judged[first:last] if one != question]) <= 4, judged
    assert live.most == 4


def test_items_in_progress_end_before_others_begin() -> None:
    async def reply(info: CallInfo) -> str:
        await asyncio.sleep(0.001)
        return "yes"

    live = Live(reply)
    run(live, "abcdefghijklmnop", judges=["m"], model_concurrency={"m": 2})

    begun: list[str] = []
    open_at_once = 0
    for question, task in live.asked:
        if task == "judging":
            begun.remove(question)
        else:
            begun.append(question)
        open_at_once = max(open_at_once, len(begun))
    assert open_at_once <= 2 + 2


def test_an_item_that_times_out_is_an_error() -> None:
    async def reply(info: CallInfo) -> str:
        await asyncio.sleep(90 if info.question_id == "b" else 0)
        return "yes"

    found = {one.question_id: one for one in run(Live(reply), "abc", item_timeout=30)}

    assert [found[id].outcome for id in "abc"] == [Outcome.SCORED, Outcome.TIMED_OUT, Outcome.SCORED]
    assert "item_timeout" in (found["b"].metadata.error or "")
    assert found["b"].template.verify_result is None


def test_the_time_limit_of_an_item_leaves_out_the_stages_of_others() -> None:
    """Items that are ready run a stage one after the other, and each may take as long as if it were alone."""

    class Many(Live):
        @hookimpl
        def karenina_adapters(self) -> Sequence[AdapterSpec]:
            return [AdapterSpec(interface="live", description="Answers.", llm=lambda _: self, concurrency=lambda _: 64)]

    async def reply(info: CallInfo) -> str:
        time.sleep(0.02 if info.task == "judging" else 0)  # noqa: ASYNC251 - a stage that computes
        return "yes"

    found = run(Many(reply), ascii_letters, judges=["j"], item_timeout=0.5)

    assert {one.outcome for one in found} == {Outcome.SCORED}


def test_the_time_limit_of_an_item_includes_its_judges() -> None:
    async def reply(info: CallInfo) -> str:
        await asyncio.sleep(90 if info.task == "judging" else 0)
        return "yes"

    (found,) = run(Live(reply), "a", judges=["j"], item_timeout=30)

    assert found.template.raw_llm_response == "yes"
    record = found.stage("Judge")
    assert record is not None
    assert "item_timeout" in (record.error or "")


def test_a_run_that_times_out_keeps_its_finished_items(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reply(info: CallInfo) -> str:
        await asyncio.sleep({"a": 0, "b": 31}.get(info.question_id, 90))  # b is in flight when the time is up
        return "yes"

    live = Live(reply)
    with caplog.at_level(logging.WARNING, logger="karenina"):
        found = run(live, "abcde", run_timeout=30)

    assert sorted(one.question_id for one in found) == ["a", "b"]
    assert live.now == 0
    assert "stopped after 2 of 5 items" in caplog.text
    assert "run_timeout = 30 s" in caplog.text
    assert "3 items have no result" in caplog.text
    assert live.finished is not None
    assert (live.finished.interrupted, live.finished.summary.items) == (True, 2)


def test_the_time_limit_leaves_calls_the_time_that_ctrl_c_gave_them() -> None:
    async def reply(_info: CallInfo) -> str:
        await asyncio.sleep(31)
        return "yes"

    async def stopped(session: RunSession) -> VerificationResultSet:
        asyncio.get_running_loop().call_later(29, partial(session.stop, "enough", grace=3.0))
        return await collect_results(session)

    assert len(run(Live(reply), "ab", collected=stopped, run_timeout=30)) == 2


def test_other_calls_pass_one_that_waits_for_a_retry() -> None:
    async def reply(info: CallInfo) -> str:
        if info.question_id == "a" and live.asked.count(("a", info.task)) == 1:
            raise PortError("later", category=ErrorCategory.SERVER, retry_after=0.2)
        return "yes"

    live = Live(reply)
    found = run(live, "abcd", model_concurrency={"m": 1})

    assert [question for question, _ in live.asked] == ["a", "b", "c", "d", "a"]
    assert {one.outcome for one in found} == {Outcome.SCORED}


@pytest.mark.parametrize("retry_after", [None, 0.01])
def test_a_slow_server_refuses_few_calls(retry_after: float | None) -> None:
    async def reply(info: CallInfo) -> str:
        nonlocal refused
        if live.now > 5:
            refused += 1
            raise PortError("busy", category=ErrorCategory.RATE_LIMIT, status=429, retry_after=retry_after)
        await asyncio.sleep(0.002)
        return "yes"

    refused = 0
    live = Live(reply)
    found = run(live, "abcdefghij", replicate_count=40, policy=RetryPolicy(base=0.01))

    assert {one.outcome for one in found} == {Outcome.SCORED}
    assert len(found) == 400
    assert refused < 100


def test_a_stage_with_a_fatal_error_fails_its_item_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaks(BaseException):
        pass

    async def reply(info: CallInfo) -> str:
        if info.question_id == "b":
            raise Breaks
        return "yes"

    found = {one.question_id: one for one in run(Live(reply), "abc")}

    assert [found[id].outcome for id in "abc"] == [Outcome.SCORED, Outcome.STAGE_ERROR, Outcome.SCORED]
    assert "[b] Say of karenina-test 1.2 failed: Breaks" in caplog.text


def test_a_plugin_task_that_ends_the_program_is_an_error() -> None:
    async def leaves() -> None:
        raise SystemExit("no more of this")

    async def a_run() -> None:
        await asyncio.create_task(leaves())

    with pytest.raises(RunError, match=r"tried to end the program: SystemExit: no more of this, raised in leaves"):
        run_blocking(a_run)


OUTCOMES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(list(Outcome)), st.none() | st.floats(0, 1)), max_size=60
)


@given(OUTCOMES)
def test_a_growing_summary_is_the_same_with_folded_questions(items: list[tuple[str, Outcome, Any]]) -> None:
    tally, folding, ungraded = OutcomeTally(), OutcomeTally(per_question=3), OutcomeTally()
    rounds = [(f"{question}{number // 3}", outcome, grade) for number, (question, outcome, grade) in enumerate(items)]
    for question, outcome, grade in rounds:
        tally.add(outcome, question, grade)
        folding.add(outcome, question, grade)
        ungraded.add(outcome, question)

    assert folding.summary() == tally.summary()
    without_grades = {"mean_granular": None, "granular_out_of": 0}
    assert tally.summary().model_copy(update=without_grades) == ungraded.summary()


def test_a_slow_consumer_slows_the_run() -> None:
    async def reply(info: CallInfo) -> str:
        return "yes"

    live = Live(reply)
    asked_meanwhile = 0

    async def taken_slowly(prepared: RunSession) -> VerificationResultSet:
        nonlocal asked_meanwhile
        async with aclosing(prepared.results()) as results:
            found = [await anext(results)]
            await asyncio.sleep(1.0)
            asked_meanwhile = len(live.asked)
            found += [one async for one in results]
        return VerificationResultSet(found)

    found = run(live, "a", collected=taken_slowly, replicate_count=400, max_concurrency=4)

    assert 100 < asked_meanwhile < 200
    assert len(found) == len(live.asked) == 400
