"""Fewer looks for garbage while the command starts, and at exit.

Python looks at all objects again and again to free cycles of them. What a start imports is not garbage: for a short
command, that would be a third of the time.
"""

from __future__ import annotations

import atexit
import gc
from typing import Final

_AFTER: Final = 200_000
"""The number of new objects before a look; a start makes fewer."""
_USUAL: Final = gc.get_threshold()


def collect_rarely() -> None:
    """Look for garbage only after a start is over, and not at exit, when all memory is freed at once anyway."""
    gc.set_threshold(_AFTER, *_USUAL[1:])
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Look for garbage as often as Python does by itself, but not in what exists now, for work that may take hours."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
