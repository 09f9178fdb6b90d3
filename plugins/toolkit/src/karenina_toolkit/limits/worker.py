"""The program of a child process that runs functions with limits. `child_processes` starts it as a script.

It reads lines of JSON from its standard input, and answers each with a line. It only imports the modules of the
functions that it runs, and nothing else of Karenina.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Final

_FORBIDDEN: Final = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.")
_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
"""Flags of the system call `unshare`."""
_GRACE: Final = 2.0
"""The number of seconds after the time limit at which the system kills this process.

The parent process kills it earlier, unless the parent has ended itself.
"""


def serve() -> None:
    """Read a setup from standard input, limit this process as it says, and run the functions named in the jobs that
    follow, writing each result to standard output. This ends with the input, or if there is no job for the setup's idle
    time. A job that exceeds its time limit ends the process.
    """
    jobs = os.fdopen(os.dup(0), "rb")
    results = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)  # what a library prints must not be read as a result
    setup = json.loads(jobs.readline() or "{}")
    if not setup:
        return
    sys.path[:] = setup["path"]
    _limit_resources(setup["memory"])
    _leave_network()
    sys.addaudithook(_forbid)
    functions: dict[str, Callable[..., object]] = {}
    _write(results, b"{}")
    while select.select([jobs], [], [], setup["idle"])[0]:  # the parent sends a job only after the last result
        line = jobs.readline()
        if not line:
            return
        job = json.loads(line)
        # The default action of the signal ends the process even in the middle of a long call of C code.
        signal.setitimer(signal.ITIMER_REAL, job["seconds"] + _GRACE)
        _write(results, _run(job, functions))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run(job: dict[str, Any], functions: dict[str, Callable[..., object]]) -> bytes:
    """Return a job's result, the limit that it exceeded, or its error, encoded as JSON. A job without arguments only
    imports the function. Imported functions are stored in `functions`.
    """
    name = job["function"]
    try:
        if name not in functions:
            module, _, attribute = name.partition(":")
            functions[name] = getattr(import_module(module), attribute)
        result = functions[name](*job["arguments"]) if "arguments" in job else None
        return json.dumps({"result": result}, allow_nan=False).encode()
    except MemoryError:
        return b'{"limit": "memory"}'
    except RecursionError:
        return b'{"limit": "depth"}'
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:2_000]}).encode()


def _limit_resources(memory: int) -> None:
    """Limit this process to `memory` bytes where the system can, and forbid it to write to files."""
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS does not limit the address space
            continue


def _leave_network() -> None:
    """Move this process to a network of its own, without devices, if the system allows it (Linux, mostly)."""
    if sys.platform == "linux":
        new_user = 0 if os.geteuid() == 0 else _NEW_USER  # root would lose its right to read others' modules
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).unshare(_NEW_NETWORK | new_user)


def _forbid(event: str, _arguments: object) -> None:
    """Raise `PermissionError` if Python code tries to use the network or start a program."""
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"{event} is forbidden in a process with limits")


def _write(results: BinaryIO, line: bytes) -> None:
    results.write(line + b"\n")
    results.flush()


if __name__ == "__main__":
    serve()
