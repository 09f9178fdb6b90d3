"""Running a program with bounded output, and ending it with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from karenina_sandbox.sandbox import CannotStart, SandboxError

_CHUNK: Final = 65_536
_FLOOD: Final = 1000
"""How many times the kept output a command may print before it is stopped."""
_LONGEST_WORD: Final = 100_000
"""The maximum number of bytes of a word of a command. Linux allows 131,071."""
_MOST_WORDS: Final = 1000


def check_command(argv: Sequence[str]) -> None:
    """Raise `CannotStart` if a command is empty, contains a null character, is too long, or cannot be encoded."""
    if not argv or not argv[0] or any("\0" in word for word in argv):
        raise CannotStart("the command is empty, or contains a null character")
    try:
        longest = max(len(os.fsencode(word)) for word in argv)
    except UnicodeEncodeError as error:
        raise CannotStart(f"the command cannot be passed to a program: {error}") from None
    if longest > _LONGEST_WORD or len(argv) > _MOST_WORDS:
        raise CannotStart("the command is too long; write its contents to a file")


def explain_program(name: str, folders: Sequence[Path]) -> str | None:
    """Return why a program of the workspace, whose layers are `folders`, the most recent first, could not be started,
    with a cure. Returns None if `name` is no relative path, or one that leads through links or out of the workspace.
    """
    path = Path(name)
    if "/" not in name or path.is_absolute() or ".." in path.parts:
        return None
    for folder in folders:
        mode = 0
        try:
            for part in (*reversed(path.parents), path):
                mode = os.lstat(folder / part).st_mode
                if stat.S_ISLNK(mode):
                    return None
        except OSError:
            continue
        if stat.S_ISCHR(mode):  # an overlay marks a deleted file in this way
            break
        if not stat.S_ISREG(mode):
            return f"{name!r} is not a file"
        if not mode & 0o111:
            return f"the file {name!r} is not executable; run chmod +x on it, or start it as sh {name}"
        return f"the file {name!r} cannot be started; correct the interpreter in its first line"
    return f"there is no file {name!r} in the workspace"


class BoundedReader:
    """The beginning of what a program prints. The rest is read, too, so that the program is not held up.

    `flood` is set if the program prints more than a thousand times as much as is kept.
    """

    def __init__(self, stream: asyncio.StreamReader, most: int, flood: asyncio.Event) -> None:
        self._kept = bytearray()
        self._total = 0
        self._most = most
        self._flood = flood
        self._reading = asyncio.ensure_future(self._read(stream))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        """Read to the end, keep the first bytes, and set `flood` if there are far too many."""
        while chunk := await stream.read(_CHUNK):
            self._kept += chunk[: self._most - len(self._kept)]
            self._total += len(chunk)
            if self._total > _FLOOD * self._most:
                self._flood.set()

    async def end(self, within: float | None = None) -> tuple[bytes, bool]:
        """Wait for the end, at most `within` seconds. Return the first bytes, and whether there were more."""
        await asyncio.wait({self._reading}, timeout=within)
        self._reading.cancel()
        return bytes(self._kept), self._total > self._most


async def write_all(stream: asyncio.StreamWriter, content: bytes) -> None:
    """Write to a program and close the stream. It is no error if the program ends before it has read everything."""
    with suppress(ConnectionError):
        stream.write(content)
        await stream.drain()
    with suppress(ConnectionError):
        stream.close()
        await stream.wait_closed()


def open_reader(descriptor: int) -> tuple[asyncio.StreamReader, Callable[[], None]]:
    """Return a stream reader for the reading end of a pipe, and a function that must be called to close the pipe.

    `connect_read_pipe` is not used, because uvloop (0.23) closes its descriptors twice: in the meantime, another thread
    may have opened a file with the same number.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    os.set_blocking(descriptor, False)

    def receive() -> None:
        """Pass on what has arrived in the pipe, or its end."""
        with suppress(BlockingIOError):
            chunk = os.read(descriptor, _CHUNK)
            if chunk:
                reader.feed_data(chunk)
            else:
                loop.remove_reader(descriptor)
                reader.feed_eof()

    def close() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)

    loop.add_reader(descriptor, receive)
    return reader, close


class FirstProcess:
    """The first process of a namespace. All others of the namespace end with it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError as error:
            raise SandboxError(f"the sandbox ended before its command started: {error}") from error

    def kill(self) -> None:
        """End the process, if it still runs."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    async def wait(self) -> None:
        """Wait until all processes of the namespace have ended."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._descriptor)
        self._reap()

    def _reap(self) -> None:
        """Collect the process if it has become our child, because we are the first process of a container."""
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._descriptor, os.WEXITED | os.WNOHANG)

    def close(self) -> None:
        """Close the descriptor of the process."""
        os.close(self._descriptor)
