"""Callbacks at the end of an answer are called even if the run is stopped."""

from __future__ import annotations

import asyncio

import pytest

from karenina_core import Question, Stage, VerificationConfig, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_core.pipeline import Pipeline
from karenina_core.plan import order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.context import Item
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
