"""The provider `none`: no isolation at all, a subprocess in a copy of the folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karenina_sandbox.capture.folders import compare_folders
from karenina_sandbox.patch import Patch
from karenina_sandbox.providers.processes import BoundedReader, explain_program, open_reader
from karenina_sandbox.sandbox import CannotStart, CommandResult, Policy, SandboxError, SandboxProvider, Stop
from karenina_toolkit.files.safe_paths import open_file

_GRACE: Final = 1.0
"""The number of seconds for which output is read after a command has ended, if another process holds its pipes."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """A copy of a workspace in which commands run as the user, with the user's network and files."""

    source: Path
    work: Path
    home: Path
    policy: Policy

    async def run(
        self, argv: Sequence[str], *, cwd: str = ".", stdin: bytes = b"", seconds: float | None = None
    ) -> CommandResult:
        """Run a command as the user for at most `seconds`, or the policy's limit if that is lower, end all that it
        started, and return what it did. Raises `CannotStart` if it cannot be started. See `Sandbox.run`.
        """
        limits = self.policy.limits
        within = min(limits.seconds if seconds is None else seconds, limits.seconds)
        python = self.policy.python or Path(sys.executable)
        environment = {
            "PATH": f"{python.parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.home),
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            **self.policy.environment,
        }
        program = str(python) if argv[0] == "python" else argv[0]
        started = time.monotonic()
        flood = asyncio.Event()
        with ExitStack() as pipes, ExitStack() as inner_ends:
            readers: list[BoundedReader] = []
            ends: list[int] = []
            for _ in range(2):  # with pipes that asyncio makes, it would wait for a daemon that holds them
                outer_end, inner_end = os.pipe()
                inner_ends.callback(os.close, inner_end)
                stream, close = open_reader(outer_end)
                pipes.callback(close)
                readers.append(BoundedReader(stream, limits.output, flood))
                ends.append(inner_end)
            try:
                process = await asyncio.create_subprocess_exec(
                    program,
                    *argv[1:],
                    cwd=self.work / cwd,
                    env=environment,
                    stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                    stdout=ends[0],
                    stderr=ends[1],
                    start_new_session=True,
                )
            except OSError as error:
                why = explain_program(argv[0], [self.work / cwd])
                raise CannotStart(why or f"the command {argv[0]!r} cannot be started: {error.strerror}") from None
            inner_ends.close()
            stopped = await self._attend(process, stdin, flood, within)
            (output, output_cut), (error_output, error_cut) = await asyncio.gather(
                *(one.end(_GRACE) for one in readers)
            )
        code = process.returncode
        exit_code = None if stopped or code is None else code if code >= 0 else 128 - code
        spent = time.monotonic() - started
        return CommandResult(exit_code, output, error_output, output_cut, error_cut, spent, stopped)

    async def _attend(
        self, process: asyncio.subprocess.Process, stdin: bytes, flood: asyncio.Event, seconds: float
    ) -> Stop | None:
        """Send `stdin` to a program, wait until it ends or reaches a limit (`seconds`, or the output at which `flood`
        is set), then end all that it started. Return the limit, or None.
        """
        flooding, running = asyncio.ensure_future(flood.wait()), asyncio.ensure_future(_feed(process, stdin))
        try:
            done, _ = await asyncio.wait({flooding, running}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (flooding, running):
                task.cancel()
            await asyncio.gather(flooding, running, return_exceptions=True)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(_end_others, self.home)
            await process.wait()
        return None if running in done else "output" if flooding in done else "time"

    async def overlay(self, folder: Path) -> None:
        await asyncio.to_thread(shutil.copytree, folder, self.work, symlinks=True, dirs_exist_ok=True)

    async def read(self, path: str, limit: int) -> bytes | None:
        return await asyncio.to_thread(self._read, path, limit)

    def _read(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file, or None if it cannot be read or is behind a link out of the workspace. Raises
        `SandboxError` if it is larger than `limit` bytes.
        """
        try:
            with open_file(self.work.resolve(), self.work.resolve() / path) as file:
                content = file.read(limit + 1)
        except OSError:
            return None
        if len(content) > limit:
            raise SandboxError(f"the file {path!r} is larger than {limit} bytes")
        return content

    async def patch(self) -> Patch:
        return await asyncio.to_thread(compare_folders, self.source, self.work)


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    """Write `stdin` to a program, and wait until it has ended. A program that does not read it is no error."""
    if process.stdin is not None:
        with suppress(ConnectionError, RuntimeError):  # uvloop raises the latter if the program has ended
            process.stdin.write(stdin)
            await process.stdin.drain()
            process.stdin.close()
    await process.wait()


def _end_others(home: Path) -> None:
    """Kill the processes that left the program's session, which have `home` as their HOME in /proc, until none is
    found.
    """
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    while True:
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in b"\0" + place.read_bytes() + b"\0":
                    os.kill(int(place.parent.name), signal.SIGKILL)
                    found.append(place)
        if not found:
            return
        time.sleep(0.01)


class NoSandbox:
    """The provider without isolation, for benchmarks and models that the user trusts with the machine."""

    name = "none"
    needs_image = False

    def unavailable(self) -> str | None:
        """Return None: nothing is needed."""
        return None

    def describe(self) -> str:
        """Return that nothing is isolated."""
        return "commands run as you, with your files and network; only their time and output are limited"

    def identity(self, policy: Policy) -> str:
        """Return the provider's name, because the machine is not described."""
        return "none"

    @asynccontextmanager
    async def open(self, workspace: Path, policy: Policy, *, in_place: bool = False) -> AsyncIterator[_Folder]:
        """Yield a sandbox in a copy of the folder `workspace`, which is removed at the end, or `in_place` in the folder
        itself.
        """
        parent = Path(tempfile.mkdtemp(prefix="karenina-sandbox-"))
        try:
            work, home = workspace if in_place else parent / "workspace", parent / "home"
            home.mkdir()
            if not in_place:
                await asyncio.to_thread(shutil.copytree, workspace, work, symlinks=True)
            yield _Folder(workspace, work, home, policy)
        finally:
            await asyncio.to_thread(shutil.rmtree, parent, ignore_errors=True)


SANDBOX: Final[SandboxProvider] = NoSandbox()
