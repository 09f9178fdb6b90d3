"""Have Python's garbage collector look less often while a run lasts."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ENOUGH: Final = 20_000
"""How many objects more than before there are when the collector looks for cycles: some megabytes."""

_lock = threading.Lock()
_under_way = 0
_before = (0, 0, 0)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """While the block lasts, the collector begins when there are `ENOUGH` new objects, and not after 700.

    A run keeps the objects of all items that are under way, hardly any of which are cycles, and the collector would
    look at them again and again, for a sixth of the time that a run computes. Blocks may overlap, in any threads: the
    last one puts back what the first one found. A collector that is off, or looks less often, stays as it is.
    """
    global _under_way, _before
    with _lock:
        if _under_way == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < ENOUGH:
                gc.set_threshold(ENOUGH, *_before[1:])
        _under_way += 1
    try:
        yield
    finally:
        with _lock:
            _under_way -= 1
            if _under_way == 0:
                gc.set_threshold(*_before)
