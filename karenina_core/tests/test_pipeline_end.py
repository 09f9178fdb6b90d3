"""Callbacks at the end of an answer are called even if the run is stopped. Items do not use up each other's time."""

from __future__ import annotations

import asyncio
import time

import pytest

from karenina_core import Question, Stage, VerificationConfig, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_core.pipeline import Pipeline
from karenina_core.plan import order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.context import Item, State
from karenina_engine.run.plugin_offers import find_observers
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_testing import ScriptedModels


def test_callbacks_of_a_cancelled_answer_run() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    class Waits(Stage):
        name = "Waits"
        scope = "answer"

        async def execute(self, context: VerificationContext) -> None:
            context.at_end(lambda: ended.append(context.question.id))
            started.set()
            await asyncio.Event().wait()

    plugins = Plugins()
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig()
    item = Item(
        question=Question(question="Which?", id="q"),
        answering_model=ScriptedModels().model(),
        parsing_model=None,
        replicate=1,
        config=config,
        ports=PortFactory(RunParts(plugins, config)),
        trust=Trust(),
    )

    async def cancelled() -> None:
        making = asyncio.create_task(
            Pipeline(order_stages([SelectedStage(Waits(), "tests", "0")]), find_observers(plugins)).answer(item)
        )
        await started.wait()
        making.cancel()
        await making

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert ended == ["q"]


def test_waiting_for_other_items_takes_nothing_of_an_items_time() -> None:
    class Works(Stage):
        name = "Works"
        description = "Takes a while without waiting."

        def execute(self, context: VerificationContext) -> None:
            time.sleep(0.02)

    class Waits(Stage):
        name = "Waits"
        description = "Waits for a moment."

        async def execute(self, context: VerificationContext) -> None:
            await asyncio.sleep(0.001)

    plugins = Plugins()
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig()
    ports = PortFactory(RunParts(plugins, config))
    item = Item(Question(question="Which?", id="q"), ScriptedModels().model(), None, 1, config, ports, Trust())
    stages = order_stages([SelectedStage(Works(), "tests", "0"), SelectedStage(Waits(), "tests", "0")])
    pipeline = Pipeline(stages, find_observers(plugins), item_timeout=0.5)

    async def together() -> list[State]:
        return await asyncio.gather(*(pipeline.answer(item) for _ in range(50)))

    answers = asyncio.run(together())
    assert [record.error for answer in answers for record in answer.records if record.error is not None] == []
