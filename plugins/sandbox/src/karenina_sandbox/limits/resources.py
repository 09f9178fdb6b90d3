"""Resource limits of processes: the number of processes of a user, and the size of a file."""

from __future__ import annotations

import platform
import shutil
from typing import Final

from karenina_sandbox.sandbox import Limits

_PER_NAMESPACE: Final = (5, 14)
"""The Linux version since which the processes of a user are counted for each user namespace."""
_BLOCK: Final = 4096


def counts_by_namespace() -> bool:
    """Return whether a limit on a user's processes leaves out those outside of a user namespace."""
    return tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2]) >= _PER_NAMESPACE


def largest_file(limits: Limits) -> int:
    """Return the size that no file may exceed. With a block more than allowed, a command is stopped."""
    return limits.disk + _BLOCK


def limiting_command(limits: Limits, *, own_user: bool) -> list[str]:
    """Return the `prlimit` command line to put before a command that is to be limited, or an empty list if `prlimit` is
    not installed. `own_user` states whether the command has a user id of its own. Otherwise, the number of its
    processes is only limited if the kernel counts them by namespace.
    """
    prlimit = shutil.which("prlimit", path="/usr/bin:/bin")
    if prlimit is None:
        return []
    size, most = largest_file(limits), limits.processes
    processes = [f"--nproc={most}:{most}"] if own_user or counts_by_namespace() else []
    return [prlimit, "--core=0:0", f"--fsize={size}:{size}", *processes, "--"]
