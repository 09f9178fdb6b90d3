"""Executing a run session, and writing, counting or collecting its results.

`run_blocking` lets synchronous code run coroutines, even inside a running event loop (as in a notebook).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from karenina_core.data.result import VerificationResult
from karenina_core.errors import RunError, describe_error
from karenina_core.pipeline import is_interrupt
from karenina_engine.journal.command import is_same_run
from karenina_engine.results.aggregate import Totals
from karenina_engine.results.result_file import HEADER_INDEX, ResultFile, header_line, prepare_output
from karenina_engine.results.result_lines import LineWriter
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.run.precompute import precompute_results
from karenina_engine.run.session import GRACE
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_engine.run.session import PrecomputedPart, RunSession


OnResult = Callable[[VerificationResult], None]
OnIndexedResult = Callable[[int, VerificationResult], None]
"""A function that is called with an item's index in the matrix and the item's result."""


T = TypeVar("T")

THRESHOLD: Final = 20_000
"""The number of new objects (some megabytes) after which the garbage collector runs."""

_gc_lock = threading.Lock()
_running = 0
_saved_thresholds = (0, 0, 0)

logger = logging.getLogger("karenina")


async def execute_session(
    session: RunSession,
    *,
    output: str | Path | None = None,
    on_result: OnIndexedResult | None = None,
    computed: PrecomputedPart | None = None,
) -> Totals:
    """Execute the run and return its totals. The results are not kept in memory, but passed to `on_result` with their
    indexes as items end, and written to the JSONL file `output`, if given, which is sorted into matrix order at the
    end. An existing file is renamed, or replaced if this run continues the run that wrote it. Raises `ConfigError` if
    the file cannot be written.

    If a result cannot be written, or `on_result` raises an exception, the run stops. With a journal, calls in flight
    get a moment to finish, so that their replies are stored. Then the exception is raised.

    For the format, see `karenina_engine.results.result_file`. With `full_results`, every result is complete in itself.
    If you have already entered the context of `precompute_results`, pass its value as `computed`.
    """
    full = session.config.section(EngineSettings).full_results
    writer = LineWriter()
    with (
        precompute_results(session) if computed is None else nullcontext(computed) as ready,
        _result_file(session, Path(output)) if output is not None else nullcontext() as file,
    ):
        begun = False
        failure: Exception | None = None
        async with aclosing(session.indexed_results(ready)) as results:
            async for index, result, text in results:
                if failure is not None:
                    continue
                try:
                    if file is not None and not begun:
                        begun = True
                        file.write(HEADER_INDEX, _header(session))
                    if file is not None and full:
                        file.write(index, result.model_dump_json())
                    elif file is not None:
                        file.write_result(index, writer.lines(result if text is None else text))
                    if on_result is not None:
                        on_result(index, result)
                except Exception as error:
                    failure = error
                    if not session.stopping:
                        grace = GRACE if session.journal is not None else 0.0
                        session.stop("a result could not be written or passed on", grace=grace)
        if failure is not None:
            raise failure
        if file is not None:
            if not begun:
                file.write(HEADER_INDEX, _header(session))
            file.sort_lines()
    return session.totals


async def collect_results(
    session: RunSession, *, output: str | Path | None = None, on_result: OnResult | None = None
) -> VerificationResultSet:
    """Execute the run and return all results in matrix order. For `output`, see `execute_session`. `on_result` is
    called with each result as its item ends.
    """
    results: list[tuple[int, VerificationResult]] = []

    def keep(index: int, result: VerificationResult) -> None:
        """Collect a result, and pass it to `on_result`."""
        results.append((index, result))
        if on_result is not None:
            on_result(result)

    await execute_session(session, output=output, on_result=keep)
    results.sort(key=lambda pair: pair[0])
    return VerificationResultSet(result for _, result in results)


def _header(session: RunSession) -> str:
    """Return the header line for the run's result file. The run must have started."""
    journal = session.journal
    if journal is None:
        return header_line(session.distributions, free=session.ledger.free)
    last, place = journal.last_command() or {}, dict.fromkeys(("folder", "output", "config_file", "benchmark"))
    rescored = journal.replaying and not is_same_run({**last, **place}, {**session.command, **place})
    return header_line(session.distributions, journal.run_digest(), rescored=rescored, free=session.ledger.free)


def _result_file(session: RunSession, path: Path) -> ResultFile:
    """Create the file for the run's results, renaming an existing file with a warning. That file is removed instead if
    this run continues the run in its journal and the journal contains all its results. Raises `ConfigError` if the file
    cannot be written.
    """
    last = session.journal.last_command() if session.journal is not None else None
    goes_on = last is not None and is_same_run(last, session.command)
    moved = prepare_output(
        path, ours=session.journal.holds_all_lines if goes_on and session.journal is not None else None
    )
    if moved is not None:
        logger.warning("%s contained earlier results, which are kept in %s", path, moved)
    return ResultFile(path)


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine from synchronous code, and return its result or raise its exception. Unlike `asyncio.run`, this
    also works while an event loop is running, as in a notebook: the coroutine then runs in a new thread with a copy of
    the context. Ctrl-C cancels it there too.
    """
    if not _has_running_loop():
        with (
            rare_garbage_collection(),
            _program_kept_running(),
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            return runner.run(work())
    context = contextvars.copy_context()
    ended: Future[T] = Future()
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []
    interrupted = False

    async def cancellable_work() -> T:
        """Await the coroutine, unless Ctrl-C came before it started."""
        started.append((asyncio.get_running_loop(), asyncio.current_task()))
        if interrupted:
            raise asyncio.CancelledError
        return await work()

    def target() -> None:
        """Run the coroutine in this thread, and record its result or exception."""
        try:
            ended.set_result(context.run(lambda: run_blocking(cancellable_work)))
        except BaseException as error:
            ended.set_exception(error)

    thread = threading.Thread(target=target, name="karenina-run")
    try:
        thread.start()
        wait([ended])
    except BaseException:
        interrupted = True
        for loop, task in started:
            if task is not None:
                with suppress(RuntimeError):  # the loop was closed in the meantime
                    loop.call_soon_threadsafe(task.cancel)
        if thread.is_alive():
            wait([ended])
        raise
    return ended.result()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop factory, or None if uvloop (the extra `fast`) is not installed. uvloop saves a tenth
    of a run's computing time, but its clock only has a resolution of milliseconds.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _has_running_loop() -> bool:
    """Return whether an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _program_kept_running() -> Iterator[None]:
    """Convert exceptions of the `with` block that would end the program to `RunError`. A plugin may raise one by
    calling `sys.exit`, for example. If a signal or the user caused the exception, it propagates.
    """
    try:
        yield
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        if is_interrupt(error, None):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise RunError(
            f"something in the run tried to end the program: {describe_error(error)}, raised in {where.name} "
            f"({where.filename}, line {where.lineno}). Finished items were kept; fix the problem and resume the run"
        ) from error


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Make the garbage collector run only after `THRESHOLD` new objects inside the `with` block. If it is off or
    already runs less often, it is not changed.

    A run keeps the objects of all items in progress, which form hardly any cycles. Scanning them again and again would
    take a sixth of the run's computing time. Blocks may overlap, even in several threads. After the last one, the old
    thresholds are restored.
    """
    global _running, _saved_thresholds
    with _gc_lock:
        if _running == 0:
            _saved_thresholds = gc.get_threshold()
            if 0 < _saved_thresholds[0] < THRESHOLD:
                gc.set_threshold(THRESHOLD, *_saved_thresholds[1:])
        _running += 1
    try:
        yield
    finally:
        with _gc_lock:
            _running -= 1
            if _running == 0:
                gc.set_threshold(*_saved_thresholds)
