"""The pipeline, which runs the stages of a plan for an answer and then for each of its judges.

If a stage fails, only its item ends. Errors that affect the whole run, such as Ctrl-C, propagate (see `is_interrupt`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from traceback import walk_tb
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import SECONDS_DIGITS, StageRecord
from karenina_core.errors import ItemInterrupt, ItemTimeout, MissingProduct, RunError, describe_error
from karenina_core.models.ports import NO_USAGE, CallNotes
from karenina_core.stages.context import Item, ItemError, State, VerificationContext
from karenina_core.stages.finalize import VERIFICATION_RESULT, make_result
from karenina_core.stages.stage import Skip, Stage
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.plan import Plan, PlannedStage
    from karenina_core.stages.state import StageCalls

logger = logging.getLogger("karenina")

RecordMaker = partial[StageRecord]

_MOST_RECORDS: Final = 4096
"""The maximum number of stages' records that are kept because they recur."""


class StageListener(Protocol):
    """An observer of a pipeline's stages."""

    def stage_started(self, stage: str, item: Item) -> Callable[[StageRecord], None] | None:
        """Called when a stage starts.

        May return a function, which is called with the stage's record when the stage ends.
        """


class Pipeline:
    """The runner of a plan, for many items concurrently.

    Each item may take up to `item_timeout` seconds. None means no limit. Without a `listener`, nothing is observed.
    """

    def __init__(self, plan: Plan, listener: StageListener | None, item_timeout: float | None = None) -> None:
        self.plan = plan
        self.item_timeout = item_timeout
        self._answer_stages = plan.of_scope("answer")
        self._item_stages = plan.of_scope("item")
        if lost := [
            stage for stage in plan.stages if stage not in self._answer_stages and stage not in self._item_stages
        ]:
            raise RunError(f"stage {lost[0].name} would never run because its scope is {lost[0].stage.scope!r}")
        self._record_makers = {planned.name: _record_maker(planned) for planned in plan.stages}
        self._listener = listener

    async def answer(self, item: Item) -> State:
        """Run the stages of an answer, and return the state shared by all of its judges, which records stage errors.
        Pass it to `end` afterwards; if this method raises an exception or is cancelled, the state has already been
        ended.
        """
        now = time.monotonic()
        state = State(item, started=now, deadline=now + (self.item_timeout or float("inf")))
        try:
            await self.run_stages(self._answer_stages, state)
        except BaseException:
            await self.end(state)
            raise
        return state

    async def judge(self, answer: State, item: Item) -> VerificationResult:
        """Run a judge's stages for an answer, and return the result. The result includes errors raised by stages. The
        `at_end` callbacks of the item are called before this returns, but not those of the answer.
        """
        state = State(item, parent=answer, started=time.monotonic(), deadline=answer.deadline)
        try:
            await self.run_stages(self._item_stages, state)
            result: VerificationResult = state.read(VERIFICATION_RESULT.name) or make_result(state)
            result.stages = [*answer.records, *state.records]
            return result
        finally:
            await self.end(state)

    def failed(self, item: Item, message: str) -> VerificationResult:
        """Return the result of an item that failed before its first stage. `message` is the error message."""
        error = ItemError("", message, Outcome.STAGE_ERROR)
        return make_result(State(item, started=time.monotonic(), error=error))

    async def end(self, state: State) -> None:
        """Call the `at_end` callbacks of an item or answer in reverse order. A second call has no effect. Errors in
        callbacks are logged. Interrupts propagate (see `is_interrupt`) when all callbacks have been called.
        """
        interrupt: BaseException | None = None
        callbacks, state.at_end = state.at_end, []
        for callback in reversed(callbacks):
            try:
                waiting = callback()
                if inspect.isawaitable(waiting):
                    await waiting
            except BaseException as failure:
                if is_interrupt(failure, asyncio.current_task()):
                    interrupt = failure
                else:
                    logger.warning("[%s] an at_end callback failed", state.item.question.id, exc_info=True)
        if interrupt is not None:
            raise interrupt

    async def run_stages(self, stages: Sequence[PlannedStage], state: State) -> list[StageRecord]:
        """Run `stages` in order, and return their records, which are also added to `state`. After an error, only stages
        that run after errors are executed, and the others are recorded as skipped. Interrupts propagate (see
        `is_interrupt`).

        At the end, the processes that agents started in workspaces are terminated, so that an answer's tools cannot
        affect judges.
        """
        task = asyncio.current_task()
        listener, logs = self._listener, logger.isEnabledFor(logging.INFO)
        records: list[StageRecord] = []
        try:
            for planned in stages:
                context = VerificationContext(state, planned)
                skip = self._skip(planned, state, context, task)
                if skip is not None:
                    if logs:
                        logger.debug("[%s] %s skipped: %s", state.item.question.id, planned.name, skip.why)
                    records.append(_recurring_record(self._record_makers[planned.name], skip.why, 0.0))
                    continue
                # Items that are ready then run this stage in a row, which takes less time than running it with other
                # code in between. The time spent waiting for them does not count, also not towards `item_timeout`.
                paused = time.monotonic()
                await asyncio.sleep(0)
                began = time.monotonic()
                state.started += began - paused
                state.deadline += began - paused
                finished = listener.stage_started(planned.name, state.item) if listener is not None else None
                error = await self._execute(planned, state, context, task)
                elapsed = time.monotonic() - began
                if error is None and logs:
                    logger.info("[%s] %s done", state.item.question.id, planned.name)
                record = _make_record(self._record_makers[planned.name], context.own_calls, error, elapsed)
                state.started += elapsed - record.seconds
                records.append(record)
                if finished is not None:
                    finished(record)
        finally:
            for folder in list(state.workspaces):
                await state.leave_workspace(folder)
        state.records += records
        return records

    def _skip(
        self, planned: PlannedStage, state: State, context: VerificationContext, task: asyncio.Task[Any] | None
    ) -> Skip | None:
        """Return the reason for skipping the stage (an earlier error, a missing artifact or the answer of
        `should_run`), or None if it should run. If `should_run` raises an exception, it becomes the item's error, and
        the stage is skipped. Interrupts propagate (see `is_interrupt`).

        `task` is the asyncio task that runs the stage.
        """
        stage = planned.stage
        error = state.first_error()
        if error is None and not planned.producers and type(stage).should_run is Stage.should_run:
            return None
        if error is not None and not stage.runs_after_error:
            return Skip(f"{error.stage} failed")
        for key, producer in planned.producers:
            if not state.has(key.name):
                return Skip(f"{key.name} is missing because {producer} did not run")
        try:
            answer = stage.should_run(context)
            if answer is True:
                return None
            if answer is not False and not isinstance(answer, Skip):
                raise TypeError(f"it must return True, False or Skip(reason), not {answer!r} ({type(answer).__name__})")
            skip = answer if isinstance(answer, Skip) else Skip("should_run() returned False")
            why = replace_surrogates(str(skip.why))
            return skip if why is skip.why else Skip(why)
        except BaseException as failure:
            if is_interrupt(failure, task):
                raise
            return Skip(f"should_run() failed: {self._fail(planned, state, failure)}")

    async def _execute(
        self, planned: PlannedStage, state: State, context: VerificationContext, task: asyncio.Task[Any] | None
    ) -> str | None:
        """Run a stage. Return an error message if it fails, otherwise None. A stage also fails if it does not set an
        artifact in `produces`, a recorded reply is missing or, unless it runs after errors, the item's time runs out.
        The first error becomes the item's error. Interrupts propagate (see `is_interrupt`).

        `task` is the asyncio task that runs the stage.
        """
        stage = planned.stage
        earlier = state.error
        try:
            waiting = stage.execute(context)
            if waiting is not None and inspect.isawaitable(waiting):
                if self.item_timeout is None or stage.runs_after_error:
                    await waiting
                else:
                    await _in_time(waiting, state.deadline, ItemTimeout(self.item_timeout))
            if (calls := context.own_calls) is not None and calls.no_recorded_reply is not None:
                raise calls.no_recorded_reply  # even if the stage caught it: its result would be invalid
            raised = state.error
            if raised is earlier or raised is not state.first_error():
                if not planned.writes <= state.artifacts.keys():
                    missing = sorted(planned.writes - state.artifacts.keys())
                    raise MissingProduct(
                        f"stage {planned.name} of {planned.distribution} ran without setting {', '.join(missing)}; "
                        "set every artifact in `produces` (to None if there is no value)"
                    )
                return None
        except BaseException as failure:
            if is_interrupt(failure, task):
                raise
            if isinstance(failure, ItemTimeout | asyncio.CancelledError):
                context.calls.count_failure()  # the call that was cancelled may succeed when the run resumes
            return self._fail(planned, state, failure)
        assert raised is not None
        return raised.message

    def _fail(self, planned: PlannedStage, state: State, failure: BaseException) -> str:
        """Log that a stage failed, and return the error message. Unless the item already has an error, this becomes its
        error.
        """
        message = describe_error(failure, planned.stage)
        logger.error(
            "[%s] %s of %s %s failed: %s",
            state.item.question.id,
            planned.name,
            planned.distribution,
            planned.version,
            message,
            exc_info=logger.isEnabledFor(logging.DEBUG),
        )
        if state.first_error() is None:
            outcome = Outcome.TIMED_OUT if isinstance(failure, ItemTimeout) else planned.stage.error_outcome
            state.error = ItemError(planned.name, message, outcome)
        return message


async def _in_time(waiting: Awaitable[None], deadline: float, late: ItemTimeout) -> None:
    """Await `waiting` until the item's deadline. If the deadline passes, cancel it and raise `late`."""
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


def _make_record(make: RecordMaker, calls: StageCalls | None, error: str | None, elapsed: float) -> StageRecord:
    """Return the record of a stage that was executed. Its seconds are those that `elapsed` without waiting for model
    calls, which it only describes if there were any. `make` sets the values that are the same for every item.
    """
    called: dict[str, Any] = {}
    if calls is not None:
        usage, notes = calls.usage, calls.notes or CallNotes()
        elapsed = notes.work_seconds(elapsed)
        if usage is not NO_USAGE or calls.failed or notes.retries or notes.keys:
            called["calls"], called["failed_calls"], called["retries"] = usage.calls, calls.failed, notes.retries
            called["input_tokens"], called["output_tokens"] = usage.input_tokens, usage.output_tokens
            called["waited"], called["call_keys"] = round(notes.waited + notes.queued, SECONDS_DIGITS), notes.keys
    seconds = round(elapsed, SECONDS_DIGITS)
    if error is None and not called:
        return _recurring_record(make, None, seconds)
    return make(status="ran" if error is None else "failed", error=error, seconds=seconds, **called)


@lru_cache(maxsize=_MOST_RECORDS)
def _recurring_record(make: RecordMaker, skipped: str | None, seconds: float) -> StageRecord:
    """Return the record of a stage that ran without calls or errors, or was skipped for the reason `skipped`. Most
    records recur in many items, because times are in whole microseconds.
    """
    return make(status="ran" if skipped is None else "skipped", reason=skipped, seconds=seconds)


def _record_maker(planned: PlannedStage) -> RecordMaker:
    """Return a function that makes the records of a stage, with the values that are the same for every item."""
    slot = planned.slot.config_name if planned.slot is not None else None
    return partial(
        StageRecord, name=planned.name, slot=slot, distribution=planned.distribution, version=planned.version
    )


def is_interrupt(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether `error`, raised in a stage that `task` runs, has to propagate, because it ends more than the
    stage: a `RunError`, an `ItemInterrupt`, the cancellation of `task`, or an exception raised by a signal handler, as
    on Ctrl-C.

    Interrupts are:

    - `ItemInterrupt` and `RunError`
    - the cancellation of `task`, the asyncio task that runs the stage
    - `GeneratorExit` if the event loop is gone and the stage's coroutine is being closed
    - exceptions raised by a signal handler (Ctrl-C, or programs that exit on SIGTERM), anywhere in the stage

    All other exceptions are stage errors and only end the stage's item. An exception group is an interrupt if any of
    its exceptions is.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_interrupt(exception, task) for exception in error.exceptions)
    if isinstance(error, Exception | ItemInterrupt):
        return isinstance(error, RunError | ItemInterrupt)
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or asyncio.current_task() is not task
    return _is_raised_by_signal_handler(error)


def _is_raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler raised `error`. Python runs signal handlers only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True  # the default handler is written in C and leaves no frame in the traceback
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """Return the code object of a signal handler: a function, a method, or a partial call of one."""
    code = getattr(getattr(handler, "func", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None
