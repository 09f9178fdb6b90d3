"""The events of a run, and sending these events to observers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from karenina_core.errors import describe_error
from karenina_engine.results.result_lines import dump_result

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord
    from karenina_core.stages.context import Item
    from karenina_engine.calls.call import Call, CallOutcome
    from karenina_engine.results.aggregate import Summary

logger = logging.getLogger("karenina")
Listeners = dict[str, list[tuple[str, Callable[..., object]]]]
"""The observers for each hook: their distribution and version, and the function to call."""


class RunStarted(NamedTuple):
    """The start of a run: its number of items, and its configuration."""

    items: int
    config: VerificationConfig


class RunFinished(NamedTuple):
    """The end of a run. If the run was interrupted before its last item, `stopped` is the reason."""

    summary: Summary
    seconds: float
    interrupted: bool = False
    stopped: str | None = None


class AnswerStarted(NamedTuple):
    """The start of an answer, before the model is called. `item` has no judge."""

    item: Item


class ItemStarted(NamedTuple):
    """The start of an item, which is one answer evaluated by one judge."""

    item: Item


class CallStarted(NamedTuple):
    """The start of a call: its model, its purpose and its messages."""

    call: Call


class StageStarted(NamedTuple):
    """The start of a stage. If the stage runs once per answer, `item` has no judge."""

    stage: str
    item: Item


class Observers:
    """The observers of a run, by hook. `karenina_engine.run.plugin_offers` finds them.

    If an observer raises an exception, a warning is logged and everything else continues.
    """

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = {hook: tuple(callbacks) for hook, callbacks in listeners.items() if callbacks}
        self.observes_answers = self.observes("answer")
        self.observes_items = self.observes("item")
        self.observes_stages = self.observes("stage")
        self.observes_calls = self.observes("call")
        self.observes_item_starts = "karenina_item_started" in self._listeners

    def observes(self, what: str) -> bool:
        """Return whether any observer handles the start or end of `what`. `what` is `run`, `answer`, `item`, `stage` or
        `call`.
        """
        return any(f"karenina_{what}_{when}" in self._listeners for when in ("started", "finished"))

    def run_started(self, event: RunStarted) -> None:
        """Report that the run has started."""
        self._notify("karenina_run_started", event=event)

    def run_finished(self, event: RunFinished) -> None:
        """Report that the run has ended."""
        self._notify("karenina_run_finished", event=event)

    def answer_events(self, item: Item) -> AbstractContextManager[None]:
        """Return a context manager that reports the start and end of an answer, including its judging."""
        return self._answer_events(item) if self.observes_answers else _NO_EVENTS

    @contextmanager
    def _answer_events(self, item: Item) -> Iterator[None]:
        """Notify the observers of the start and end of an answer, around the block, with the same event object."""
        event = AnswerStarted(item)
        self._notify("karenina_answer_started", event=event)
        try:
            yield
        finally:
            self._notify("karenina_answer_finished", event=event)

    def item_started(self, event: ItemStarted) -> None:
        """Report that an item has started."""
        self._notify("karenina_item_started", event=event)

    def item_finished(self, result: VerificationResult) -> None:
        """Report that an item has received its result. Observers get a copy, so that they cannot change it."""
        if "karenina_item_finished" in self._listeners:
            try:
                copy = type(result).model_validate_json(dump_result(result))
            except ValueError:  # a plugin's field cannot be stored, which is reported where the result is written
                copy = result.model_copy(deep=True)
            self._notify("karenina_item_finished", result=copy)

    def stage_started(self, stage: str, item: Item) -> Callable[[StageRecord], None] | None:
        """Report the start of a stage, and return a function for reporting its record. Returns None if no observer
        handles stages.
        """
        if not self.observes_stages:
            return None
        event = StageStarted(stage, item)
        self._notify("karenina_stage_started", event=event)
        return partial(self._stage_finished, event)

    def _stage_finished(self, event: StageStarted, record: StageRecord) -> None:
        self._notify("karenina_stage_finished", event=event, record=record)

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report the start of a call, and return a function for reporting its outcome."""
        event = CallStarted(call)
        self._notify("karenina_call_started", event=event)
        return partial(self._call_finished, event)

    def _call_finished(self, event: CallStarted, made: CallOutcome) -> None:
        self._notify("karenina_call_finished", event=event, made=made)

    def _notify(self, hook: str, **arguments: object) -> None:
        """Call a hook on all observers. If an observer raises an exception, a warning is logged."""
        for owner, call in self._listeners.get(hook, ()):
            try:
                call(**arguments)
            except Exception as error:
                logger.warning("an observer from %s failed in %s: %s", owner, hook, describe_error(error))


_NO_EVENTS: Final = nullcontext()

NO_OBSERVERS: Final = Observers({})
"""The observers of a run without observers."""
