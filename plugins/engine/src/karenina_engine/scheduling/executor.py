"""Executors: where the work of a run is done. `asyncio` does it here; plugins offer others (`karenina_executors`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_engine.scheduling.indexed_result import IndexedResult
    from karenina_engine.scheduling.prepared_run import PreparedRun
    from karenina_engine.scheduling.session import RunSession


class Executor(ABC):
    """A way to work through a run, chosen by its `name` in the configuration (`executor`).

    The run itself stays in the process that was asked for it: it has the matrix (`run.prepared.matrix`), the one
    journal, the output and the observers. An executor takes the answers of the matrix one after another, asks
    `run.todo` which of their items have to run, has them worked on (`karenina_engine.scheduling.item_runner.ItemRunner`
    does that in any process), and hands each result to `run.finished`, which keeps it, before it brings it. Each item
    of the matrix has one result in the end, also where something broke on the way (`run.work.failed`).

    `settings` is the model of the configuration names that it owns, each marked `changes_results: False`: where the
    work is done changes no result. `keeps_budgets` says that it makes no call that `run.budget` does not cover, where
    the run has one: else such runs are refused. One object serves all runs of a process.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    keeps_budgets: ClassVar[bool] = False
    settings: ClassVar[type[BaseModel] | None] = None

    def check(self, prepared: PreparedRun) -> None:
        """Look, before anything is asked, at what would keep the run from being done. Raises `ConfigError`."""

    @abstractmethod
    def execute(self, run: RunSession) -> AsyncGenerator[IndexedResult]:
        """Every item's result with its place in the matrix, as the run gave it, in the order in which they end.

        While it works, it has a listener at the run (`run.add_stop_listener`), which is called in the event loop when
        the run is stopped; the generator ends soon after. Where it is closed early it ends at once all that it started.
        """


class AsyncioExecutor(Executor):
    """`asyncio`: all of it in one event loop of this process."""

    name = "asyncio"
    description = "One event loop in this process."
    keeps_budgets = True

    def execute(self, run: RunSession) -> AsyncGenerator[IndexedResult]:
        """What the run does here."""
        return run.here()
