"""Executors, which determine where a run's items are executed.

`AsyncioExecutor` is built in, and plugins can provide others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plugins import Plugins
    from karenina_engine.run.matrix import IndexedResult
    from karenina_engine.run.session import RunSession


class Executor(ABC):
    """A way to execute a run. The setting `executor` selects an executor by its `name`.

    An executor iterates over the remaining answers (`session.remaining_tasks`), asks `session.pending_judges` which
    items have to run, runs them with `karenina_engine.run.item_runner.ItemRunner` in any process, and passes each
    result to `session.store_result` before yielding it. Every item in the matrix must end up with exactly one result,
    even after a failure (`session.runner.make_failed_result`). `LocalExecution` does all of this in the current
    process. The matrix, the journal, the output and the observers stay in the process that started the run. Other
    processes first call `karenina_engine.check.stage_checks.check_configuration`, so that stages set their context
    variables.

    `settings` is a pydantic model for the executor's own settings. Mark these settings `changes_results: False`, since
    results do not depend on where items run. Set `keeps_budgets` if every call is covered by `session.budget` before it
    is made. Otherwise, runs with a budget are rejected. A single instance executes all runs of a process.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    keeps_budgets: ClassVar[bool] = False
    settings: ClassVar[type[BaseModel] | None] = None

    def check(self, session: RunSession) -> None:
        """Raise `ConfigError` if the run cannot be executed. This is called before the first call is made."""

    def describe_use(self, config: VerificationConfig, plugins: Plugins) -> str | None:
        """Return what `karenina plan` says about using this executor for the configured models, or None."""
        return None

    @abstractmethod
    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the results of all items with their indexes in the matrix, in the order in which the items end.

        Implementations must register a listener with `session.add_stop_listener`. When the run is stopped, the listener
        is called in the event loop, and the generator must then end soon. If the generator is closed early, it must end
        everything that it started.
        """


class AsyncioExecutor(Executor):
    """The executor `asyncio`, which runs all items in a single event loop of this process."""

    name = "asyncio"
    description = "One event loop in this process."
    keeps_budgets = True

    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Run the items in this process and yield their results until the session is stopped."""
        from karenina_engine.run.local_execution import LocalExecution

        execution = LocalExecution(session)
        session.add_stop_listener(execution.stop)
        return execution.results()


def question_to_json(question: Question, trust: Trust) -> dict[str, Any]:
    """Convert a question to JSON-compatible data from which `question_from_json` builds it in another process, with the
    source code of a template class. Raises `ValueError` if the source is unavailable or depends on other code, or if a
    trait has a function that must stay in this process or that `trust` does not cover.
    """
    for rubric in (question.rubric, question.dynamic_rubric):
        for trait in rubric.callable_traits if rubric is not None else ():
            if trait.unsaved is not None:
                raise ValueError(f"the function of trait {trait.name!r} {trait.unsaved}")
            if trait.given is not None and trait.source is not None and not trust.covers(trait.source):
                raise ValueError(
                    f"the function of trait {trait.name!r} is not trusted in other processes; move it to a module "
                    'that those processes can import, or pass trust="all"'
                )
    from pydantic_core import to_jsonable_python

    from karenina_template.question_template import standalone_source_of

    values = question.model_dump(mode="json", exclude={"extra"})
    values["extra"] = to_jsonable_python(question.extra)  # it may contain attachments, of which pydantic would warn
    if question.answer_class is not None:
        values["answer_template"] = standalone_source_of(question, trust)
    return values


def question_from_json(values: Mapping[str, Any]) -> Question:
    """Return the question from the output of `question_to_json`. Its attachments, which a run has examined, are not
    examined again.
    """
    from karenina_core.data.question import Question
    from karenina_core.models.attachments import Attachment
    from karenina_toolkit.conversations import entries_with_files

    def rebuild(files: Iterable[Mapping[str, Any]]) -> tuple[Attachment, ...]:
        return tuple(Attachment(**file) for file in files)

    question = Question.model_validate({**values, "attachments": rebuild(values["attachments"])})
    if not entries_with_files(question):
        return question
    turns = [
        {**turn, "attachments": rebuild(turn.get("attachments") or ())} if isinstance(turn, Mapping) else turn
        for turn in values["extra"]["turns"]
    ]
    return question.model_copy(update={"extra": {**question.extra, "turns": turns}})
