"""The runner of items in one process: it generates answers and lets each judge evaluate them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from karenina_core.stages.context import Item
from karenina_engine.calls.port_factory import PortFactory
from karenina_engine.cost.budget import OverBudget
from karenina_engine.scheduling.events import ItemStarted
from karenina_engine.scheduling.matrix import judges_of
from karenina_engine.scheduling.observers import NO_OBSERVERS, Observers
from karenina_engine.scheduling.panel import PanelAnswer
from karenina_engine.scheduling.planner import Planner
from karenina_engine.scheduling.settings import EngineSettings
from karenina_toolkit.reply_bounds import ReplyBounds

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.source_folder import SourceFolder
    from karenina_core.pipeline import Pipeline
    from karenina_core.plugins import Plugins
    from karenina_core.stages.context import State
    from karenina_engine.calls.call import BudgetGuard, CallLedger, ReplyStore
    from karenina_engine.calls.call_runner import CallRunner
    from karenina_engine.calls.concurrency_limits import Concurrency, ConcurrencyLimits
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.tasks import AnswerTask
    from karenina_engine.scheduling.panel import Panel

logger = logging.getLogger("karenina")

OnResult = Callable[[int, "VerificationResult"], Awaitable[None]]
"""Called with the index of the judge among the judges of its answer, and the result."""


class ItemRunner:
    """A runner that generates answers and lets judges evaluate them, any number at once, in one event loop.

    A run has one; an executor that works in other processes makes one in each. `concurrency` limits the calls in flight
    of this one; `offline` says that no model may be called, since the `reply_store` has all replies. `observers`
    receive the events. `planner` holds the plans for these observers, if some were made before. `ledger` counts the
    calls, and `budget` must cover them. `panel` takes the place of the judges. `aclose` ends it.
    """

    def __init__(
        self,
        config: VerificationConfig,
        plugins: Plugins,
        *,
        trust: Trust,
        policy: RetryPolicy | None = None,
        reply_store: ReplyStore | None = None,
        offline: bool = False,
        concurrency: Concurrency | None = None,
        observers: Observers = NO_OBSERVERS,
        planner: Planner | None = None,
        ledger: CallLedger | None = None,
        budget: BudgetGuard | None = None,
        panel: Panel | None = None,
    ) -> None:
        core, settings = config.core, config.section(EngineSettings)
        self.config = config
        self.planner = planner or Planner(config, plugins, observers)
        self._trust = trust
        self._panel = panel
        self._port_factory = PortFactory(
            plugins,
            core.request_timeout,
            policy or settings.retry_policy(),
            reply_store,
            offline=offline,
            concurrency=concurrency or settings.concurrency(),
            observers=observers,
            bounds=ReplyBounds(core.max_reply_bytes, core.stream_timeout),
            ledger=ledger,
            budget=budget,
        )
        self._observers = observers

    @property
    def judges(self) -> tuple[ModelConfig | None, ...]:
        """The judges of each answer."""
        return judges_of(self.config, self._panel)

    @property
    def calls(self) -> CallRunner:
        """The runner of model calls."""
        return self._port_factory.calls

    @property
    def limits(self) -> ConcurrencyLimits:
        """The current concurrency limits of the models."""
        return self._port_factory.calls.limits

    def model_identities(self) -> dict[tuple[str, str], list[bytes]]:
        """Return the identities of the configured models, as digests, by port and id."""
        core = self.config.core
        return self._port_factory.identities((*core.answering_models, *core.parsing_models))

    async def answer(self, task: AnswerTask, judges: Sequence[int], on_result: OnResult) -> None:
        """Generate one answer and let these of its judges evaluate it; `on_result` is called with each result.

        An item that the budget of the run does not cover has no result.
        """
        try:
            await self._answer(task, judges, on_result)
        except* OverBudget:
            logger.debug("[%s] not run, or not by every judge: the budget is spent", task.question.id)

    async def _answer(self, task: AnswerTask, judges: Sequence[int], on_result: OnResult) -> None:
        pipeline = self.planner.pipeline(task.question)
        sources = pipeline.plan.source_folders(self.config, task.question)
        whole = self._item(task, None, sources)
        with self._observers.answer_events(whole):
            answer = await pipeline.answer(whole)
            try:

                async def judge(which: int) -> None:
                    item = self._item(task, which, sources)
                    if self._observers.observes_items:
                        self._observers.item_started(ItemStarted(item))
                    await on_result(which, await self._judge(pipeline, answer, item))

                async def judge_if_covered(which: int) -> None:
                    try:
                        await judge(which)
                    except* OverBudget:  # other judges may cost less
                        logger.debug("[%s] not judged: the budget is spent", task.question.id)

                if len(judges) == 1:
                    await judge(judges[0])
                else:
                    async with asyncio.TaskGroup() as group:
                        for which in judges:
                            group.create_task(judge_if_covered(which))
            finally:
                await pipeline.end(answer)

    async def _judge(self, pipeline: Pipeline, answer: State, item: Item) -> VerificationResult:
        """Return the result of the item's judge, or of the panel in its place."""
        if self._panel is None:
            return await pipeline.judge(answer, item)

        async def ask(model: ModelConfig) -> VerificationResult:
            return await pipeline.judge(answer, replace(item, parsing_model=model))

        return await self._panel.evaluate(PanelAnswer(item.question, item.trust, len(answer.records), ask))

    def make_failed_result(self, task: AnswerTask, judge: int, message: str) -> VerificationResult:
        """Return the error result of an item that could not be run; a resumed run tries it again."""
        pipeline = self.planner.pipeline(task.question)
        sources = pipeline.plan.source_folders(self.config, task.question)
        return pipeline.failed(self._item(task, judge, sources), message)

    async def aclose(self) -> None:
        """Close all ports and tools."""
        await self._port_factory.aclose()

    def _item(self, task: AnswerTask, judge: int | None, sources: tuple[SourceFolder, ...]) -> Item:
        return Item(
            question=task.question,
            answering_model=task.answering_model,
            parsing_model=task.judges[judge] if judge is not None else None,
            replicate=task.replicate,
            config=self.config,
            ports=self._port_factory,
            trust=self._trust,
            run_name=self.config.core.run_name,
            order=task.order,
            sources=sources,
        )
