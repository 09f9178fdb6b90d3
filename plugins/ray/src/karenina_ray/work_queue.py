"""The answers that a run still needs, and the workers that produce them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    """A worker as seen by the run.

    `index` is the worker's number. If it dies, its replacement gets the same number. `jobs` contains its jobs, keyed by
    their order. `room` is the number of answers that it can process concurrently. `models` contains the models that it
    has sent, keyed by number. `servers` contains the limit of each server, and the numbers of held, queued and retrying
    calls. `suspect` means that another worker died while processing one of its `jobs`. Until these are done, it gets no
    other jobs.
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
        """Send a message, batched with others. If the worker is dead, the message is dropped."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send_outbox)
        self._outbox.append(message)

    def _send_outbox(self) -> None:
        """Send the messages collected so far. If the worker is dead, drop them."""
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.encode(outbox))


@dataclass(slots=True, eq=False)
class Job:
    """An answer to produce, and the indexes of the judges that still have to judge it.

    `deaths` is the number of workers that died while processing it. After the first death, the job is only assigned
    together with its group, to a worker that has no other jobs. Groups become smaller with each death, until the job
    that kills workers is alone.
    """

    task: AnswerTask
    judges: list[int]
    deaths: int = 0


class WorkQueue:
    """The run's jobs in order, interleaved with the results that are already in the journal.

    At the end of the run, `over` becomes True. If the next answer's question has folders, they are read in a thread
    before it is run, as in one process, so that a folder that changes meanwhile makes the result invalid. Until then,
    `reading` is the task that reads them, and `on_read` is called at its end.
    """

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._matrix = iter(session.matrix)
        self._next: Job | None = None
        self._read: AnswerTask | None = None
        self.reading: asyncio.Task[None] | None = None
        self.on_read: Callable[[], None] = lambda: None
        self.over = False
        """Whether the matrix is exhausted."""

    def advance(self) -> list[IndexedResult]:
        """Advance to the next answer of the run. Return its stored results, and queue a job for the missing ones. At
        the end of the run, `over` becomes True and the list is empty, as it is if the answer's folders must be read
        first. Raises the error of reading them.
        """
        store = self._session.result_store
        if self.reading is not None:
            self.reading.result()
            task, self._read, self.reading = self._read, None, None
        else:
            task = next(self._matrix, None)
            if task is not None and store is not None and task.pipeline.plan.naming_folders:
                self._read = task
                self.reading = asyncio.get_running_loop().create_task(store.read_folders(task))
                self.reading.add_done_callback(lambda _: self.on_read())
                return []
        if task is None:
            self.over = True
            return []
        judges, stored = self._session.pending_judges(task)
        if judges:
            self._next = Job(task, judges)
        return stored

    @property
    def can_advance(self) -> bool:
        """Whether there may be another answer, and no job is queued and no folder is being read."""
        return not (self.over or self.has_job or (self.reading is not None and not self.reading.done()))

    @property
    def has_job(self) -> bool:
        """Whether a job is queued. If so, do not call `advance`, because it would replace the job."""
        return self._next is not None

    def pop(self) -> Job | None:
        """Remove and return the queued job, or return None."""
        job, self._next = self._next, None
        return job
