"""Ctrl-C during a run: once stops it cleanly, twice at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from karenina_engine.scheduling.session import RunSession

GRACE: Final = 3.0
"""Seconds for which calls under way may end, so that their replies are kept."""
INTERRUPTED: Final = "it was interrupted"


@contextmanager
def stop_on_signals(run: RunSession, note: Callable[[str], None]) -> Iterator[None]:
    """Let Ctrl-C (and SIGTERM) stop `run` while the block lasts; the user is told by `note`.

    The first takes up nothing more and lets calls under way end for a moment; the second raises `KeyboardInterrupt`.
    Only the main thread hears of signals: in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def stop(_number: int, _frame: Any) -> None:
        nonlocal pressed
        if pressed or not run.running:
            raise KeyboardInterrupt
        pressed = True
        run.stop_soon(INTERRUPTED, grace=GRACE, then=say)

    def say() -> None:
        calls = run.limits.held
        if calls:
            note(f"Stopping: {calls} calls under way have {GRACE:g} s to end. Ctrl-C again stops at once.")

    known = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
