"""The hooks of a run: executors, panels and observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import CallOutcome
    from karenina_engine.progress.observers import (
        AnswerStarted,
        CallStarted,
        ItemStarted,
        RunFinished,
        RunStarted,
        StageStarted,
    )
    from karenina_engine.run.executor import Executor
    from karenina_engine.run.panel import Panel


@hookspec
@HookPolicy(stability="provisional")
def karenina_executors() -> Sequence[Executor]:
    """Return executors that run items in other processes or on other machines.

    The setting `executor` selects one of them.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_panel(config: VerificationConfig) -> Panel | None:
    """Return a panel of judges for runs with the configuration `config`, or None.

    This is called several times for a run, in each of its processes. Raise a `KareninaError` to reject the run.
    """


@hookspec
def karenina_observers(config: VerificationConfig) -> Sequence[object]:
    """Return observers for a run: objects whose hooks (see below) are called for this run only.

    This is called when the run is prepared. Return an empty list if `config` does not ask for observers, so that there
    is no overhead. Raise a `KareninaError` to reject the run. Observers are called in the event loop, so they must not
    block. They run in the task that does the work. A context variable that is set at the start of an event is therefore
    visible in all of its work.
    """


@hookspec
def karenina_run_started(event: RunStarted) -> None:
    """Called before a run's first item."""


@hookspec
def karenina_run_finished(event: RunFinished) -> None:
    """Called at the end of a run, even if the run was interrupted."""


@hookspec
def karenina_answer_started(event: AnswerStarted) -> None:
    """Called before a model generates an answer."""


@hookspec
def karenina_answer_finished(event: AnswerStarted) -> None:
    """Called when all judges have evaluated the answer, or when their work was interrupted."""


@hookspec
def karenina_item_started(event: ItemStarted) -> None:
    """Called when an item (one answer and one judge) starts.

    `event.item.key` is equal to `item` in the item's result.
    """


@hookspec
def karenina_item_finished(result: VerificationResult) -> None:
    """Called when an item has a result, which observers must not change. If the result comes from the journal, the item
    was never started.
    """


@hookspec
def karenina_stage_started(event: StageStarted) -> None:
    """Called before a stage executes. This is not called for skipped stages."""


@hookspec
def karenina_stage_finished(event: StageStarted, record: StageRecord) -> None:
    """Called with the record of a stage after it has executed or failed. This is not called for skipped stages."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_started(event: CallStarted) -> None:
    """Called once before a model call with all its attempts. This is not called for replies from the journal."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_finished(event: CallStarted, made: CallOutcome) -> None:
    """Called when a call ends, with its reply or error and its usage. A cancelled call has neither."""


def offered(plugins: Plugins) -> None:
    """Register the settings of the available executors as configuration names."""
    from karenina_engine.run.executor import Executor

    for offer in plugins.offers(karenina_executors, Executor):
        if offer.value.settings is not None:
            plugins.settings.setdefault(offer.value.settings, offer.distribution)
