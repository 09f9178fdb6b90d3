"""Control garbage collection, which would take a third of a short command's time."""

from __future__ import annotations

import atexit
import gc
from typing import Final

_STARTUP_THRESHOLD: Final = 200_000
"""The number of new objects before garbage is collected. Startup creates half as many, and no garbage."""
_DEFAULT_THRESHOLD: Final = gc.get_threshold()


def collect_rarely() -> None:
    """Collect garbage only in long-running commands, and not at exit."""
    gc.set_threshold(_STARTUP_THRESHOLD, *_DEFAULT_THRESHOLD[1:])
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Collect garbage at the usual intervals, ignoring all existing objects."""
    gc.freeze()
    gc.set_threshold(*_DEFAULT_THRESHOLD)
