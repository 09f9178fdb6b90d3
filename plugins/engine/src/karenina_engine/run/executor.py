"""Executors, which decide where and how a run's items are run. `AsyncioExecutor` is built in; plugins add others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_engine.run.matrix import IndexedResult
    from karenina_engine.run.session import RunSession


class Executor(ABC):
    """A way to run the items of a run, selected by its `name` (the setting `executor`).

    The process that started the run holds the matrix (`session.matrix`), the journal, the output and the observers. An
    executor iterates over the answers that remain (`session.remaining_tasks`), calls `session.pending_judges` for the
    items that have to run, runs them (`karenina_engine.run.item_runner.ItemRunner` works in any process), and passes
    each result to `session.store_result` before it yields it. Each item of the matrix has exactly one result in the
    end, also after a failure (`session.runner.make_failed_result`). In this process,
    `karenina_engine.run.local_execution.LocalExecution` does all of this.

    `settings` is the model of the settings that the executor owns, each marked `changes_results: False`, since where
    items run changes no result. `keeps_budgets` declares that the executor makes no call that `session.budget` does not
    cover; if it is False, runs with a budget are refused. One instance serves all runs of a process.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    keeps_budgets: ClassVar[bool] = False
    settings: ClassVar[type[BaseModel] | None] = None

    def check(self, session: RunSession) -> None:
        """Check, before the first call, that the run can be executed; accept it by default. Raises `ConfigError`."""

    @abstractmethod
    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the result of every item with its index in the matrix, in the order in which items end.

        Register a listener with `session.add_stop_listener`. It is called in the event loop when the run is stopped,
        and the generator must then end soon. If the generator is closed early, it must end everything that it started.
        """


class AsyncioExecutor(Executor):
    """`asyncio`: all items run in one event loop of this process."""

    name = "asyncio"
    description = "One event loop in this process."
    keeps_budgets = True

    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the results of the items, which run in this process."""
        from karenina_engine.run.local_execution import LocalExecution

        execution = LocalExecution(session)
        session.add_stop_listener(execution.stop)
        return execution.results()


def question_to_json(question: Question, trust: Trust) -> dict[str, Any]:
    """Return JSON values from which another process can build the question; a template class is sent as source code.

    Raises `ValueError` if the source of a class is not available or does not build the template on its own, or if a
    trait has a function that can run only in this process.
    """
    for rubric in (question.rubric, question.dynamic_rubric):
        for trait in rubric.callable_traits if rubric is not None else ():
            if trait.unsaved is not None:
                raise ValueError(f"the function of trait {trait.name!r} {trait.unsaved}")
            if trait.given is not None and trait.source is not None and not trust.covers(trait.source):
                raise ValueError(
                    f"the function of trait {trait.name!r} is not trusted in other processes: move it to a module "
                    'that they can import, or pass trust="all"'
                )
    from karenina_template.question_template import standalone_source_of

    values = question.model_dump(mode="json")
    if question.answer_class is not None:
        values["answer_template"] = standalone_source_of(question, trust)
    return values
