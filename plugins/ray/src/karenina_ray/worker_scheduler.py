"""The scheduler, which starts workers, assigns answers to them, handles their messages, and replaces dead ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from karenina_core.data.result import VerificationResult
from karenina_core.errors import KareninaError, RunError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Usage
from karenina_engine.model_settings import configured_models
from karenina_engine.run.executor import question_to_json
from karenina_ray import serialization
from karenina_ray.journal_server import BudgetServer, JournalServer
from karenina_ray.work_queue import Job, WorkerHandle, WorkQueue
from karenina_ray.worker import Worker, list_plugins
from karenina_toolkit.files.bounded_files import max_file_bytes

if TYPE_CHECKING:
    from karenina_engine.run.matrix import IndexedResult
    from karenina_engine.run.session import RunSession
    from karenina_ray.serialization import Payload


def _check_clock(facts: Payload, sent: float) -> None:
    """Log a warning if a worker's clock differs from this machine's. `facts` is its response to a message that was sent
    at the time `sent`.
    """
    behind, ahead = sent - facts["time"], facts["time"] - time.time()
    if max(behind, ahead) > _CLOCK_TOLERANCE:
        logger.warning(
            "the clock of %s is about %.0f s %s, and so are the times in results and traces of its items; synchronize "
            "the clocks of the machines",
            *(facts["host"], max(behind, ahead), "behind" if behind > ahead else "ahead"),
        )


class BackgroundTasks:
    """Background tasks in one event loop. `failure` is the first exception raised by a task, or None.

    `on_failure` is called after each exception.
    """

    def __init__(self, on_failure: Callable[[], None]) -> None:
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. If it raises an exception, that is stored in `failure`."""
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # else Python warns of work that was cancelled before it started
        return task

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`. Exceptions other than cancellation are stored and reported instead of raised."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            self._on_failure()


AHEAD: Final = 4
"""The maximum number of answers that a worker gets beyond its room, so that it never waits for work."""
MOST_RECORDED: Final = 32
"""The room of a worker if all answers are recorded, so that one worker does not get all answers of a small run."""
MOST_DEATHS: Final = 3
"""The number of worker deaths after which an answer fails, if the last worker had no other job."""
_MOST_DEATHS_IN_A_ROW: Final = 12
"""The number of consecutive worker deaths, without a result in between, after which the run fails."""
_GROUPS: Final = 4  # how many groups a dead worker's jobs are divided into
_CLOCK_TOLERANCE: Final = 2.0  # seconds
_MOST_LOGGED: Final = 1000  # messages that are compared with those of other workers
_MOST_READY: Final = 256  # stored results are read ahead until so many wait for the run
_CLOSING, _CLOSING_SOON = 5.0, 1.0  # seconds for workers to close ports and tools; the second if stopped or failed

logger = logging.getLogger("karenina")


class ExecutorError(KareninaError):
    """Raised if a run on workers cannot continue. The contents of the journal are kept."""


class Scheduler:
    """Runs a session on a number of `workers`, which are stopped at the end of the `with` block.

    At least one of them must be ready within `patience` seconds.
    """

    def __init__(self, ray: Any, session: RunSession, queue: WorkQueue, workers: int, patience: float) -> None:
        self._ray = ray
        self._session = session
        self._workers = workers
        self._calls_models = session.calls_models
        self._patience = patience
        self._wakeup = asyncio.Event()
        self._tasks = BackgroundTasks(self._wakeup.set)
        send, start = WorkerHandle.send, self._tasks.start
        store, budget = session.parts.store, session.budget
        self._journal_server = JournalServer(store, send, start) if store is not None else None
        self._budget_server = BudgetServer(budget, send, start) if budget is not None else None
        self._handles: set[WorkerHandle] = set()
        self._queue = queue
        queue.on_read = self._wakeup.set
        self._suspect_groups: deque[list[Job]] = deque()
        self._results: deque[IndexedResult] = deque()
        self._finishing = 0  # jobs whose results are being stored
        self._deaths_in_a_row = 0
        self._models: list[tuple[Payload, ModelConfig]] = []
        self._logged: dict[str, int] = {}
        self._stopping: float | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        self._session.add_stop_listener(self._stop)
        for index in range(self._workers):
            self._tasks.start(self._run_worker(index))
        self._tasks.start(self._check_startup())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.remove_stop_listener(self._stop)
        self._over = True
        ready = [worker.actor for worker in self._handles if worker.ready]
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSING if kind is None and not self._stopping else _CLOSING_SOON):
                await asyncio.gather(*(actor.close.remote() for actor in ready), return_exceptions=True)
        for worker in self._handles:
            worker.alive = False
            self._ray.kill(worker.actor)
        await self._tasks.cancel()

    async def results(self) -> AsyncGenerator[IndexedResult]:
        """Yield each result with its index as it completes. Ends early if the run is stopped. Raises the first
        exception of a worker or background task, such as `ExecutorError`.
        """
        while True:
            while self._results:
                yield self._results.popleft()
            self._assign_jobs()
            if self._tasks.failure is not None:
                raise self._tasks.failure
            if self._is_done():
                return
            if not self._results:
                self._wakeup.clear()
                await self._wakeup.wait()

    def _is_done(self) -> bool:
        """Return whether all results have been yielded or, after a stop, all workers have stopped."""
        if self._results or self._finishing:
            return False
        if self._stopping is not None:
            return self._over or all(worker.stopped for worker in self._handles)
        left = self._queue.has_job or not self._queue.over or self._suspect_groups
        return not (left or any(worker.jobs for worker in self._handles))

    # ---- workers

    async def _run_worker(self, index: int) -> None:
        """Start a worker, and handle its messages until the run is over. If the worker dies, it is replaced. Raises
        `ExecutorError` if the worker cannot start, has different plugins, or fails in any other way.
        """
        actor = self._ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD").remote()
        worker = WorkerHandle(actor, index)
        self._handles.add(worker)
        try:
            setup = serialization.encode([self._setup_message(index)])
            sent = time.time()
            [facts] = serialization.decode(await actor.set_up.remote(setup))
            self._check_plugins(facts)
            _check_clock(facts, sent)
            worker.ready = True
            logger.debug("Ray worker %d is process %s on %s", index, facts["pid"], facts["host"])
            self._assign_jobs()
            while not self._over:
                for message in serialization.decode(await actor.next_messages.remote()):
                    await self._handle_message(worker, message)
                self._assign_jobs()
        except self._ray.exceptions.RayActorError as error:
            if not self._over:
                self._replace_worker(worker, error)
        except self._ray.exceptions.RayError as error:
            raise ExecutorError(f"ray executor: a worker failed: {error}") from error

    def _setup_message(self, index: int) -> Payload:
        """Return the message that configures the worker with the given index. It contains secrets."""
        session, parts = self._session, self._session.parts
        return {
            "config": serialization.encode_config(parts.config),
            "trust": serialization.encode_trust(parts.trust),
            "policy": asdict(parts.policy),
            "files": serialization.encode_files(parts.files),
            "journal": parts.store is not None,
            "paid": session.budget is not None,
            "worker": index,
            "workers": self._workers,
            "level": logger.getEffectiveLevel(),
            "path": [folder for folder in sys.path if folder],
            "folder": str(Path.cwd()),
            "max_file_bytes": max_file_bytes(),
        }

    def _check_plugins(self, facts: Payload) -> None:
        """Raise `ExecutorError` if a worker could not start or has different plugins."""
        if "error" in facts:
            raise ExecutorError(f"ray executor: a worker on {facts['host']} could not start: {facts['error']}")
        loaded = list_plugins(self._session.parts.plugins)
        here, there = ({tuple(plugin) for plugin in listed} for listed in (loaded, facts["plugins"]))
        if here == there:
            return
        kind, name, distribution, version = sorted(here ^ there)[0]
        where = (
            "installed here but not on the worker"
            if (kind, name, distribution, version) in here
            else "installed only on the worker"
        )
        raise ExecutorError(
            f"ray executor: the worker on {facts['host']} does not have the same plugins as this process: "
            f"{name!r} from {distribution} {version} is {where}; install the same versions everywhere"
        )

    async def _check_startup(self) -> None:
        """Wait `patience` seconds, and raise `ExecutorError` if no worker is ready then."""
        await asyncio.sleep(self._patience)
        if not any(worker.ready for worker in self._handles):
            has = self._ray.cluster_resources().get("CPU", 0)
            raise ExecutorError(
                f"ray executor: no worker was ready after {self._patience:g} s (ray_patience). Each worker needs "
                f"one CPU; the number of CPUs in the cluster is {has:g}, and other programs may be using them. "
                "Free some CPUs, or reduce ray_workers"
            )

    def _replace_worker(self, worker: WorkerHandle, error: Exception) -> None:
        """Replace a dead worker, and log a warning. Its jobs are queued again in smaller groups. After a stop, it is
        not replaced and its jobs are dropped. Raises `ExecutorError` after too many consecutive deaths.

        A job fails if it has killed `MOST_DEATHS` workers and was the only job of the last one.
        """
        worker.alive = False
        self._handles.discard(worker)
        with contextlib.suppress(Exception):  # it may be alive but unreachable
            self._ray.kill(worker.actor)
        if self._journal_server is not None:
            self._journal_server.on_worker_death(worker)
        if self._budget_server is not None:
            self._budget_server.on_worker_death(worker)
        self._mirror_limits()
        jobs, worker.jobs = list(worker.jobs.values()), {}
        self._deaths_in_a_row += 1
        logger.warning(
            "a Ray worker died; its unfinished answers (%d) continue on other workers, and stored replies are not "
            "requested again",
            len(jobs),
        )
        logger.debug("%s", error)
        if self._deaths_in_a_row >= _MOST_DEATHS_IN_A_ROW:
            raise ExecutorError(
                f"ray executor: {self._deaths_in_a_row} workers died in a row without a result in between; the "
                f"last error was: {error}"
            )
        if self._stopping is not None:
            self._wakeup.set()
            return
        size = max(1, len(jobs) // _GROUPS)
        for job in jobs:
            job.deaths += 1
        if len(jobs) == 1 and jobs[0].deaths >= MOST_DEATHS:
            self._finishing += 1
            self._tasks.start(self._fail_job(jobs[0]))
        else:
            self._suspect_groups.extend(jobs[at : at + size] for at in range(0, len(jobs), size))
        self._tasks.start(self._run_worker(worker.index))

    async def _fail_job(self, job: Job) -> None:
        """Record and log an error for all items of an answer that killed too many workers."""
        message = (
            f"{job.deaths} Ray workers died while working on this answer, the last one while working on nothing else; "
            "check what the stages and models of this answer need (usually memory)"
        )
        logger.error("[%s] %s", job.task.question.id, message)
        for judge in job.judges:
            failed = self._session.runner.make_failed_result(job.task, judge, message)
            self._add_result(await self._session.store_result(job.task, judge, failed))
        self._finishing -= 1
        self._wakeup.set()

    # ---- work

    def _assign_jobs(self) -> None:
        """Assign jobs to the workers that have room, and some in advance, starting with those that have the fewest
        jobs. Nothing is assigned after a stop or a failure.

        Each may get up to `AHEAD` jobs more than it has room for, but at most half as many more again, or two, as in
        one process: it starts all of them, and the time that they wait counts for `item_timeout`. Groups of suspect
        jobs go to workers that have no jobs.
        """
        if self._stopping is not None or self._tasks.failure is not None:
            return
        for worker in sorted((handle for handle in self._handles if handle.ready), key=lambda handle: len(handle.jobs)):
            if self._suspect_groups and not worker.jobs:
                self._send_jobs(worker, self._suspect_groups.popleft(), suspect=True)
            elif not (worker.suspect and worker.jobs):
                fresh: list[Job] = []
                room = worker.room if self._calls_models else min(worker.room, MOST_RECORDED)
                most = room + min(AHEAD, max(2, room // 2))
                while len(worker.jobs) + len(fresh) < most and (job := self._next()) is not None:
                    fresh.append(job)
                if fresh:
                    self._send_jobs(worker, fresh)
        if not self._queue.has_job:
            self._advance_queue()

    def _next(self) -> Job | None:
        """Return the next job of the queue, or None if there is none yet. Stored results before it are added to the
        results.
        """
        self._advance_queue()
        return self._queue.pop()

    def _advance_queue(self) -> None:
        """Advance to the next job in the queue. Stored results that precede it are added to the results. Stops early if
        `_MOST_READY` results are waiting to be yielded.
        """
        while self._queue.can_advance and len(self._results) < _MOST_READY:
            for result in self._queue.advance():
                self._add_result(result)

    def _send_jobs(self, worker: WorkerHandle, jobs: list[Job], *, suspect: bool = False) -> None:
        """Send jobs to a worker, together with their questions. `suspect` means that another worker died while
        processing one of the jobs.
        """
        worker.suspect, trust = suspect, self._session.parts.trust
        worker.jobs.update({job.task.order: job for job in jobs})
        questions = {str(id(job.task.question)): job.task.question for job in jobs}
        worker.send(
            {
                "kind": "work",
                "questions": {key: question_to_json(question, trust) for key, question in questions.items()},
                "answers": [self._encode_job(job) for job in jobs],
            }
        )

    def _encode_job(self, job: Job) -> list[Any]:
        """Encode a job: the key of its question, the model number, the replicate, the order and the judges."""
        task, models = job.task, self._session.config.core.answering_models
        model = next(at for at, candidate in enumerate(models) if candidate is task.answering_model)
        return [str(id(task.question)), model, task.replicate, task.order, job.judges]

    async def _handle_message(self, worker: WorkerHandle, message: Payload) -> None:
        """Handle a message from a worker: a request, a result or its state. Raises `RunError` if the worker reports an
        error that ends the run, and `ExecutorError` if it reports any other error that no stage caught.
        """
        kind = message["kind"]
        if kind == "done":
            self._finishing += 1
            self._tasks.start(self._finish(worker.jobs.pop(message["order"]), message["results"]))
        elif kind == "ended":
            raise RunError(message["error"])
        elif kind == "failed":
            raise ExecutorError(f"ray executor: a worker failed on an answer:\n{message['error']}")
        elif kind == "stopped":
            worker.stopped = True
            self._wakeup.set()
        elif kind == "log":
            self._log(worker, message["level"], message["message"])
        elif kind == "state":
            worker.room, worker.servers = message["room"], message["servers"]
            self._session.tally.add(serialization.decode_counts(message["counts"]))
            self._mirror_limits()
        elif kind == "model":
            worker.models[message["model"]] = self._model(message["config"])
        elif kind in ("call_made", "call_cached"):
            call, usage = serialization.decode_call(message, worker.models[message["model"]]), Usage(*message["usage"])
            if kind == "call_made":
                cost = self._session.ledger.record_call(call, usage, is_blank=message["is_blank"])
                if self._session.budget is not None:
                    self._session.budget.spend(call, usage, cost)
            else:
                self._session.ledger.record_cached(call, usage, is_blank=message["is_blank"])
        elif kind in ("reserve", "holds", "release"):
            assert self._budget_server is not None
            if kind == "reserve":
                self._budget_server.reserve(worker, message)
            elif kind == "holds":
                self._budget_server.holds(worker, message)
            else:
                self._budget_server.release(worker, message["reserved"])
        elif self._journal_server is not None:
            if kind == "leave":
                self._journal_server.leave(worker, message["key"])
            elif kind == "find":
                self._journal_server.find(worker, message)
            else:
                self._journal_server.store(worker, message)

    def _log(self, worker: WorkerHandle, level: int, text: str) -> None:
        """Log a worker's message. It is dropped if it is about the whole run and another worker has logged it already,
        because one process would have logged it once.
        """
        if not text.startswith("[") and len(self._logged) < _MOST_LOGGED:  # items' messages start with [question id]
            self._logged.setdefault(text, worker.index)
        if self._logged.get(text, worker.index) == worker.index:
            logger.log(level, text)  # not "%s": handlers filter messages by their text

    def _model(self, payload: Payload) -> ModelConfig:
        """Return the model in a worker's message. Equal models are one object, if possible the configuration's."""
        if not self._models:
            models = configured_models(self._session.config)
            self._models = [(serialization.to_plain(model), model) for _, model in models]
        model = next((model for plain, model in self._models if plain == payload), None)
        if model is None:
            model = ModelConfig.model_validate(payload)
            self._models.append((payload, model))
        return model

    async def _finish(self, job: Job, results: list[tuple[int, str]]) -> None:
        """Store the results of a job, queue them to be yielded, and reset the number of consecutive deaths."""
        self._deaths_in_a_row = 0
        for judge, text in results:
            result = VerificationResult.model_validate_json(text)
            self._add_result(await self._session.store_result(job.task, judge, result))
        self._finishing -= 1
        self._wakeup.set()

    def _add_result(self, result: IndexedResult) -> None:
        self._results.append(result)
        self._wakeup.set()

    def _mirror_limits(self) -> None:
        """Copy the state of the workers' limiters to the run's limiters, for progress displays."""
        limits = self._session.limits
        limits.held = 0
        for at, server in enumerate(limits.servers):
            seen = [worker.servers[at] for worker in self._handles if at < len(worker.servers)]
            limit, held, queued, retrying = (sum(counts[which] for counts in seen) for which in range(4))
            server.limit, server.held, server.queued, server.retrying = limit, int(held), int(queued), int(retrying)
            limits.held += server.held

    # ---- the end

    def _stop(self, grace: float) -> None:
        """Stop the run after `grace` seconds for calls in progress, or at once for 0, even after an earlier stop."""
        first, self._stopping = self._stopping is None, grace
        if not grace:
            self._over = True
        elif first:
            for worker in self._handles:
                if worker.ready:
                    worker.send({"kind": "stop", "grace": grace})
                else:
                    worker.stopped = True
            asyncio.get_running_loop().call_later(grace + 1.0, self._end)
        self._wakeup.set()

    def _end(self) -> None:
        """Mark the run as over, even if some workers have not stopped."""
        self._over = True
        self._wakeup.set()
