"""The event loop of a run: uvloop's where it is installed (the extra `fast`), else Python's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine, in an event loop of its own, which is closed at the end.

    As `asyncio.run`, also on Ctrl-C; uvloop takes a tenth off what a run computes. It keeps time in milliseconds.
    Raises `RuntimeError` where an event loop runs in this thread already.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes a loop; None stands for what `asyncio` takes by itself."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
