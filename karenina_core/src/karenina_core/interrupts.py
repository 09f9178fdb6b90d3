"""Whether what comes out of a stage is the stage's own affair, or is meant for the whole program."""

from __future__ import annotations

import asyncio
import signal
import threading
from traceback import walk_tb
from types import CodeType
from typing import Any

from karenina_core.errors import RunError, Unfinished


def is_interrupt(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether `error` came into a stage from outside, so that it has to pass.

    From outside are what leaves the item unfinished (`Unfinished`) or ends the whole run (`RunError`); the cancellation
    of `task`, in which the stage runs; the end of its coroutine, when the event loop is gone; and what a signal handler
    raises (Ctrl-C, and programs that exit at SIGTERM), whatever the stage was doing. Anything else a stage has raised
    itself, by whatever name, and it takes no other item out of the run. Of a group, one part from outside is enough.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_interrupt(one, task) for one in error.exceptions)
    if isinstance(error, Exception | Unfinished):
        return isinstance(error, RunError | Unfinished)
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or asyncio.current_task() is not task
    return _by_a_signal(error)


def _by_a_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it. Handlers run in the main thread, between two steps of anything."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True  # it has no frame of its own to know it by
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _code(handler: Any) -> CodeType | None:
    """The code of a handler: a function, a method, or a partial call of one."""
    code = getattr(getattr(handler, "func", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None
