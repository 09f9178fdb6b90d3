"""What a command uses, added up over its processes and files, where no control group counts it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_LEAST_FILE: Final = 4096
"""The number of bytes as which each file, link or folder counts at least, because it needs an inode."""
DEEPEST: Final = 100
"""The maximum depth of nested folders. Deeper ones count as more than any limit."""


def find_processes(first: int) -> list[int]:
    """Return the ids of the process `first` and of all its descendants that still exist."""
    found, waiting = [first], [first]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                found += children
                waiting += children
    return found


def count_tasks(processes: list[int]) -> int:
    """Return the total number of threads of these processes. Those that have ended count as 0."""
    total = 0
    for pid in processes:
        with suppress(OSError):
            total += sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return total


def measure_memory(processes: list[int], most: int) -> int:
    """Return the memory of the processes in bytes. Shared pages count once, if there is more than `most` otherwise."""
    resident = sum(map(_measure_resident, processes))
    return sum(map(_measure_share, processes)) if resident > most else resident


def measure_files(folders: list[Path], most: int) -> int:
    """Return the space that the files in these folders take, in bytes, without what cannot be read. Measuring stops
    once the sum exceeds `most`.
    """
    total = 0
    for folder in folders:
        with suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                total += _measure_folder(opened, most - total, 0)
            finally:
                os.close(opened)
        if total > most:
            break
    return total


def _measure_folder(folder: int, most: int, depth: int) -> int:
    """Return the space that the entries of an open folder take, in bytes. Stops at more than `most`. A folder that is
    nested too deeply counts as more than `most`.
    """
    total = 0
    if depth > DEEPEST:
        return most + 1
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                total += max(status.st_blocks * 512, _LEAST_FILE)
                if stat.S_ISDIR(status.st_mode):
                    opened = os.open(
                        entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
                    )
                    try:
                        total += _measure_folder(opened, most - total, depth + 1)
                    finally:
                        os.close(opened)
            if total > most:
                break
    return total


def _measure_share(pid: int) -> int:
    """Return the memory of a process in bytes, with a proportional share of memory that others use too. If that share
    is unknown, all of it counts.
    """
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _measure_resident(pid)


def _measure_resident(pid: int) -> int:
    """Return the memory of a process in bytes, or 0 if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0
