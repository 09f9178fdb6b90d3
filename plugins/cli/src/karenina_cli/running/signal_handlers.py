"""Signal handlers for runs: the first Ctrl-C stops the run cleanly, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_engine.run.session import RunSession

GRACE: Final = 3.0
"""Seconds that calls in flight have to finish, so that their replies are stored."""
INTERRUPTED: Final = "it was interrupted"


@contextmanager
def stop_on_signals(session: RunSession, note: Callable[[str], None]) -> Iterator[None]:
    """Let Ctrl-C (and SIGTERM) stop the run inside the block; `note` prints what happens.

    After the first signal, no new item is started and calls in flight have `GRACE` seconds to finish; the second raises
    `KeyboardInterrupt`. Only the main thread receives signals: in another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def stop(_number: int, _frame: Any) -> None:
        nonlocal pressed
        if pressed or not session.running:
            raise KeyboardInterrupt
        pressed = True
        session.stop_soon(INTERRUPTED, grace=GRACE, then=note_calls)

    def note_calls() -> None:
        calls = session.limits.held
        if calls:
            note(
                f"Stopping: waiting up to {GRACE:g} s for {quantity(calls, 'call')} in flight. Press Ctrl-C again "
                "to stop at once."
            )

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
