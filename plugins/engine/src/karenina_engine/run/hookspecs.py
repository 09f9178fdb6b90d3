"""The hooks of a run: executors and observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

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
    """Offer executors, which run items in other processes or on other machines. The setting `executor` selects one."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_panel(config: VerificationConfig) -> Panel | None:
    """Offer the panel of judges that evaluates the answers of a run under `config`; None without one.

    Called several times for a run, in each of its processes. A `KareninaError` refuses the run.
    """


@hookspec
def karenina_observers(config: VerificationConfig) -> Sequence[object]:
    """Offer observers of one run under `config`: objects with the hooks below, which are called for this run only.

    Called when the run is prepared. If the configuration asks for no observer, return an empty list; the run then has
    no overhead. A `KareninaError` refuses the run. Observers are called in the event loop, so they must not block, and
    in the task that does the work: a context variable that is set when something starts is visible to all of its work.
    """


@hookspec
def karenina_run_started(event: RunStarted) -> None:
    """Called before the first item of a run."""


@hookspec
def karenina_run_finished(event: RunFinished) -> None:
    """Called after the last item of a run, also if it was interrupted."""


@hookspec
def karenina_answer_started(event: AnswerStarted) -> None:
    """Called before a model generates one answer, which all judges then evaluate."""


@hookspec
def karenina_answer_finished(event: AnswerStarted) -> None:
    """Called when all judges have evaluated the answer, also if that was interrupted."""


@hookspec
def karenina_item_started(event: ItemStarted) -> None:
    """Called when an item (one answer, one judge) begins. The `item` of its result will be its `event.item.key`."""


@hookspec
def karenina_item_finished(result: VerificationResult) -> None:
    """Called when an item has its result, also if the result comes from the journal and no item began."""


@hookspec
def karenina_stage_started(event: StageStarted) -> None:
    """Called before a stage executes; not for stages that are skipped."""


@hookspec
def karenina_stage_finished(event: StageStarted, record: StageRecord) -> None:
    """Called after a stage executed or failed, with its record; not for stages that are skipped."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_started(event: CallStarted) -> None:
    """Called before a model is called: once for all attempts, and not for replies from the journal."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_call_finished(event: CallStarted, made: CallOutcome) -> None:
    """Called when a call ends, with its reply or error and its usage; it has neither if it was cancelled."""


def offered(plugins: Plugins) -> None:
    """Register the settings of the offered executors as names of the configuration."""
    for offer in plugins.offers(karenina_executors):
        if offer.value.settings is not None:
            plugins.settings.setdefault(offer.value.settings, offer.distribution)
