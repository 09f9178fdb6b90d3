"""The answers that a run has still to get, taken from its matrix one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_engine.journal.tasks import AnswerTask
    from karenina_engine.scheduling.indexed_result import IndexedResult
    from karenina_engine.scheduling.session import RunSession


@dataclass(slots=True, eq=False)
class Job:
    """An answer to get, and the judges whose items have to run.

    `deaths` counts the workers that died while they had it. Afterwards it is given out only together with those that
    were left in one group with it, and to a worker that has nothing else: so the one that kills workers is found.
    """

    task: AnswerTask
    judges: list[int]
    deaths: int = 0


class WorkQueue:
    """The jobs of a run, in the order of its matrix, and between them the results that its journal has already."""

    def __init__(self, run: RunSession) -> None:
        self._run = run
        self._matrix = iter(run.prepared.matrix)
        self._next: Job | None = None
        self.over = False
        """Whether there are no more."""

    def advance(self) -> list[IndexedResult]:
        """Look at one more answer; results of it that were kept. `job` has what there is to do, if anything."""
        task = next(self._matrix, None)
        if task is None:
            self.over = True
            return []
        judges, kept = self._run.pending_judges(task)
        if judges:
            self._next = Job(task, judges)
        return kept

    @property
    def has_job(self) -> bool:
        """Whether a job waits to be taken: `advance` is not to be called before."""
        return self._next is not None

    def pop(self) -> Job | None:
        """The job that waits, if there is one."""
        job, self._next = self._next, None
        return job
