"""The process of the CLI: its environment is what we give it and nothing else, and it ends with all that it started."""

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
"""Bytes of one message of the CLI; the largest holds a reply of the model, which is bounded before."""
_KEPT_OF_STDERR: Final = 2000
_MOMENT: Final = 0.5
_PROC = Path("/proc")


class CLIProcess(Transport):
    """Speaks with the CLI over its standard input and output, line by line in JSON.

    The SDK's own transport hands the whole environment of this process on, and takes seconds to end its process.
    `env` is all that the CLI gets; `mark` is a text in a value of it that no other process has, by which what the
    CLI started is found and ended, too (on Linux; elsewhere by its process group).
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
        """Start the CLI. Raises `OSError`."""
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
        """Send a line. Raises `CLIConnectionError` where the CLI has ended."""
        if self._process is None or self._process.stdin is None:
            raise CLIConnectionError("it has ended")
        try:
            self._process.stdin.write(data.encode())
            await self._process.stdin.drain()
        except OSError:
            raise CLIConnectionError("it has ended") from None

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the CLI says, until it is closed. Raises `CLIConnectionError` where it ends by itself."""
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
                raise CLIConnectionError(f"it wrote a line of more than {_LONGEST_LINE} bytes")
        if self._process is not None:
            raise CLIConnectionError("it has ended")

    async def end_input(self) -> None:
        """Say that nothing more will come."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def is_ready(self) -> bool:
        """Whether the CLI runs."""
        return self._process is not None and self._process.returncode is None

    async def read_error_output(self) -> str:
        """The end of what the CLI wrote as an error, on one line; it is waited for a moment."""
        if self._watch is not None:
            await asyncio.wait([self._watch], timeout=_MOMENT)
        return " ".join(self._stderr.split())

    async def close(self) -> None:
        """End the CLI, and all that it started."""
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
        await asyncio.shield(process.wait())
        if process.stdin is not None:
            process.stdin.close()
        _end_all(_find_marked(self._mark))

    async def _read_stderr(self, process: Process) -> None:
        while process.stderr is not None and (chunk := await process.stderr.read(_CHUNK)):
            self._stderr = (self._stderr + chunk.decode("utf-8", "replace"))[-_KEPT_OF_STDERR:]


def _message(line: bytearray) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        raise CLIConnectionError(f"it wrote what is not JSON: {bytes(line[:200])!r}") from None
    return found


def _end_group(pid: int) -> None:
    if os.name == "posix":
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _end_all(pids: set[int]) -> None:
    for pid in pids - {os.getpid()}:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _find_descendants(pid: int) -> set[int]:
    """The processes that `pid` started, and those that they started; empty where the system does not say."""
    found: set[int] = set()
    left = [pid]
    while left:
        for children in _PROC.glob(f"{left.pop()}/task/*/children"):
            with suppress(OSError, ValueError):
                new = {int(child) for child in children.read_text("ascii").split()} - found
                found |= new
                left += new
    return found


def _find_marked(mark: bytes) -> set[int]:
    """The processes with `mark` in their environment: also those whose parents have ended."""
    found = set()
    for environ in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environ.read_bytes():
                found.add(int(environ.parent.name))
    return found
