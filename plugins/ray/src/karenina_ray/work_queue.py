"""The answers that a run still has to get, taken from its matrix one after another, and the workers that get them."""

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
    """One worker. `index` is its number among the workers of the run; the replacement of a dead worker inherits it.

    `jobs` are its jobs by their order in the run, and `room` is how many answers it could work on at once. `models` are
    the models that it has sent, by number, and `servers` the limit, held, queued and retrying calls of each server.
    `suspect` says that a worker has died with one of its jobs, so that it gets no others.
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
        """Send a message, together with the others of this turn of the event loop."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send_outbox)
        self._outbox.append(message)

    def _send_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.encode(outbox))


@dataclass(slots=True, eq=False)
class Job:
    """An answer to get, and the judges (by index) whose items have to run.

    `deaths` counts the workers that died while they had the job. After the first, the job is assigned only together
    with the other jobs of its group, to a worker that has no other job: this finds the job that kills workers.
    """

    task: AnswerTask
    judges: list[int]
    deaths: int = 0


class WorkQueue:
    """The jobs of a run in the order of its matrix, and between them the results that the journal already has."""

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._matrix = iter(session.matrix)
        self._next: Job | None = None
        self.over = False
        """Whether the matrix is exhausted."""

    def advance(self) -> list[IndexedResult]:
        """Take the next answer of the matrix: return its stored results, and queue a job if items have to run."""
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
        """Whether a job is queued. `advance` may be called only if there is none."""
        return self._next is not None

    def pop(self) -> Job | None:
        """Return the queued job, if there is one, and remove it."""
        job, self._next = self._next, None
        return job
