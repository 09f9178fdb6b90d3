"""The hooks of a run: what works through it, and what observes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import CallOutcome
    from karenina_engine.scheduling.events import (
        AnswerStarted,
        CallStarted,
        ItemStarted,
        RunFinished,
        RunStarted,
        StageStarted,
    )
    from karenina_engine.scheduling.executor import Executor


@hookspec
def karenina_executors() -> Sequence[Executor]:
    """Offer ways to work through a run, in other processes or on other machines, chosen by name (`executor`)."""


@hookspec
def karenina_observers(config: VerificationConfig) -> Sequence[object]:
    """Offer observers of one run under `config`: objects with the hooks below, told of this run and of no other.

    Asked when the run is prepared; nothing is offered where the configuration asks for nothing, and nothing is paid
    then. A `KareninaError` refuses the run. Observers are told in the event loop, so they must not wait, and in the
    task that does the work: what they set in a context variable when something starts is seen by all that it does.
    """


@hookspec
def karenina_run_started(event: RunStarted) -> None:
    """Told before the first item of a run."""


@hookspec
def karenina_run_finished(event: RunFinished) -> None:
    """Told after the last item of a run, also when it was interrupted."""


@hookspec
def karenina_answer_started(event: AnswerStarted) -> None:
    """Told before a model is asked for one answer, which is then put before its judges."""


@hookspec
def karenina_answer_finished(event: AnswerStarted) -> None:
    """Told when all judges have seen the answer, also when that was cut off."""


@hookspec
def karenina_item_started(event: ItemStarted) -> None:
    """Told when an item, one answer before one judge, begins. The `item` of its result will be its `event.item.key`."""


@hookspec
def karenina_item_finished(result: VerificationResult) -> None:
    """Told when an item has its result, also where the journal had it and nothing began."""


@hookspec
def karenina_stage_started(event: StageStarted) -> None:
    """Told before a stage executes; not for stages that are skipped."""


@hookspec
def karenina_stage_finished(event: StageStarted, record: StageRecord) -> None:
    """Told after a stage executed or failed, with what is recorded about it; not for stages that are skipped."""


@hookspec
def karenina_call_started(event: CallStarted) -> None:
    """Told before a model is called: once for all tries, and not for replies that the journal had."""


@hookspec
def karenina_call_finished(event: CallStarted, made: CallOutcome) -> None:
    """Told what became of the call and what it took; it has neither reply nor error where it was cut off."""


def offered(plugins: Plugins) -> None:
    """Make the settings of the executors names of the configuration."""
    for offer in plugins.offers(karenina_executors):
        if offer.value.settings is not None:
            plugins.settings.setdefault(offer.value.settings, offer.distribution)
