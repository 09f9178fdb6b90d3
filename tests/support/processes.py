"""Processes of the system."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def is_running(process: int) -> bool:
    """Return whether there is a process with this id; the negative id of a group stands for any of its processes."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def ends(process: int) -> bool:
    """Return whether a process ends within a minute: one that was killed takes a moment. A zombie has ended."""
    for _ in range(3000):
        if not is_running(process):
            return True
        with suppress(OSError):
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        time.sleep(0.02)
    return False


def find_running(command: str) -> list[int]:
    """Return the processes that have this command line."""
    words = b"".join(word.encode() + b"\0" for word in command.split())
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if place.read_bytes() == words:
                found.append(int(place.parent.name))
    return found
