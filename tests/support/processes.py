"""Processes of the system."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def is_running(process: int) -> bool:
    """Return whether there is a process with this id; the negative id of a group stands for any of its processes."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def find_running(command: str) -> list[int]:
    """Return the processes that have this command line."""
    words = b"".join(word.encode() + b"\0" for word in command.split())
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if place.read_bytes() == words:
                found.append(int(place.parent.name))
    return found
