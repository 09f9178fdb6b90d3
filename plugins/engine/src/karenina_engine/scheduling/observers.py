"""Tell those who observe a run what happens in it. Where nobody listens, nothing is made and nothing is paid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from karenina_core.errors import describe_error
from karenina_engine.scheduling.events import AnswerStarted, CallStarted, StageStarted

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord
    from karenina_core.stages.state import Item
    from karenina_engine.calls.call import Call, CallOutcome
    from karenina_engine.scheduling.events import ItemStarted, RunFinished, RunStarted

logger = logging.getLogger("karenina")

Listeners = dict[str, list[tuple[str, Callable[..., object]]]]
"""By hook who listens, as distribution and version, and what to call with the hook's arguments."""


class Observers:
    """All who observe one run, by hook. `karenina_engine.scheduling.find_observers` finds them.

    One that raises is warned about, and costs neither the others nor the run anything.
    """

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = {hook: tuple(found) for hook, found in listeners.items() if found}
        self.observes_answers = self.observes("answer")
        self.observes_items = self.observes("item")
        self.observes_stages = self.observes("stage")
        self.observes_calls = self.observes("call")
        self.observes_item_starts = "karenina_item_started" in self._listeners

    def observes(self, what: str) -> bool:
        """Whether anybody wants to hear of the start or the end of a `run`, `answer`, `item`, `stage` or `call`."""
        return any(f"karenina_{what}_{when}" in self._listeners for when in ("started", "finished"))

    def run_started(self, event: RunStarted) -> None:
        """Tell that the run begins."""
        self._notify("karenina_run_started", event=event)

    def run_finished(self, event: RunFinished) -> None:
        """Tell that the run is over."""
        self._notify("karenina_run_finished", event=event)

    def answer_events(self, item: Item) -> AbstractContextManager[None]:
        """Tell that an answer is got and judged in the `with` block."""
        return self._answer_events(item) if self.observes_answers else _NO_EVENTS

    @contextmanager
    def _answer_events(self, item: Item) -> Iterator[None]:
        event = AnswerStarted(item)
        self._notify("karenina_answer_started", event=event)
        try:
            yield
        finally:
            self._notify("karenina_answer_finished", event=event)

    def item_started(self, event: ItemStarted) -> None:
        """Tell that an item begins."""
        self._notify("karenina_item_started", event=event)

    def item_finished(self, result: VerificationResult) -> None:
        """Tell that an item has its result."""
        self._notify("karenina_item_finished", result=result)

    def stage_started(self, stage: str, item: Item) -> Callable[[StageRecord], None] | None:
        """Report that a stage executes. What is returned reports its record; None if nothing listens."""
        if not self.observes_stages:
            return None
        event = StageStarted(stage, item)
        self._notify("karenina_stage_started", event=event)
        return partial(self._stage_finished, event)

    def _stage_finished(self, event: StageStarted, record: StageRecord) -> None:
        self._notify("karenina_stage_finished", event=event, record=record)

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report that a model is called. What is returned reports what became of the call."""
        event = CallStarted(call)
        self._notify("karenina_call_started", event=event)
        return partial(self._call_finished, event)

    def _call_finished(self, event: CallStarted, made: CallOutcome) -> None:
        self._notify("karenina_call_finished", event=event, made=made)

    def _notify(self, hook: str, **arguments: object) -> None:
        for owner, call in self._listeners.get(hook, ()):
            try:
                call(**arguments)
            except Exception as error:
                logger.warning("an observer of %s failed in %s: %s", owner, hook, describe_error(error))


_NO_EVENTS: Final = nullcontext()

NO_OBSERVERS: Final = Observers({})
"""A run that nobody observes."""
