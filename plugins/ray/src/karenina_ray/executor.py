"""`RayExecutor`: what is looked at before the run, and the way to the workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from karenina_core.config import find_adapter
from karenina_core.errors import ConfigError
from karenina_engine.scheduling.executor import Executor
from karenina_engine.scheduling.settings import EngineSettings
from karenina_ray.settings import RaySettings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_engine.scheduling.indexed_result import IndexedResult
    from karenina_engine.scheduling.prepared_run import PreparedRun
    from karenina_engine.scheduling.session import RunSession

logger = logging.getLogger("karenina")


class RayExecutor(Executor):
    """Spreads the answers of a run over workers of a Ray cluster, as each becomes free.

    Each worker is an actor with an event loop, ports and limits of its own; the journal, the output and the decision of
    what is done where stay with the run. The places at a server are divided among the workers, so that all together
    have as many as one process would: each finds out for its part how many calls the server bears.
    """

    name: ClassVar[str] = "ray"
    description: ClassVar[str] = "Workers of a Ray cluster, on this machine or on several."
    keeps_budgets: ClassVar[bool] = True
    settings: ClassVar[type[BaseModel]] = RaySettings

    def check(self, prepared: PreparedRun) -> None:
        """See that everything can be told to other processes. Raises `ConfigError`."""
        from karenina_ray.serialization_checks import problems

        found = problems(prepared)
        if found:
            raise ConfigError(found)

    async def execute(self, run: RunSession) -> AsyncGenerator[IndexedResult]:
        """The results, in the order in which workers bring them."""
        from karenina_ray.cluster import cluster
        from karenina_ray.scheduler import Scheduler
        from karenina_ray.work_queue import WorkQueue

        feed = WorkQueue(run)
        while not feed.has_job:  # what the journal has already needs no worker, nor does Ray start for it
            kept = feed.advance()
            if feed.over:
                return
            for placed in kept:
                yield placed
            await asyncio.sleep(0)
            if run.stopped is not None:
                return
        wanted = run.prepared.config.section(RaySettings)
        async with cluster(wanted.ray_address, wanted.ray_workers) as ray:
            workers = _useful(run.prepared, wanted.ray_workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
            async with (
                Scheduler(ray, run, feed, workers, wanted.ray_patience) as foreman,
                aclosing(foreman.results()) as results,
            ):
                async for placed in results:
                    yield placed


def _useful(run: PreparedRun, workers: int) -> int:
    """So many workers that each has a place at every server."""
    core, concurrency = run.config.core, run.config.section(EngineSettings).concurrency()
    places = [concurrency.most] if concurrency.most is not None else []
    for model in (*core.answering_models, *core.parsing_models):
        declared = find_adapter(run.plugins, model.interface).spec.concurrency
        places.append(concurrency.bounds(model, declared(model) if declared is not None else None).ceiling)
    fewest = min(places)
    answers = run.matrix.answers
    if fewest < workers:
        logger.warning(
            "%d Ray workers instead of %d: a server takes %d calls at once, and each worker needs a place of its own",
            fewest,
            workers,
            fewest,
        )
    return max(1, min(workers, fewest, answers))
