"""Run one plan: first what an answer needs, then each judge's item, up to its result."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import TypeAdapter

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import StageRecord
from karenina_core.errors import ItemTimeout, MissingProduct, describe_error
from karenina_core.interrupts import is_interrupt
from karenina_core.models.ports import NO_USAGE, CallNotes
from karenina_core.stages.context import Item, ItemError, State, VerificationContext
from karenina_core.stages.finalize import VERIFICATION_RESULT, make_result
from karenina_core.stages.stage import Skip
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.planning.plan import Plan, PlannedStage

logger = logging.getLogger("karenina")

_RECORDS: Final = TypeAdapter(list[StageRecord])


class StageListener(Protocol):
    """An observer of the stages of a pipeline."""

    def stage_started(self, stage: str, item: Item) -> Callable[[StageRecord], None] | None:
        """Note that a stage executes. Return what is called with its record, or None if nothing is to be called."""


class Pipeline:
    """One plan, ready to run over any number of items at once, for at most `item_timeout` seconds each."""

    def __init__(self, plan: Plan, listener: StageListener, item_timeout: float | None = None) -> None:
        self.plan = plan
        self._item_timeout = item_timeout
        self._answer_stages = plan.of_scope("answer")
        self._item_stages = plan.of_scope("item")
        self._facts = {planned.name: _facts(planned) for planned in plan.stages}
        self._listener = listener

    async def answer(self, item: Item) -> State:
        """Run the answer-scope stages: what all judges of this answer share. It has an end: `end`.

        Where it is cancelled nobody gets the answer, and it ends here.
        """
        now = time.monotonic()
        limit = self._item_timeout
        state = State(item, started=now, deadline=now + limit if limit is not None else None)
        try:
            await self.run_stages(self._answer_stages, state)
        except BaseException:
            await self.end(state)
            raise
        return state

    async def judge(self, answer: State, item: Item) -> VerificationResult:
        """Run the item-scope stages over an answer, up to the result. Errors of stages end in the result, too."""
        state = State(item, parent=answer, started=time.monotonic(), deadline=answer.deadline)
        try:
            await self.run_stages(self._item_stages, state)
            found: VerificationResult | None = state.read(VERIFICATION_RESULT.name)
            result = found if found is not None else make_result(state)
            result.stages = [*answer.records, *state.records]
            return result
        finally:
            await self.end(state)

    def failed(self, item: Item, message: str) -> VerificationResult:
        """The result of an item that none of its stages could work on: an error with that message."""
        state = State(item, started=time.monotonic())
        state.error = ItemError("", message, Outcome.STAGE_ERROR)
        return make_result(state)

    async def end(self, state: State) -> None:
        """Call back whoever asked to be told that the item, or the answer, has ended. A failing callback is logged."""
        callbacks, state.at_end = state.at_end, []
        for callback in reversed(callbacks):
            try:
                waiting = callback()
                if inspect.isawaitable(waiting):
                    await waiting
            except BaseException as failure:
                if is_interrupt(failure, asyncio.current_task()):
                    raise
                logger.warning("[%s] a clean-up failed", state.item.question.id, exc_info=True)

    async def run_stages(self, stages: Sequence[PlannedStage], state: State) -> list[StageRecord]:
        """Run these stages one after another over `state`; their records are added to it and returned.

        What was started for agents in workspaces ends with them: an answer's tools change nothing under its judges.
        """
        task = asyncio.current_task()
        said: list[dict[str, Any]] = []
        try:
            for planned in stages:
                said.append(await self._run_one(planned, state, task))  # noqa: PERF401 - that would be one coroutine more
        finally:
            for folder in list(state.workspaces):
                await state.leave_workspace(folder)
        records = _RECORDS.validate_python(said)
        state.records += records
        return records

    async def _run_one(self, planned: PlannedStage, state: State, task: asyncio.Task[Any] | None) -> dict[str, Any]:
        """Run one stage, in `task`, where it is to run; what its record says."""
        context = VerificationContext(state, planned)
        skip = self._skip(planned, state, context, task)
        if skip is not None:
            logger.debug("[%s] %s skipped: %s", state.item.question.id, planned.name, skip.why)
            return {**self._facts[planned.name], "status": "skipped", "reason": skip.why}
        finished = self._listener.stage_started(planned.name, state.item)
        began = time.monotonic()
        error = await self._execute(planned, state, context, task)
        said = {
            **self._facts[planned.name],
            "status": "failed" if error is not None else "ran",
            "error": error,
            "seconds": time.monotonic() - began,
            **_called(context),
        }
        if finished is not None:
            finished(StageRecord(**said))
        return said

    def _skip(
        self, planned: PlannedStage, state: State, context: VerificationContext, task: asyncio.Task[Any] | None
    ) -> Skip | None:
        """Why the stage does not run for this item, or None where it does."""
        stage = planned.stage
        error = state.first_error()
        if error is not None and not stage.runs_after_error:
            return Skip(f"{error.stage} failed")
        for key, producer in planned.producers:
            if not state.has(key.name):
                return Skip(f"{key.name} is missing: {producer} did not run")
        try:
            answer = stage.should_run(context)
            if answer:
                return None
            why = answer.why if isinstance(answer, Skip) else "it says that there is nothing to do"
            return Skip(replace_surrogates(str(why)))
        except BaseException as failure:
            if is_interrupt(failure, task):
                raise
            return Skip(f"it could not say whether it runs: {self._fail(planned, state, failure)}")

    async def _execute(
        self, planned: PlannedStage, state: State, context: VerificationContext, task: asyncio.Task[Any] | None
    ) -> str | None:
        """Run the stage; the error where it failed."""
        stage = planned.stage
        known = state.first_error()
        try:
            waiting = stage.execute(context)
            if waiting is not None and inspect.isawaitable(waiting):
                if state.deadline is None or stage.runs_after_error:
                    await waiting
                else:
                    await _in_time(waiting, state.deadline, ItemTimeout(self._item_timeout or 0.0))
            if context.no_recorded_reply is not None:
                raise context.no_recorded_reply  # a stage that goes on without would pass for one that was told no
            raised = state.first_error()
            if raised is known:
                if not planned.writes <= state.artifacts.keys():
                    missing = sorted(planned.writes - state.artifacts.keys())
                    raise MissingProduct(planned.name, missing, planned.distribution)
                logger.info("[%s] %s done", state.item.question.id, planned.name)
                return None
        except BaseException as failure:
            if is_interrupt(failure, task):
                raise
            if isinstance(failure, ItemTimeout | asyncio.CancelledError):
                context.count_failure()  # what was cut off may bring a reply when the run goes on
            return self._fail(planned, state, failure)
        assert raised is not None
        return raised.message

    def _fail(self, planned: PlannedStage, state: State, failure: BaseException) -> str:
        said = describe_error(failure, planned.stage)
        logger.error(
            "[%s] %s of %s %s failed: %s",
            state.item.question.id,
            planned.name,
            planned.distribution,
            planned.version,
            said,
            exc_info=logger.isEnabledFor(logging.DEBUG),
        )
        if state.first_error() is None:
            late = isinstance(failure, ItemTimeout)
            outcome = Outcome.TIMED_OUT if late else planned.stage.error_outcome
            state.error = ItemError(planned.name, said, outcome)
        return said


async def _in_time(waiting: Awaitable[None], deadline: float, late: ItemTimeout) -> None:
    """Wait for a stage until the item's time is out. Raises `late`."""
    left = deadline - time.monotonic()
    if left <= 0:
        if inspect.iscoroutine(waiting):
            waiting.close()
        raise late
    time_out = asyncio.timeout(left)
    try:
        async with time_out:
            await waiting
    except TimeoutError:
        if time_out.expired():
            raise late from None
        raise


def _called(context: VerificationContext) -> dict[str, Any]:
    """What the record of a stage says of its calls; nothing where it made none."""
    usage, notes = context.usage, context.notes
    if usage is NO_USAGE and not context.failed_calls and (notes is None or not notes.retries):
        return {}
    notes = notes or CallNotes()
    return {
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "retries": notes.retries,
        "waited": notes.waited,
        "failed_calls": context.failed_calls,
    }


def _facts(planned: PlannedStage) -> dict[str, Any]:
    """What all records of a stage say alike."""
    return {
        "name": planned.name,
        "slot": planned.slot.config_name if planned.slot is not None else None,
        "distribution": planned.distribution,
        "version": planned.version,
    }
