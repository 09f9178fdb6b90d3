"""Errors that a stage must let pass because they are meant for the whole run, such as a cancellation or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import threading
from traceback import walk_tb
from types import CodeType
from typing import Any

from karenina_core.errors import ItemInterrupt, RunError


def is_interrupt(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether `error` ends more than the stage that raised it, so that it must be raised again.

    Interrupts are:

    - `ItemInterrupt` and `RunError`;
    - the cancellation of `task`, in which the stage runs;
    - `GeneratorExit` when the event loop is gone and closes the stage's coroutine;
    - exceptions raised by a signal handler (Ctrl-C, programs that exit on SIGTERM), at any point of the stage.

    Any other exception, of whatever type, is the stage's own error and ends only its item. An exception group is an
    interrupt if one of its parts is.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_interrupt(one, task) for one in error.exceptions)
    if isinstance(error, Exception | ItemInterrupt):
        return isinstance(error, RunError | ItemInterrupt)
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or asyncio.current_task() is not task
    return _is_raised_by_signal_handler(error)


def _is_raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler raised `error`. Python runs handlers in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True  # the default handler is written in C and leaves no frame in the traceback
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a handler that is a function, a method, or a partial call of one."""
    code = getattr(getattr(handler, "func", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None
