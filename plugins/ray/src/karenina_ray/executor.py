"""`RayExecutor`: checks before the run, and the start of the cluster and its workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from karenina_core.config import find_adapter
from karenina_core.errors import ConfigError
from karenina_engine.run.executor import Executor
from karenina_engine.settings import EngineSettings
from karenina_ray.settings import RaySettings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_engine.run.matrix import IndexedResult
    from karenina_engine.run.session import RunSession

logger = logging.getLogger("karenina")


class RayExecutor(Executor):
    """An executor that spreads the answers of a run over workers of a Ray cluster, as each becomes free.

    Each worker is an actor with an event loop, ports and limits of its own; the journal, the output and the scheduling
    stay in the process of the run. The concurrency of each server is divided among the workers, so that together they
    have that of one process, and each worker adapts its own part.
    """

    name: ClassVar[str] = "ray"
    description: ClassVar[str] = "Workers of a Ray cluster, on this machine or on several."
    keeps_budgets: ClassVar[bool] = True
    settings: ClassVar[type[BaseModel]] = RaySettings

    def check(self, session: RunSession) -> None:
        """Check that the run can be sent to other processes. Raises `ConfigError`."""
        from karenina_ray.serialization import find_problems

        problems = find_problems(session)
        if problems:
            raise ConfigError(problems)

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the results in the order in which workers return them."""
        from karenina_ray.cluster import open_cluster
        from karenina_ray.work_queue import WorkQueue
        from karenina_ray.worker_scheduler import Scheduler

        queue = WorkQueue(session)
        while not queue.has_job:  # stored results need no worker, so Ray does not start for them
            stored = queue.advance()
            if queue.over:
                return
            for result in stored:
                yield result
            await asyncio.sleep(0)
            if session.stopped is not None:
                return
        settings = session.config.section(RaySettings)
        async with open_cluster(settings.ray_address, settings.ray_workers) as ray:
            wanted = settings.ray_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            workers = _limit_workers(session, wanted)
            async with (
                Scheduler(ray, session, queue, workers, settings.ray_patience) as scheduler,
                aclosing(scheduler.results()) as results,
            ):
                async for result in results:
                    yield result


def _limit_workers(session: RunSession, workers: int) -> int:
    """Return the number of workers to start: at most one for each call that every server allows at once."""
    core, concurrency = session.config.core, session.config.section(EngineSettings).concurrency()
    allowed = [concurrency.most] if concurrency.most is not None else []
    for model in (*core.answering_models, *core.parsing_models):
        declared = find_adapter(session.parts.plugins, model.interface).spec.concurrency
        allowed.append(concurrency.bounds(model, declared(model) if declared is not None else None).ceiling)
    fewest = min(allowed)
    answers = session.matrix.answers
    if fewest < workers:
        logger.warning(
            "%d Ray workers are started instead of %d: a server allows %d calls at once, and each worker needs one",
            fewest,
            workers,
            fewest,
        )
    return max(1, min(workers, fewest, answers))
