"""The CLI's process, with its own environment. It is killed together with its descendants."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from claude_agent_sdk import CLIConnectionError, Transport

_CHUNK: Final = 2**16
_LONGEST_LINE: Final = 256 * 2**20
"""The maximum size of a message from the CLI in bytes. The largest contain a reply, which has its own limit."""
_KEPT_OF_STDERR: Final = 2000
_MOMENT: Final = 0.5
_LONGEST_END: Final = 5.0
_PROC = Path("/proc")


class CLIProcess(Transport):
    """A transport over the CLI's standard input and output, with one JSON message per line.

    The SDK's own transport passes on this process's whole environment and takes seconds to end the CLI. Here, `env` is
    the complete environment. `mark` is a unique string in one of its variables, for finding and killing the CLI's
    descendants on Linux. On other systems, only the process group is killed.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path, mark: str) -> None:
        self._command = command
        self._env = dict(env)
        self._folder = folder
        self._mark = mark.encode()
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stderr = ""

    async def connect(self) -> None:
        """Start the CLI in a session of its own, with pipes. Raises `OSError` if it cannot be started."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE if os.name == "posix" else DEVNULL,
            env=self._env,
            cwd=self._folder,
            start_new_session=True,
        )
        self._watch = asyncio.create_task(self._read_stderr(self._process))

    async def write(self, data: str) -> None:
        """Send `data` to the CLI. Raises `CLIConnectionError` if the CLI has ended."""
        if self._process is None or self._process.stdin is None:
            raise CLIConnectionError("the process has ended")
        try:
            self._process.stdin.write(data.encode())
            await self._process.stdin.drain()
        except OSError:
            raise CLIConnectionError("the process has ended") from None

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the CLI's messages until `close` is called, skipping lines that do not start with a JSON object. Raises
        `CLIConnectionError` if the CLI ends, or if a line is too long or not JSON.
        """
        process = self._process
        if process is None or process.stdout is None:
            return
        line = bytearray()
        while chunk := await process.stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                line += part
                if line.lstrip().startswith(b"{"):
                    yield _message(line)
                line.clear()
            line += rest
            if len(line) > _LONGEST_LINE:
                raise CLIConnectionError(f"the process wrote a line of more than {_LONGEST_LINE} bytes")
        if self._process is not None:
            raise CLIConnectionError("the process has ended")

    async def end_input(self) -> None:
        """Close the CLI's input."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def is_ready(self) -> bool:
        """Return whether the CLI is running."""
        return self._process is not None and self._process.returncode is None

    async def read_error_output(self) -> str:
        """Return the last 2000 characters of the CLI's error output on one line.

        This waits briefly for the output to end.
        """
        if self._watch is not None:
            await asyncio.wait([self._watch], timeout=_MOMENT)
        return " ".join(self._stderr.split())

    async def close(self) -> None:
        """Kill the CLI and its descendants, and wait up to `_LONGEST_END` seconds for them."""
        process, self._process = self._process, None
        watch, self._watch = self._watch, None
        if process is None:
            return
        started = _find_descendants(process.pid)
        if process.returncode is None:
            _end_group(process.pid)
            with suppress(ProcessLookupError):
                process.kill()
        _end_all(started)
        _end_all(_find_marked(self._mark))
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        await asyncio.shield(_wait_for_end(process))
        if process.stdin is not None:
            process.stdin.close()
        _end_all(_find_marked(self._mark))

    async def _read_stderr(self, process: Process) -> None:
        """Read the CLI's error output to its end, keeping the last 2000 characters."""
        while process.stderr is not None and (chunk := await process.stderr.read(_CHUNK)):
            self._stderr = (self._stderr + chunk.decode("utf-8", "replace"))[-_KEPT_OF_STDERR:]


async def _wait_for_end(process: Process) -> None:
    """Wait up to `_LONGEST_END` seconds for a killed process to end, then give up.

    Its pipes are read, because asyncio waits until they are closed.
    """
    with suppress(TimeoutError):  # a process that none of the searches found still holds a pipe
        async with asyncio.timeout(_LONGEST_END):
            await asyncio.gather(*(_discard(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None))
            await process.wait()


async def _discard(pipe: asyncio.StreamReader) -> None:
    """Read a pipe to its end, unless another task is reading it."""
    with suppress(RuntimeError):  # another task still reads it
        while await pipe.read(_CHUNK):
            pass


def _message(line: bytearray) -> dict[str, Any]:
    """Parse a line of the CLI's output. Raises `CLIConnectionError` if it is not JSON."""
    try:
        message: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        raise CLIConnectionError(f"the process wrote a line that is not JSON: {bytes(line[:200])!r}") from None
    return message


def _end_group(pid: int) -> None:
    """Kill a process group, if it still exists. Does nothing on Windows."""
    if os.name == "posix":
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _end_all(pids: set[int]) -> None:
    """Kill the processes that still exist, except this one."""
    for pid in pids - {os.getpid()}:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _find_descendants(pid: int) -> set[int]:
    """Return the ids of all descendants of `pid`, if the system lists them."""
    descendants: set[int] = set()
    left = [pid]
    while left:
        for children in _PROC.glob(f"{left.pop()}/task/*/children"):
            with suppress(OSError, ValueError):
                new = {int(child) for child in children.read_text("ascii").split()} - descendants
                descendants |= new
                left += new
    return descendants


def _find_marked(mark: bytes) -> set[int]:
    """Return the ids of all processes with `mark` in their environment, including orphans.

    Processes whose environment cannot be read are skipped. Without `/proc`, the set is empty.
    """
    marked = set()
    for environ in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environ.read_bytes():
                marked.add(int(environ.parent.name))
    return marked
