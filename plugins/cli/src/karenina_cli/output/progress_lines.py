"""Progress lines that a thread prints while a command works."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def call_every(seconds: float, print_line: Callable[[], None]) -> Iterator[None]:
    """Call `print_line` in a thread every `seconds` seconds until the block ends. The first call is after one
    interval.
    """
    ended = threading.Event()

    def repeat() -> None:
        """Call `print_line` until the block ends."""
        while not ended.wait(seconds):
            print_line()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
