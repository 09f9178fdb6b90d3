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
    """Return executors, which run items in other processes or on other machines. The setting `executor` selects one."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_panel(config: VerificationConfig) -> Panel | None:
    """Return the panel of judges that evaluates the answers of a run under `config`, or None for no panel.

    Called several times for a run, in each of its processes. Raise a `KareninaError` to refuse the run.
    """


@hookspec
def karenina_observers(config: VerificationConfig) -> Sequence[object]:
    """Return observers for a run under `config`: objects whose hooks (see below) are called for this run only.

    Called when the run is prepared. Return an empty list if the configuration does not ask for observers; the run then
    has no overhead. Raise a `KareninaError` to refuse the run. Observers are called in the event loop, so they must not
    block. They are called in the task that does the work, so a context variable set when something starts is visible in
    all of its work.
    """


@hookspec
def karenina_run_started(event: RunStarted) -> None:
    """Called before the first item of a run."""


@hookspec
def karenina_run_finished(event: RunFinished) -> None:
    """Called after the last item of a run, even if it was interrupted."""


@hookspec
def karenina_answer_started(event: AnswerStarted) -> None:
    """Called before a model generates an answer, which is then evaluated by all judges."""


@hookspec
def karenina_answer_finished(event: AnswerStarted) -> None:
    """Called when all judges have evaluated the answer, or when the evaluation was interrupted."""


@hookspec
def karenina_item_started(event: ItemStarted) -> None:
    """Called when an item (one answer, one judge) starts. `event.item.key` equals the `item` of its result."""


@hookspec
def karenina_item_finished(result: VerificationResult) -> None:
    """Called when an item has received its result.

    The result may also come from the journal, in which case the item was not started.
    """


@hookspec
def karenina_stage_started(event: StageStarted) -> None:
    """Called before a stage executes. Not called for skipped stages."""


@hookspec
def karenina_stage_finished(event: StageStarted, record: StageRecord) -> None:
    """Called after a stage has executed or failed, with its record. Not called for skipped stages."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_started(event: CallStarted) -> None:
    """Called before a model is called, once for all attempts. Not called for replies from the journal."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_finished(event: CallStarted, made: CallOutcome) -> None:
    """Called when a call ends.

    `made` contains the call's reply or error and its usage; a cancelled call has neither.
    """


def offered(plugins: Plugins) -> None:
    """Register the settings of the executors offered by plugins as configuration names."""
    for offer in plugins.offers(karenina_executors):
        if offer.value.settings is not None:
            plugins.settings.setdefault(offer.value.settings, offer.distribution)
