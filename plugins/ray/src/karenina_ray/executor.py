"""The executor that distributes a run over a Ray cluster, and its settings."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from karenina_core.errors import ConfigError
from karenina_core.models.settings_models import AllowedInFiles
from karenina_engine.model_settings import configured_models
from karenina_engine.run.executor import Executor
from karenina_engine.settings import EngineSettings
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.run.matrix import IndexedResult
    from karenina_engine.run.session import RunSession


class RaySettings(BaseModel, defer_build=True):
    """The settings of the `ray` executor."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    model_config = ConfigDict(frozen=True)

    ray_workers: int | None = Field(
        default=None,
        ge=1,
        description="The number of Ray workers, with one CPU each; by default, one worker per CPU.",
        json_schema_extra={"changes_results": False},
    )
    ray_address: str | None = Field(
        default=None,
        description="The address of a running Ray cluster: host:port of its head node, or auto; by default, a local "
        "cluster is started.",
        json_schema_extra={"changes_results": False, "env": "RAY_ADDRESS"},
    )
    ray_patience: float = Field(
        default=120.0,
        gt=0,
        description="The number of seconds within which the first Ray worker must be ready.",
        json_schema_extra={"changes_results": False},
    )

    @field_validator("ray_address")
    @classmethod
    def _refuse_client(cls, value: str | None) -> str | None:
        """Return the address. Raises `ValueError` if it is that of a Ray client (ray://), which is not supported."""
        if value is not None and value.startswith("ray://"):
            raise ValueError(
                "the Ray client (ray://) is not supported; run on a node of the cluster, and specify host:port"
            )
        return value


LEAST_COMPUTED: Final = 0.0005
"""The number of seconds an item must compute for Ray to be worthwhile on one machine (`benchmarks/scaling.py`)."""

logger = logging.getLogger("karenina")


class RayExecutor(Executor):
    """Distributes a run's answers over the workers of a Ray cluster.

    Workers get answers as they become free. Each worker is an actor with its own event loop, ports and limits. The
    journal, the output and the scheduling stay in the run's process. Each server's concurrency limit is divided among
    the workers, so that together they make as many concurrent calls as a single process would.
    """

    name: ClassVar[str] = "ray"
    description: ClassVar[str] = "Workers of a Ray cluster, on one or more machines."
    keeps_budgets: ClassVar[bool] = True
    settings: ClassVar[type[BaseModel]] = RaySettings

    def check(self, session: RunSession) -> None:
        """Raise `ConfigError` if a plugin, setting or question cannot be sent to other processes."""
        from karenina_ray.serialization import find_problems

        problems = find_problems(session)
        if problems:
            raise ConfigError(problems)

    def describe_use(self, config: VerificationConfig, plugins: Plugins) -> str | None:
        """Return why Ray may not help, if all models replay recorded answers so that no item waits for a call,
        otherwise None.
        """
        models = configured_models(config)
        if not models or not all(find_adapter(plugins, model.interface).spec.recorded for _, model in models):
            return None
        return (
            "All answers are recorded, so items wait for no calls. Ray only helps if an item computes for more than "
            f"{LEAST_COMPUTED * 1000:g} ms, such as to compare expressions; below that, it does not help."
        )

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the results as they become available. Ray is only started if some results are not in the journal yet.
        Raises `ConfigError` if the cluster cannot be reached, and `ExecutorError` if the run cannot continue.
        """
        import asyncio

        from karenina_ray.cluster import open_cluster
        from karenina_ray.work_queue import WorkQueue
        from karenina_ray.worker_scheduler import Scheduler

        queue = WorkQueue(session)
        while not queue.has_job:  # stored results need no worker, so Ray is not started for them
            stored = queue.advance()
            if queue.over:
                return
            for result in stored:
                yield result
            await (asyncio.wait([queue.reading]) if queue.reading is not None else asyncio.sleep(0))
            if session.stopped is not None:
                return
        settings = session.config.section(RaySettings)
        async with open_cluster(settings.ray_address, settings.ray_workers) as ray:
            if session.stopped is not None:  # while Ray started
                return
            requested = settings.ray_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            workers = _limit_workers(session, requested)
            async with (
                Scheduler(ray, session, queue, workers, settings.ray_patience) as scheduler,
                aclosing(scheduler.results()) as results,
            ):
                async for result in results:
                    yield result


def _limit_workers(session: RunSession, workers: int) -> int:
    """Return how many workers to start: `workers`, but not more than answers or concurrent calls, and at least 1. The
    number of calls is the lowest concurrency limit of any server. If it reduces the workers, a warning is logged.
    """
    concurrency = session.config.section(EngineSettings).concurrency()
    allowed = [concurrency.most] if concurrency.most is not None else []
    for _, model in configured_models(session.config):
        declared = find_adapter(session.parts.plugins, model.interface).spec.concurrency
        allowed.append(concurrency.bounds(model, declared(model) if declared is not None else None).ceiling)
    fewest = min(allowed)
    answers = session.matrix.answers
    if fewest < workers:
        logger.warning(
            "the number of Ray workers was reduced from %d to %d because the limit on concurrent calls is %d, and each "
            "worker needs at least one call",
            workers,
            fewest,
            fewest,
        )
    return max(1, min(workers, fewest, answers))
