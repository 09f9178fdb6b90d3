"""Processes of the system."""

from __future__ import annotations

import os


def is_running(process: int) -> bool:
    """Return whether there is a process with this id; the negative id of a group stands for any of its processes."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
