"""The answers that a run still needs, and the workers that produce them."""

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
    """The run's view of a worker.

    `index` is its number, which passes to its replacement if it dies. `jobs` maps the order of each of its jobs to the
    job, and `room` is how many answers it can process at once. `models` contains the models that it has sent, by
    number. `servers` contains the limit of each server, and the numbers of held, queued and retrying calls. `suspect`
    means that another worker died while processing one of its `jobs`. Until they are done, it gets no others.
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
        """Send a message, batched with others. It is dropped if the worker is dead."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send_outbox)
        self._outbox.append(message)

    def _send_outbox(self) -> None:
        """Send the messages collected so far, or drop them if the worker is dead."""
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.encode(outbox))


@dataclass(slots=True, eq=False)
class Job:
    """An answer to produce, and the indices of the judges that still have to see it.

    `deaths` is the number of workers that died while processing it. After the first death, the job is assigned only
    together with its group, to a worker without other jobs. Groups become smaller with each death, until the job that
    kills workers is alone.
    """

    task: AnswerTask
    judges: list[int]
    deaths: int = 0


class WorkQueue:
    """The jobs of a run in order, between the results that are already in the journal.

    `over` becomes True at the end.
    """

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._matrix = iter(session.matrix)
        self._next: Job | None = None
        self.over = False
        """Whether the matrix is exhausted."""

    def advance(self) -> list[IndexedResult]:
        """Go to the next answer of the run. Returns its stored results, and queues a job for the others.

        At the end, `over` becomes True and the list is empty.
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
        """True if a job is queued. Do not call `advance` then, because it would replace the job."""
        return self._next is not None

    def pop(self) -> Job | None:
        """Return the queued job and remove it, or return None."""
        job, self._next = self._next, None
        return job
