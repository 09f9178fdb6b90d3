"""Running items in one process: generating answers and having judges evaluate them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING

from karenina_core.data.result import VerificationResult
from karenina_core.errors import KareninaError, RunError, type_and_message
from karenina_core.stages.context import Item
from karenina_engine.cost.budget import OverBudget
from karenina_engine.model_settings import configured_models
from karenina_engine.progress.observers import ItemStarted
from karenina_engine.results.kept_files import ItemFiles
from karenina_engine.run.panel import PanelAnswer
from karenina_engine.run.port_factory import PortFactory
from karenina_toolkit.files.source_digest import source_folders
from karenina_toolkit.kept_files import keeping_files

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import SourceFolder
    from karenina_core.stages.context import State
    from karenina_engine.calls.call_runner import CallRunner
    from karenina_engine.run.matrix import AnswerTask
    from karenina_engine.run.panel import Panel
    from karenina_engine.run.port_factory import RunParts

logger = logging.getLogger("karenina")


class ItemRunner:
    """Generates answers and has judges evaluate them, in a single event loop.

    Each process that executes items has one runner. Any number of items can run at the same time. If there is a
    `panel`, it takes the place of the judges. Call `aclose` when you are done.
    """

    def __init__(self, parts: RunParts, panel: Panel | None = None) -> None:
        self._parts = parts
        self._panel = panel
        self._run_name = parts.config.core.run_name
        self._port_factory = PortFactory(parts)

    @property
    def calls(self) -> CallRunner:
        """The runner that makes model calls."""
        return self._port_factory.calls

    def model_identities(self) -> dict[tuple[str, str], list[bytes]]:
        """Return the endpoint digests of the configured models, by port and model id."""
        return self._port_factory.identities([model for _, model in configured_models(self._parts.config)])

    async def answer(self, task: AnswerTask, judges: Sequence[int]) -> AsyncGenerator[tuple[int, VerificationResult]]:
        """Generate an answer, have the judges with the given indexes evaluate it, and yield the index and result of
        each judge as it finishes. An item that the budget does not cover is silently left out.
        """
        sources = source_folders(task.pipeline.plan, self._parts.config, task.question)
        whole = self._item(task, None, sources)
        try:
            with self._parts.observers.answer_events(whole):
                answer_files = ItemFiles(self._parts.files, whole.question.id)
                with keeping_files(answer_files):
                    answer = await task.pipeline.answer(whole)
                try:
                    if len(judges) == 1:
                        files = answer_files.for_judge()
                        with keeping_files(files):
                            judged = await self._judge(task, answer, judges[0])
                        yield judges[0], files.list_in(judged)
                    else:
                        async with aclosing(self._judge_all(task, answer, judges, answer_files)) as results:
                            async for result in results:
                                yield result
                finally:
                    await task.pipeline.end(answer)
        except* OverBudget:
            logger.debug(
                "[%s] not run, or not judged by every judge, because the budget is exhausted", task.question.id
            )

    async def _judge_all(
        self, task: AnswerTask, answer: State, judges: Sequence[int], answer_files: ItemFiles
    ) -> AsyncGenerator[tuple[int, VerificationResult]]:
        """Have the judges evaluate an answer concurrently, and yield each judge's index and result as it arrives.
        Judges whose items the budget does not cover are left out.
        """
        judging = [asyncio.create_task(self._judge_if_covered(task, answer, judge, answer_files)) for judge in judges]
        try:
            for ended in asyncio.as_completed(judging):
                judged = await ended
                if judged is not None:
                    yield judged
        finally:
            for judgment in judging:
                judgment.cancel()
            await asyncio.gather(*judging, return_exceptions=True)

    async def _judge_if_covered(
        self, task: AnswerTask, answer: State, judge: int, answer_files: ItemFiles
    ) -> tuple[int, VerificationResult] | None:
        """Return a judge's index and result, or None if the budget does not cover the item. Other judges may cost less,
        so they still continue.
        """
        try:
            files = answer_files.for_judge()
            with keeping_files(files):
                result = await self._judge(task, answer, judge)
            return judge, files.list_in(result)
        except* OverBudget:
            logger.debug("[%s] not judged because the budget is exhausted", task.question.id)
        return None

    def _judge(self, task: AnswerTask, answer: State, judge: int) -> Awaitable[VerificationResult]:
        """Start the item of a judge or panel, and return an awaitable for its result."""
        item = self._item(task, task.judges[judge], answer.item.sources)
        if self._parts.observers.observes_items:
            self._parts.observers.item_started(ItemStarted(item))
        if self._panel is None:
            return task.pipeline.judge(answer, item)

        async def ask(model: ModelConfig) -> VerificationResult:
            """Return the result for `model` as the only judge."""
            return await task.pipeline.judge(answer, replace(item, parsing_model=model))

        return _evaluate(self._panel, PanelAnswer(item.question, item.trust, len(answer.records), ask))

    def make_failed_result(self, task: AnswerTask, judge: int, message: str) -> VerificationResult:
        """Return an error result for an item that could not be run. If the run is resumed, the item is retried. `judge`
        is the index of the judge in `task.judges`, and `message` becomes the item's error.
        """
        item = self._item(task, task.judges[judge], ())
        return task.pipeline.failed(item, message)

    async def aclose(self) -> None:
        """Close all ports and tools."""
        await self._port_factory.aclose()

    def _item(self, task: AnswerTask, judge: ModelConfig | None, sources: tuple[SourceFolder, ...]) -> Item:
        """Return the item for an answer, or for an answer and its judge, whose result depends on `sources`."""
        return Item(
            question=task.question,
            answering_model=task.answering_model,
            parsing_model=judge,
            replicate=task.replicate,
            config=self._parts.config,
            ports=self._port_factory,
            trust=self._parts.trust,
            run_name=self._run_name,
            order=task.order,
            sources=sources,
        )


async def _evaluate(panel: Panel, answer: PanelAnswer) -> VerificationResult:
    """Return the panel's result for an answer. Raises `RunError` if `evaluate` fails, is not async or returns no
    result.
    """
    method = f"evaluate() of the panel {panel.model.id!r}"
    try:
        evaluating: object = panel.evaluate(answer)
        if not isawaitable(evaluating):
            raise RunError(f"{method} is not async; write async def evaluate(self, answer)")
        result: object = await evaluating
    except KareninaError:
        raise
    except Exception as error:
        raise RunError(f"{method} failed: {type_and_message(error)}") from error
    if not isinstance(result, VerificationResult):
        raise RunError(f"{method} returned {result!r:.80}; write return answer.result_of(self.model, base, results)")
    return result
