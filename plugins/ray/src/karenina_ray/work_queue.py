"""The answers that a run still needs, taken one by one from its matrix, and the workers that produce them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_ray import serialization
from karenina_ray.serialization import Payload

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_engine.run.matrix import AnswerTask, IndexedResult
    from karenina_engine.run.session import RunSession


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """A worker, as seen by the run.

    `index` is its number among the run's workers. The replacement of a dead worker inherits this number.

    `jobs` maps the order of each job in the run to the job. `room` is the number of answers that the worker can process
    at the same time. `models` contains the models sent by the worker, by number. `servers` contains, for each server,
    its limit and the numbers of held, queued and retrying calls. `suspect` means that another worker died while
    processing one of the `jobs`; until they are done, this worker gets no other jobs.
    """

    actor: Any
    index: int
    alive: bool = True
    ready: bool = False
    stopped: bool = False
    suspect: bool = False
    room: int = 1
    jobs: dict[int, Job] = field(default_factory=dict)
    models: dict[int, ModelConfig] = field(default_factory=dict)
    servers: list[list[float]] = field(default_factory=list)
    _outbox: list[Payload] = field(default_factory=list)

    def send(self, message: Payload) -> None:
        """Send a message, batched with others from this event loop iteration. It is dropped if the worker is dead."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send_outbox)
        self._outbox.append(message)

    def _send_outbox(self) -> None:
        """Send the collected messages as one batch, or drop them if the worker has died."""
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.encode(outbox))


@dataclass(slots=True, eq=False)
class Job:
    """An answer to produce, and the judges (by index) whose items have to be run.

    `deaths` is the number of workers that died while processing the job. After the first death, the job is assigned
    only together with the other jobs in its group, to a worker without other jobs. The groups become smaller with each
    death, until the job that kills workers is alone.
    """

    task: AnswerTask
    judges: list[int]
    deaths: int = 0


class WorkQueue:
    """A run's jobs in matrix order, interleaved with the results that are already in the journal.

    `over` is True once the matrix is exhausted.
    """

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._matrix = iter(session.matrix)
        self._next: Job | None = None
        self.over = False
        """Whether the matrix is exhausted."""

    def advance(self) -> list[IndexedResult]:
        """Take the next answer from the matrix and return its stored results.

        If some of its items still have to be run, a job for them is queued. At the end of the matrix, `over` becomes
        True and the list is empty.
        """
        task = next(self._matrix, None)
        if task is None:
            self.over = True
            return []
        judges, stored = self._session.pending_judges(task)
        if judges:
            self._next = Job(task, judges)
        return stored

    @property
    def has_job(self) -> bool:
        """Whether a job is queued. Call `advance` only if no job is queued, because it would replace the job."""
        return self._next is not None

    def pop(self) -> Job | None:
        """Remove the queued job and return it, or return None if there is none."""
        job, self._next = self._next, None
        return job
