"""Tests of the seconds in results: those of work, and apart from them those of waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from journal_runs import AT_ONCE, GenerateText, make_benchmark
from looping_agent import LoopingAgent

from karenina_core import ArtifactKeys, Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.sections import StageRecord
from karenina_core.models import ports
from karenina_core.models.adapters import AdapterSpec
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine import plugin as engine
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.tables import result_table

CALL = 0.1
"""The seconds that a call takes at least; timers may be a little early."""


class SlowModel:
    """A plugin with a model whose calls take more than `CALL` seconds. The first ones fail as `failures` say."""

    def __init__(self, *failures: ports.ErrorCategory | None, stage: type[Stage] = GenerateText) -> None:
        self._failures = list(failures)
        self._stage = stage
        self.calls = 0
        self.seconds = 1.1 * CALL

    def run(self, ids: str, *, at_once: int = 1, **more: Any) -> VerificationResultSet:
        """Return the results of questions with these ids. The model is called `at_once` times at once."""
        plugins = Plugins()
        plugins.register(engine)
        plugins.register(self, distribution="karenina-test", version="1")
        config = {
            "answering_models": [{"id": "m", "interface": "slow", "model_name": "m"}],
            "evaluation_mode": "rubric_only",
            "model_concurrency": {"m": at_once},
        }
        with plugin_room.use_plugins(plugins):
            return make_benchmark(*ids).run_verification(config, **{"policy": AT_ONCE, **more})

    @hookimpl
    def karenina_adapters(self) -> list[AdapterSpec]:
        return [AdapterSpec(interface="slow", description="", llm=lambda _: self)]

    @hookimpl
    def karenina_generate_answer(self) -> Sequence[type[Stage]]:
        return [self._stage]

    @hookimpl
    def karenina_finalize_result(self) -> Sequence[type[Stage]]:
        return [FinalizeResult]

    async def aclose(self) -> None:
        """Do nothing."""

    async def invoke(
        self, messages: Sequence[ports.Message], *, info: ports.CallInfo = ports.NO_INFO
    ) -> ports.LLMReply:
        del messages, info
        self.calls += 1
        await asyncio.sleep(self.seconds)
        if self._failures and (failure := self._failures.pop(0)) is not None:
            raise ports.PortError("not now", category=failure)
        return ports.LLMReply("yes", ports.Usage(1, 1, calls=1))


class SlowAgent(SlowModel):
    """The same with agents, which use a tool that takes twice as long as a turn."""

    def __init__(self) -> None:
        super().__init__(stage=Work)

    @hookimpl
    def karenina_adapters(self) -> list[AdapterSpec]:
        return [AdapterSpec(interface="slow", description="", agent=lambda _: LoopingAgent(lambda: TwoTurns(self)))]


class TwoTurns:
    """A conversation in which the model calls the tool once and then answers."""

    where = "m"

    def __init__(self, model: SlowModel) -> None:
        self._model = model
        self._turns = 0

    async def request_turn(self, tools: Mapping[str, ports.Tool], *, first: bool) -> ports.Turn:
        del tools, first
        reply = await self._model.invoke([])
        self._turns += 1
        calls = [ports.ToolCall("1", "sleep")] if self._turns == 1 else []
        return ports.Turn(ports.Message.assistant("" if calls else reply.text, calls), reply.usage)

    def add_turn(self, turn: ports.Turn) -> None:
        """Do nothing."""

    def add_results(self, results: Sequence[ports.Message]) -> None:
        """Do nothing."""


class Sleep:
    name = "sleep"
    description = "Sleeps."
    schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        del arguments
        await asyncio.sleep(2.1 * CALL)
        return "slept"


class Work(GenerateText):
    async def execute(self, context: VerificationContext) -> None:
        asked = [ports.Message.user(context.question.question)]
        reply = await context.agent(context.answering_model).run(asked, ports.AgentOptions(tools=(Sleep(),)))
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, reply.trace[-1].content)


class ThreeCalls(GenerateText):
    async def execute(self, context: VerificationContext) -> None:
        llm = context.llm(context.answering_model)
        await asyncio.gather(*(llm.invoke([ports.Message.user(f"{n}. {context.question.question}")]) for n in range(3)))
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, "yes")


def answers(results: VerificationResultSet) -> list[StageRecord]:
    return [one for one in (result.stage("Say") for result in results) if one is not None]


def test_waiting_for_a_limit_is_no_time_of_work() -> None:
    began = time.monotonic()
    results = SlowModel().run("abcdefgh")
    elapsed = time.monotonic() - began

    assert all(one.seconds >= CALL for one in answers(results))
    assert max(one.waited for one in answers(results)) >= CALL
    assert 8 * CALL <= sum(one.metadata.execution_time for one in results) <= elapsed  # one call at a time


@pytest.mark.parametrize("at_once", [1, 3])
def test_calls_at_once_take_the_time_of_all(at_once: int) -> None:
    model = SlowModel(stage=ThreeCalls)
    if at_once == 3:  # a busy machine begins calls that wait for nothing late, too
        model.seconds = 11 * CALL
    record = answers(model.run("a", at_once=at_once))[0]

    assert record.seconds >= 3 * CALL
    assert (record.waited >= 3 * model.seconds / 1.1) is (at_once == 1)


def test_failed_requests_are_work_and_delays_are_waiting() -> None:
    (result,) = SlowModel(ports.ErrorCategory.SERVER).run("a", policy=RetryPolicy(base=0.4))

    (record,) = answers(VerificationResultSet([result]))
    assert record.seconds >= 2 * CALL
    assert record.waited >= 0.2
    assert result.metadata.execution_time >= record.seconds


def test_a_reply_of_the_journal_has_the_seconds_of_its_call(tmp_path: Path) -> None:
    first, again = SlowModel(None, None, ports.ErrorCategory.PERMANENT, stage=ThreeCalls), SlowModel(stage=ThreeCalls)
    first.run("a", journal=tmp_path / "a.journal")
    (result,) = again.run("a", journal=tmp_path / "a.journal")

    assert again.calls == 1
    assert answers(VerificationResultSet([result]))[0].seconds >= 3 * CALL
    assert result.metadata.execution_time >= 3 * CALL


def test_the_table_of_calls_has_the_same_seconds(tmp_path: Path) -> None:
    results = SlowModel().run("abcd", journal=tmp_path / "a.journal")

    with JournalView(tmp_path / "a.journal") as view:
        calls = list(view.calls())
    records = [row for row in result_table(results, "stages") if row["stage"] == "Say"]
    for column in ("seconds", "waited"):
        of_calls, of_stages = (sum(float(str(row[column])) for row in rows) for rows in (calls, records))
        assert of_calls == pytest.approx(of_stages, abs=4 * CALL)
        assert of_calls >= 4 * CALL


def test_tools_of_agents_work_and_their_turns_may_wait() -> None:
    began = time.monotonic()
    records = answers(SlowAgent().run("ab"))
    elapsed = time.monotonic() - began

    assert all(one.seconds >= 4 * CALL for one in records)  # two turns and a tool
    assert sum(one.seconds + one.waited for one in records) <= 2 * elapsed
    assert max(one.waited for one in records) >= CALL / 2
