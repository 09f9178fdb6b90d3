"""The foreman: gives answers out to workers as they become free, takes what they say, and mourns the dead."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from karenina_core.data.result import VerificationResult
from karenina_core.errors import KareninaError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Usage
from karenina_engine.scheduling.question_json import question_to_json
from karenina_ray import serialization
from karenina_ray.background_tasks import BackgroundTasks
from karenina_ray.budget_server import BudgetServer
from karenina_ray.journal_server import JournalServer
from karenina_ray.work_queue import Job, WorkQueue
from karenina_ray.worker import Worker, offers
from karenina_ray.worker_handle import WorkerHandle

if TYPE_CHECKING:
    from karenina_engine.scheduling.indexed_result import IndexedResult
    from karenina_engine.scheduling.session import RunSession
    from karenina_ray.serialization import Payload

AHEAD: Final = 4
"""Answers that a worker gets beyond what it has room for, so that it never waits for work."""
MOST_DEATHS: Final = 3
"""So many workers at least must have died of an answer, the last one while it had nothing else."""
_VAIN: Final = 12
"""Deaths one after another, without a result between them, after which the run gives up."""
_SMALLER: Final = 4  # the jobs of a dead worker go on in groups of a fourth of their number
_MOST_READY: Final = 256  # results that wait for whoever takes them
_CLOSING, _CLOSING_SOON = 5.0, 1.0  # seconds that workers have to close their ports and tools

logger = logging.getLogger("karenina")


class ExecutorError(KareninaError):
    """The workers cannot go on. What the journal has is kept."""


class Scheduler:
    """Works through a run with so many workers. A context: they end with it."""

    def __init__(self, ray: Any, run: RunSession, feed: WorkQueue, workers: int, patience: float) -> None:
        self._ray = ray
        self._run = run
        self._prepared = run.prepared
        self._workers = workers
        self._patience = patience
        self._came = asyncio.Event()
        self._errands = BackgroundTasks(self._came.set)
        self._desk = (
            JournalServer(run.reply_store, WorkerHandle.tell, self._errands.go) if run.reply_store is not None else None
        )
        self._cashier = (
            BudgetServer(run.budget, WorkerHandle.tell, self._errands.go) if run.budget is not None else None
        )
        self._hands: set[WorkerHandle] = set()
        self._feed = feed
        self._suspects: deque[list[Job]] = deque()
        self._ready: deque[IndexedResult] = deque()
        self._finishing = 0  # jobs of which the results are being kept
        self._vain = 0
        self._models: list[tuple[Payload, ModelConfig]] = []
        self._stopping: float | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        core = self._prepared.config.core
        self._run.limits.prepare((*core.answering_models, *core.parsing_models))
        self._run.add_stop_listener(self._stop)
        for place in range(self._workers):
            self._errands.go(self._employ(place))
        self._errands.go(self._be_impatient())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run.remove_stop_listener(self._stop)
        self._over = True
        ready = [hand.actor for hand in self._hands if hand.ready]
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSING if kind is None and not self._stopping else _CLOSING_SOON):
                await asyncio.gather(*(actor.close.remote() for actor in ready), return_exceptions=True)
        for hand in self._hands:
            hand.alive = False
            self._ray.kill(hand.actor)
        await self._errands.end()

    async def results(self) -> AsyncGenerator[IndexedResult]:
        """Every result with its place, as it comes; ends early where the run is stopped."""
        while True:
            while self._ready:
                yield self._ready.popleft()
            self._hand_out()
            if self._errands.failure is not None:
                raise self._errands.failure
            if self._is_done():
                return
            if not self._ready:
                self._came.clear()
                await self._came.wait()

    def _is_done(self) -> bool:
        if self._ready or self._finishing:
            return False
        if self._stopping is not None:
            return self._over or all(hand.stopped for hand in self._hands)
        left = self._feed.has_job or not self._feed.over or self._suspects
        return not (left or any(hand.jobs for hand in self._hands))

    # ---- workers

    async def _employ(self, place: int) -> None:
        """Start a worker and hear it until it dies."""
        actor = self._ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD").remote()
        hand = WorkerHandle(actor, place)
        self._hands.add(hand)
        try:
            [facts] = serialization.read(await actor.set_up.remote(serialization.written([self._instructions(place)])))
            self._see_whether_alike(facts)
            hand.ready = True
            logger.debug("Ray worker %d is process %s on %s", place, facts["pid"], facts["host"])
            self._hand_out()
            while not self._over:
                for told in serialization.read(await actor.next_messages.remote()):
                    await self._hear(hand, told)
                self._hand_out()
        except self._ray.exceptions.RayActorError as error:
            if not self._over:
                self._bury(hand, error)
        except self._ray.exceptions.RayError as error:
            raise ExecutorError(f"executor ray: a worker failed: {error}") from error

    def _instructions(self, place: int) -> Payload:
        run, prepared = self._run, self._prepared
        return {
            "config": serialization.config_told(prepared.config),
            "trust": serialization.trust_told(prepared.trust),
            "policy": serialization.policy_told(prepared.policy),
            "journal": run.reply_store is not None,
            "paid": run.budget is not None,
            "worker": place,
            "workers": self._workers,
            "level": logger.getEffectiveLevel(),
            "path": [folder for folder in sys.path if folder],
        }

    def _see_whether_alike(self, facts: Payload) -> None:
        """See that a worker has the plugins of this process: another version would find out something else."""
        if "error" in facts:
            raise ExecutorError(f"executor ray: a worker cannot begin: {facts['error']}")
        here, there = ({tuple(one) for one in found} for found in (offers(self._prepared.plugins), facts["plugins"]))
        if here == there:
            return
        kind, name, distribution, version = sorted(here ^ there)[0]
        whose = "here and not on the worker" if (kind, name, distribution, version) in here else "only on the worker"
        raise ExecutorError(
            f"executor ray: the worker on {facts['host']} has other plugins than this process: {name} of "
            f"{distribution} {version} is {whose}; install the same versions everywhere"
        )

    async def _be_impatient(self) -> None:
        """Give up where no worker becomes ready."""
        await asyncio.sleep(self._patience)
        if not any(hand.ready for hand in self._hands):
            has = self._ray.cluster_resources().get("CPU", 0)
            raise ExecutorError(
                f"executor ray: no worker was ready after {self._patience:g} s (ray_patience): each needs one CPU, and "
                f"the cluster has {has:g}, all of which others may hold; free some, or take fewer ray_workers"
            )

    def _bury(self, hand: WorkerHandle, error: Exception) -> None:
        """A worker has died: its jobs go on in smaller groups, and another one takes its place."""
        hand.alive = False
        self._hands.discard(hand)
        with contextlib.suppress(Exception):  # it may only be out of reach
            self._ray.kill(hand.actor)
        if self._desk is not None:
            self._desk.gone(hand)
        if self._cashier is not None:
            self._cashier.gone(hand)
        self._mirror()
        jobs, hand.jobs = list(hand.jobs.values()), {}
        self._vain += 1
        logger.warning(
            "a Ray worker died; its %d answers under way go on elsewhere, and what it had stored is not asked again",
            len(jobs),
        )
        logger.debug("%s", error)
        if self._vain >= _VAIN:
            raise ExecutorError(
                f"executor ray: {self._vain} workers died one after another and brought nothing; the last one: {error}"
            )
        if self._stopping is not None:
            self._came.set()
            return
        company = max(1, len(jobs) // _SMALLER)
        for job in jobs:
            job.deaths += 1
        if len(jobs) == 1 and jobs[0].deaths >= MOST_DEATHS:
            self._finishing += 1
            self._errands.go(self._give_up(jobs[0]))
        else:
            self._suspects.extend(jobs[at : at + company] for at in range(0, len(jobs), company))
        self._errands.go(self._employ(hand.place))

    async def _give_up(self, job: Job) -> None:
        """End the items of an answer of which workers die again and again."""
        message = (
            f"{job.deaths} Ray workers died while they worked on this answer, the last one while it worked on nothing "
            "else: look at what its stages and models need (memory, most often)"
        )
        logger.error("[%s] %s", job.task.question.id, message)
        for judge in job.judges:
            failed = self._run.runner.make_failed_result(job.task, judge, message)
            self._bring(await self._run.store_result(job.task, judge, failed))
        self._finishing -= 1
        self._came.set()

    # ---- work

    def _hand_out(self) -> None:
        """Give each worker that has room something to do."""
        if self._stopping is not None or self._errands.failure is not None:
            return
        for hand in sorted((one for one in self._hands if one.ready), key=lambda one: len(one.jobs)):
            if self._suspects and not hand.jobs:
                self._give(hand, self._suspects.popleft(), suspect=True)
            elif not (hand.suspect and hand.jobs):
                fresh: list[Job] = []
                while len(hand.jobs) + len(fresh) < hand.room + AHEAD and (job := self._next()) is not None:
                    fresh.append(job)
                if fresh:
                    self._give(hand, fresh)
        if not self._feed.has_job:
            self._look_on()

    def _next(self) -> Job | None:
        """The next answer that has something to do; results that the journal has of others come at once."""
        self._look_on()
        return self._feed.pop()

    def _look_on(self) -> None:
        while not self._feed.has_job and not self._feed.over and len(self._ready) < _MOST_READY:
            for placed in self._feed.advance():
                self._bring(placed)

    def _give(self, hand: WorkerHandle, jobs: list[Job], *, suspect: bool = False) -> None:
        hand.suspect, trust = suspect, self._prepared.trust
        hand.jobs.update({job.task.order: job for job in jobs})
        questions = {str(id(job.task.question)): job.task.question for job in jobs}
        hand.tell(
            {
                "kind": "work",
                "questions": {key: question_to_json(question, trust) for key, question in questions.items()},
                "answers": [self._told(job) for job in jobs],
            }
        )

    def _told(self, job: Job) -> list[Any]:
        task, models = job.task, self._prepared.config.core.answering_models
        model = next(at for at, one in enumerate(models) if one is task.answering_model)
        return [str(id(task.question)), model, task.replicate, task.order, job.judges]

    async def _hear(self, hand: WorkerHandle, told: Payload) -> None:
        """Do what a worker asks for, or take what it brings."""
        kind = told["kind"]
        if kind == "done":
            self._finishing += 1
            self._errands.go(self._finish(hand.jobs.pop(told["order"]), told["results"]))
        elif kind == "broke":
            raise ExecutorError(f"executor ray: a worker failed at an answer:\n{told['error']}")
        elif kind == "stopped":
            hand.stopped = True
            self._came.set()
        elif kind == "log":
            logger.log(told["level"], "%s", told["message"])
        elif kind == "state":
            hand.room, hand.servers = told["room"], told["servers"]
            self._run.tally.add(serialization.tally_of(told["tally"]))
            self._mirror()
        elif kind == "model":
            hand.models[told["model"]] = self._model(told["config"])
        elif kind in ("made", "kept"):
            call, usage = serialization.call_of(told, hand.models[told["model"]]), Usage(*told["usage"])
            if kind == "made":
                cost = self._run.ledger.record_call(call, usage)
                if self._run.budget is not None:
                    self._run.budget.spend(call, usage, cost)
            else:
                self._run.ledger.record_cached(call, usage)
        elif kind in ("take", "release"):
            assert self._cashier is not None
            if kind == "take":
                self._cashier.reserve(hand, told)
            else:
                self._cashier.release(hand, told["reserved"])
        elif self._desk is not None:
            if kind == "leave":
                self._desk.leave(hand, told["key"])
            elif kind == "find":
                self._desk.find(hand, told)
            else:
                self._desk.store(hand, told)

    def _model(self, told: Payload) -> ModelConfig:
        """The model that a worker calls: one and the same for all workers, that of the configuration if it is there."""
        core = self._prepared.config.core
        if not self._models:
            self._models = [(serialization.plain(one), one) for one in (*core.answering_models, *core.parsing_models)]
        known = next((model for plain, model in self._models if plain == told), None)
        if known is None:
            known = ModelConfig.model_validate(told)
            self._models.append((told, known))
        return known

    async def _finish(self, job: Job, results: list[tuple[int, str]]) -> None:
        self._vain = 0
        for judge, text in results:
            result = VerificationResult.model_validate_json(text)
            self._bring(await self._run.store_result(job.task, judge, result))
        self._finishing -= 1
        self._came.set()

    def _bring(self, placed: IndexedResult) -> None:
        self._ready.append(placed)
        self._came.set()

    def _mirror(self) -> None:
        """Show the workers' places at the servers as those of the run."""
        limits = self._run.limits
        limits.held = 0
        for at, server in enumerate(limits.servers):
            seen = [hand.servers[at] for hand in self._hands if at < len(hand.servers)]
            limit, held, queued, retrying = (sum(one[which] for one in seen) for which in range(4))
            server.limit, server.held, server.queued, server.retrying = limit, int(held), int(queued), int(retrying)
            limits.held += server.held

    # ---- the end

    def _stop(self, grace: float) -> None:
        """The run shall stop: workers end their calls under way within the grace."""
        first, self._stopping = self._stopping is None, grace
        if not grace:
            self._over = True
        elif first:
            for hand in self._hands:
                if hand.ready:
                    hand.tell({"kind": "stop", "grace": grace})
                else:
                    hand.stopped = True
            asyncio.get_running_loop().call_later(grace + 1.0, self._end)
        self._came.set()

    def _end(self) -> None:
        self._over = True
        self._came.set()
