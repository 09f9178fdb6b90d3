"""Running coroutines from synchronous code, even inside a running event loop (as in a notebook)."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from karenina_core.errors import RunError, describe_error
from karenina_core.pipeline import is_interrupt

T = TypeVar("T")

THRESHOLD: Final = 20_000
"""The number of new objects (some megabytes) after which the garbage collector runs."""

_gc_lock = threading.Lock()
_running = 0
_saved_thresholds = (0, 0, 0)


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, and return its result.

    This behaves like `asyncio.run`, including on Ctrl-C. If an event loop is already running (as in a notebook), the
    coroutine runs in a new thread.
    """
    if not _has_running_loop():
        with (
            rare_garbage_collection(),
            _program_kept_running(),
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            return runner.run(work())
    context = contextvars.copy_context()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(context.run(lambda: run_blocking(work)))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="karenina-run")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop factory: uvloop's if it is installed (the extra `fast`), or None for asyncio's own.

    uvloop saves a tenth of a run's computing time, but its clock has a resolution of milliseconds.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _program_kept_running() -> Iterator[None]:
    """Raise `RunError` instead of an exception that would end the program, unless a signal or the user caused it.

    A plugin's task may raise such an exception.
    """
    try:
        yield
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        if is_interrupt(error, None):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise RunError(
            f"something in the run tried to end the program: {describe_error(error)}, raised in {where.name} "
            f"({where.filename}, line {where.lineno}); finished items are kept; resume the run once that is fixed"
        ) from error


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Run the garbage collector after `THRESHOLD` new objects instead of Python's default, inside the `with` block.

    A run holds the objects of all items in progress, with hardly any cycles, and the collector would scan them
    repeatedly, which takes a sixth of the run's computing time. Blocks may overlap, in any threads: when the last one
    ends, the thresholds from before the first are restored. A collector that is off, or already runs less often, is not
    changed.
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
