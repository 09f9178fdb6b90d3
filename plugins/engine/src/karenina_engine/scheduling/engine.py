"""The engine: walks the matrix with a bounded number of answers under way, and yields results as they end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.data.result import VerificationResult
from karenina_core.errors import ConfigError
from karenina_core.plugins import PluginError
from karenina_engine.calls.limits import Limits
from karenina_engine.calls.ports import check_models
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.prices import picodollars
from karenina_engine.cost.pricing import Prices
from karenina_engine.journal.continuing import Continuing, ResultStore
from karenina_engine.journal.fingerprint import Fingerprints
from karenina_engine.journal.rows import UnstorableRow
from karenina_engine.journal.tasks import AnswerTask
from karenina_engine.results.summary import OutcomeTally
from karenina_engine.scheduling.answering import Answering
from karenina_engine.scheduling.crew import Crew
from karenina_engine.scheduling.events import RunFinished, RunStarted
from karenina_engine.scheduling.executors import Executor, InThisProcess, executor
from karenina_engine.scheduling.matrix import Matrix
from karenina_engine.scheduling.observers import observers
from karenina_engine.scheduling.placed import Placed
from karenina_engine.scheduling.preflight import check_any_run, check_stages
from karenina_engine.scheduling.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.calls import Tally
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.journal import Journal

MOST_ANSWERS = 512
"""How many answers are under way at once at the most, whatever the models allow."""
_MOST_READY = 128  # results that wait for whoever takes them, before those who bring more have to wait
_LAST_STEPS = 0.05  # seconds from the last reply to the result, where nothing else is asked

logger = logging.getLogger("karenina")


class Computed(Protocol):
    """The part of a run that is computed elsewhere, before the run does the rest."""

    def results(self) -> AsyncGenerator[Placed]:
        """Yield the results of this part. Raises `JournalError` if one cannot be stored."""

    def left(self) -> Iterator[AnswerTask]:
        """Return the answers that remain for the run."""


class Run:
    """One run over some questions, prepared: everything that would fail every item has been looked at.

    Raises `ConfigError` where a model cannot be served, and `PlanError` where a question has no plan.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        config: VerificationConfig,
        plugins: Plugins,
        *,
        trust: Trust,
        policy: RetryPolicy | None = None,
        journal: Journal | None = None,
        command: Mapping[str, Any] | None = None,
    ) -> None:
        core, settings = config.core, config.section(EngineSettings)
        if not questions:
            raise ConfigError(["there is no question to ask: add some to the benchmark, or widen the choice of ids"])
        if not core.answering_models:
            cure = "set answering_models (--answering), or give recorded answers (--recordings)"
            raise ConfigError([f"there is no model to ask: {cure}"])
        offline = journal is not None and journal.replaying
        check_models(
            plugins,
            [("answering model", model) for model in core.answering_models]
            + [("judge", model) for model in core.parsing_models],
            offline=offline,
        )
        if core.parsing_only:
            _refuse_live(plugins, core.answering_models)
        self.matrix = Matrix(questions, config)
        self.config = config
        self.plugins = plugins
        self.trust = trust
        self.policy = policy
        check_any_run(plugins, config)
        self.observers = observers(plugins, config)
        self.work = Answering(
            config,
            plugins,
            trust=trust,
            policy=policy,
            keeper=journal,
            offline=offline,
            observers=self.observers,
        )
        survey = self.work.planner.survey(questions)
        self._warn_of_nothing_to_do(questions)
        named = check_stages(plugins, config, questions, trust, survey, offline=offline)
        self._budget: Budget | None = None
        self._ledger = self.work.calls.ledger = Ledger(Prices(plugins, settings.prices))
        if not offline:
            self._open_budget([*core.answering_models, *core.parsing_models, *named])
        self._outcomes = OutcomeTally()
        self._crew: Crew[AnswerTask] | None = None
        self._stopped: str | None = None
        self._told_to_stop = False  # by `stop`: a budget that is spent lets what is under way go on
        self._loop: asyncio.AbstractEventLoop | None = None
        self.journal = journal
        self.command = dict(command or {})
        self.fingerprints = Fingerprints(config, plugins, trust) if journal is not None else None
        self.continuing: ResultStore | None = None
        if journal is not None and self.fingerprints is not None:
            self.continuing = Continuing(journal, self.fingerprints)
        self.spared: Computed | None = None
        """What is computed from replies of the journal alone; set by `karenina_engine.offline.spared.helped`."""
        self.on_stop: Callable[[float], None] | None = None
        """Told by `stop` how many seconds of grace there are; set by the executor that works on the run."""
        try:
            offered = executor(plugins, settings.executor)
        except PluginError as error:
            raise ConfigError([f"executor: {error}"]) from error
        # A replay asks nobody, so that nothing is gained elsewhere, and here every missing reply has its reason.
        self.executor: Executor = offered if not offline else InThisProcess()
        self.executor.check(self)
        if settings.budget is not None and not self.executor.keeps_budgets:
            why = f"the executor {settings.executor!r} does not keep to a budget"
            raise ConfigError([f'{why}: remove the budget, or set executor = "{InThisProcess.name}"'])

    def _open_budget(self, models: Sequence[ModelConfig]) -> None:
        """Look up what the models cost, and open the budget, if there is one. Raises `ConfigError`."""
        limit, prices = self.config.section(EngineSettings).budget, self._ledger.prices
        unknown = {model.id: price.why for model in models if (price := prices.of(model)).tariff is None}
        if limit is None:
            return
        if unknown:
            raise ConfigError([f"a budget needs the price of {id!r}, which is {why}" for id, why in unknown.items()])
        self._budget = self.work.calls.budget = Budget(picodollars(limit), self._ledger, on_spent=self._is_spent)

    def _is_spent(self) -> None:
        assert self._budget is not None
        self._stopped = self._stopped or self._budget.in_words()

    def _warn_of_nothing_to_do(self, questions: Sequence[Question]) -> None:
        if self.config.core.evaluation_mode != "rubric_only":
            return
        bare = sum(not question.trait_names() for question in questions)
        if bare:
            logger.warning(
                "%d of %d questions have no rubric traits, and rubric_only evaluates nothing else: their answers are "
                "recorded and not judged; give them traits, or set another evaluation_mode",
                bare,
                len(questions),
            )

    @property
    def tally(self) -> Tally:
        """The calls that the run has made so far, and those that were spared."""
        return self.work.calls.tally

    def __len__(self) -> int:
        """How many items the run has."""
        return len(self.matrix)

    @property
    def ledger(self) -> Ledger:
        """What the run has spent so far."""
        return self._ledger

    @property
    def budget(self) -> Budget | None:
        """The budget of the run, where it has one."""
        return self._budget

    @property
    def limits(self) -> Limits:
        """The places of the models' servers, as they are now."""
        return self.work.limits

    @property
    def stopped(self) -> str | None:
        """Why the run was stopped before its end, as one says it, or None."""
        return self._stopped

    @property
    def outcomes(self) -> OutcomeTally:
        """The count of the results so far."""
        return self._outcomes

    def stop(self, why: str, *, grace: float = 0.0) -> None:
        """Stop the run: its stream ends early, and every result that it brought stays as it is.

        No further call begins. Calls under way may end for `grace` seconds, so that their replies are kept. To be
        called in the event loop of the run; from elsewhere through `loop.call_soon_threadsafe`. A second call ends
        the grace.
        """
        crew = self._crew
        again, self._told_to_stop = self._told_to_stop, True
        self._stopped = self._stopped or why
        self.limits.close()
        if self.on_stop is not None:
            self.on_stop(0.0 if again else grace)
        if crew is None:
            return
        crew.close()
        if again or not grace:
            crew.cancel()
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + grace

        def look() -> None:
            if self.work.calls.under_way == 0 or loop.time() >= end:
                loop.call_later(_LAST_STEPS, crew.cancel)
            else:
                loop.call_later(_LAST_STEPS, look)

        look()

    @property
    def running(self) -> bool:
        """Whether results are coming."""
        return self._loop is not None

    def stop_soon(self, why: str, *, grace: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        """`stop`, from a handler of signals or another thread; `then` is called in the event loop afterwards."""

        def stop() -> None:
            self.stop(why, grace=grace)
            then()

        if self._loop is None:
            self._stopped = why
        else:
            self._loop.call_soon_threadsafe(stop)

    async def results(self) -> AsyncGenerator[VerificationResult]:
        """Every item's result, in the order in which they end. Leaving the loop early stops the run cleanly.

        With a journal it is in the file before it comes out here, and items that have one there come without running.
        Raises `JournalError` where the journal can no longer be written.
        """
        async with aclosing(self.placed_results()) as results:
            async for _, result in results:
                yield result

    async def placed_results(self) -> AsyncGenerator[tuple[int, VerificationResult]]:
        """`results`, each with its item's place in the matrix, from 0."""
        async with aclosing(self.placed()) as results:
            async for place, result, _ in results:
                yield place, result

    async def placed(self) -> AsyncGenerator[Placed]:
        """`placed_results`, each with the line that the journal holds of it, if there is one."""
        outcomes = self._outcomes = OutcomeTally(self.matrix.per_question)
        began = time.monotonic()
        journal = self.journal if self.journal is not None and not self.journal.replaying else None
        if journal is not None:
            journal.begin(len(self), self.command, self._ledger)
            journal.note_targets(self.work.targets())
        if self._budget is not None:
            self._budget.spent = self._ledger.earlier.cost
        self.observers.run_started(RunStarted(len(self), self.config))
        try:
            async with aclosing(self._stream()) as stream:
                async for placed in stream:
                    result = placed.result
                    outcomes.add(result.outcome, result.question_id, result.template.verify_granular_result)
                    self.observers.item_finished(result)
                    yield placed
        finally:
            interrupted = len(outcomes) < len(self)
            if interrupted and self._stopped is not None:
                logger.warning(
                    "stopped after %d of %d items, because %s: %d items have no result%s",
                    len(outcomes),
                    len(self),
                    self._stopped,
                    len(self) - len(outcomes),
                    "; the same run with the same journal goes on with them" if journal is not None else "",
                )
            finished = RunFinished(outcomes.summary(), time.monotonic() - began, interrupted, self._stopped)
            self.observers.run_finished(finished)
            if journal is not None and journal.broken is None:
                journal.end(self.tally, finished=not interrupted)

    async def _stream(self) -> AsyncGenerator[Placed]:
        limit, clock = self.config.section(EngineSettings).run_timeout, None
        if limit is not None:
            late = f"its time is over (run_timeout = {limit:g} s)"
            clock = asyncio.get_running_loop().call_later(limit, self.stop, late)
        self._loop = asyncio.get_running_loop()
        try:
            if self._stopped is None:
                async with aclosing(self.executor.execute(self)) as results:
                    async for placed in results:
                        yield placed
        finally:
            self._loop = None
            if clock is not None:
                clock.cancel()

    async def here(self) -> AsyncGenerator[Placed]:
        """The results, worked out in this process and event loop."""
        core, limits = self.config.core, self.limits
        if self.journal is not None:
            self.journal.answering = self.work.calls.answering
        limits.prepare((*core.answering_models, *core.parsing_models))
        ready: asyncio.Queue[Placed | None] = asyncio.Queue()  # None comes after the last result
        room = asyncio.Semaphore(_MOST_READY)  # a bounded queue would have no room for that None

        async def bring(placed: Placed) -> None:
            await room.acquire()
            ready.put_nowait(placed)

        def wanted() -> int:
            could = limits.could_be_under_way()  # and some more, since answers also compute and wait for the journal
            return min(could + max(2, could // 4), MOST_ANSWERS)

        if self.spared is not None:
            async with aclosing(self.spared.results()) as results:
                async for placed in results:
                    yield placed
            if self._stopped is not None:
                return
        tasks = iter(self.matrix) if self.spared is None else self.spared.left()
        crew = self._crew = Crew(tasks, lambda task: self._answer(task, bring), wanted, lambda: ready.put_nowait(None))
        limits.on_change = crew.fill
        try:
            crew.fill()
            while (next_one := await ready.get()) is not None:
                room.release()
                yield next_one
            if crew.failure is not None:
                raise _first(crew.failure)
        finally:
            limits.on_change = None
            await crew.aclose()
            await self.work.aclose()

    async def _answer(self, task: AnswerTask, bring: Callable[[Placed], Awaitable[None]]) -> None:
        """Work on one answer, and hand on all its results."""
        if self.continuing is not None:
            await self.continuing.look(task.question, self.work.planner.plan(task.question))
        judges, kept = self.todo(task)
        for placed in kept:
            await bring(placed)
        if not judges:
            return

        async def done(judge: int, result: VerificationResult) -> None:
            await bring(await self.finished(task, judge, result))

        await self.work.answer(task, judges, done)

    def todo(self, task: AnswerTask) -> tuple[list[int], list[Placed]]:
        """Those judges of an answer whose items have to run, and the results of the others, which the journal has.

        No item has to run any more once the budget is spent.
        """
        judges: list[int] = []
        kept: list[Placed] = []
        for judge in range(len(task.judges)):
            found = None
            if self.continuing is not None:
                found = self.continuing.result(task, judge, self.work.planner.plan(task.question))
            if found is None:
                judges.append(judge)
            else:
                kept.append(Placed(task.place(judge), *found))
        if self._budget is not None and self._budget.exhausted:
            judges = []
        return judges, kept

    async def finished(self, task: AnswerTask, judge: int, result: VerificationResult) -> Placed:
        """Keep the result of an item in the journal, where there is one, and give it with its place.

        Raises `JournalError`.
        """
        line = None
        if self.continuing is not None:
            plan = self.work.planner.plan(task.question)
            try:
                result, line = await self.continuing.finish(task, judge, plan, result)
            except UnstorableRow as error:
                result = self.work.failed(task, judge, f"the result of this item cannot be stored: {error}")
                result, line = await self.continuing.finish(task, judge, plan, result)
        return Placed(task.place(judge), result, line)


def _first(error: BaseException) -> BaseException:
    """The error itself, or the first one of a group, whatever groups it lies in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _refuse_live(plugins: Plugins, models: Sequence[ModelConfig]) -> None:
    """Refuse models that would be asked in a run that only judges answers of earlier. Raises `ConfigError`."""
    live = [model for model in models if not plugins.adapter(model.interface).spec.recorded]
    if live:
        recorded = ", ".join(sorted(one.spec.interface for one in plugins.adapters() if one.spec.recorded))
        raise ConfigError(
            [
                f"parsing_only is true, and the answering model {model.id!r} would be asked: its interface "
                f"{model.interface!r} does not replay recordings; "
                + (f"give recorded answers ({recorded}), or" if recorded else "no installed adapter does;")
                + " set parsing_only = false"
                for model in live
            ]
        )
