"""Garbage collection, which would take up a third of a short command's time."""

from __future__ import annotations

import atexit
import gc
from typing import Final

_STARTUP_THRESHOLD: Final = 200_000
"""The number of new objects until garbage is collected. Startup creates half as many, and no garbage."""
_DEFAULT_THRESHOLD: Final = gc.get_threshold()


def collect_rarely() -> None:
    """Collect garbage only in long-running commands, and not at exit."""
    gc.set_threshold(_STARTUP_THRESHOLD, *_DEFAULT_THRESHOLD[1:])
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Collect garbage as often as usual, but ignore all objects so far."""
    gc.freeze()
    gc.set_threshold(*_DEFAULT_THRESHOLD)
