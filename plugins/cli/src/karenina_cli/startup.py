"""What makes short commands fast: no looks for garbage, and asyncio only if it is used."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_AFTER: Final = 200_000
"""The number of new objects before a look for garbage. Starts make half as many, and none of them is garbage."""
_USUAL: Final = gc.get_threshold()
_LATER: Final = "asyncio"


class _Later(ModuleType):
    """A module that stands for asyncio until one of its names is used.

    Most modules that a command imports need asyncio only in a run, and it comes with the libraries for TLS.
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(_LATER) is self:
            del sys.modules[_LATER]
        return getattr(import_module(_LATER), name)


def prepare_start() -> None:
    """Look for garbage only in long commands, and not at exit, and import asyncio when it is used first."""
    gc.set_threshold(_AFTER, *_USUAL[1:])
    atexit.register(gc.freeze)
    sys.modules.setdefault(_LATER, _Later(_LATER))


def collect_as_usual() -> None:
    """Look for garbage as often as Python does by itself, but not in what exists now."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
