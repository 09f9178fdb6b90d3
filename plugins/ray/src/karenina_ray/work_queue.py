"""`WorkQueue`: the answers that a run still has to get, taken from its matrix one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_engine.run.matrix import AnswerTask, IndexedResult
    from karenina_engine.run.session import RunSession


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
