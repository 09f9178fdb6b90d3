"""What does the work on answers in one process: their plans, the models' ports, and the way through the judges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from karenina_core.stages.context import Item
from karenina_engine.calls.port_factory import PortFactory
from karenina_engine.cost.budget import OverBudget
from karenina_engine.scheduling.events import ItemStarted
from karenina_engine.scheduling.observers import NO_OBSERVERS, Observers
from karenina_engine.scheduling.planner import Planner
from karenina_engine.scheduling.settings import EngineSettings
from karenina_toolkit.reply_bounds import ReplyBounds

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.source_folder import SourceFolder
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import BudgetGuard, CallLedger, ReplyStore
    from karenina_engine.calls.call_runner import CallRunner
    from karenina_engine.calls.concurrency_limits import Concurrency, ConcurrencyLimits
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.tasks import AnswerTask

logger = logging.getLogger("karenina")

Done = Callable[[int, "VerificationResult"], Awaitable[None]]
"""Told of a result, with the place of its judge among the judges of its answer."""


class ItemRunner:
    """Gets answers and puts them before their judges, any number at once, in one event loop. It has an end: `aclose`.

    A run has one; an executor that works in other processes makes one in each. `concurrency` are the places that this
    one may take at the models' servers; `offline` says that no model may be called: the `reply_store` has all replies.
    `observers` hear of what is done here. `planner` has the plans of these observers, if some were made before.
    `ledger` counts the calls, and `budget` covers them.
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
    ) -> None:
        core, settings = config.core, config.section(EngineSettings)
        self.config = config
        self.planner = planner or Planner(config, plugins, observers)
        self._trust = trust
        self._hub = PortFactory(
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
    def calls(self) -> CallRunner:
        """The calls of models."""
        return self._hub.calls

    @property
    def limits(self) -> ConcurrencyLimits:
        """The places of the models' servers, as they are now."""
        return self._hub.calls.limits

    def model_identities(self) -> dict[tuple[str, str], list[bytes]]:
        """Return the identities of the configured models, as digests, by port and id."""
        core = self.config.core
        return self._hub.identities((*core.answering_models, *core.parsing_models))

    async def answer(self, task: AnswerTask, judges: Sequence[int], done: Done) -> None:
        """Get one answer and put it before these of its judges; `done` is told of each result as it comes.

        An item that the budget of the run does not cover ends without a result.
        """
        try:
            await self._answer(task, judges, done)
        except* OverBudget:
            logger.debug("[%s] not run, or not before each judge: the budget is spent", task.question.id)

    async def _answer(self, task: AnswerTask, judges: Sequence[int], done: Done) -> None:
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
                    await done(which, await pipeline.judge(answer, item))

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

    def make_failed_result(self, task: AnswerTask, judge: int, message: str) -> VerificationResult:
        """The result of an item that could not be worked on, and why; when the run goes on it is tried again."""
        pipeline = self.planner.pipeline(task.question)
        sources = pipeline.plan.source_folders(self.config, task.question)
        return pipeline.failed(self._item(task, judge, sources), message)

    async def aclose(self) -> None:
        """Close all ports and tools."""
        await self._hub.aclose()

    def _item(self, task: AnswerTask, judge: int | None, sources: tuple[SourceFolder, ...]) -> Item:
        return Item(
            question=task.question,
            answering_model=task.answering_model,
            parsing_model=task.judges[judge] if judge is not None else None,
            replicate=task.replicate,
            config=self.config,
            ports=self._hub,
            trust=self._trust,
            run_name=self.config.core.run_name,
            order=task.order,
            sources=sources,
        )
