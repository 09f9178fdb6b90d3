"""Fewer passes of Python's garbage collector during a run."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLD: Final = 20_000
"""The number of new objects (some megabytes) after which the collector looks for cycles."""

_lock = threading.Lock()
_active = 0
_saved = (0, 0, 0)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Let the collector start after `THRESHOLD` new objects in place of 700, inside the `with` block.

    A run holds the objects of all items in progress, with hardly any cycles, and the collector would scan them again
    and again, for a sixth of the run's computing time. Blocks may overlap, in any threads: the last one to end restores
    the thresholds that the first one found. A collector that is off, or runs less often, is not changed.
    """
    global _active, _saved
    with _lock:
        if _active == 0:
            _saved = gc.get_threshold()
            if 0 < _saved[0] < THRESHOLD:
                gc.set_threshold(THRESHOLD, *_saved[1:])
        _active += 1
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0:
                gc.set_threshold(*_saved)
