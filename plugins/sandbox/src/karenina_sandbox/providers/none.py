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
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karenina_sandbox.capture.folders import compare_folders
from karenina_sandbox.patch import Patch
from karenina_sandbox.sandbox import CannotStart, CommandResult, Policy, SandboxError, SandboxProvider, Stop
from karenina_toolkit.files.safe_paths import open_file

_CHUNK: Final = 65_536


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
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *argv[1:],
                cwd=self.work / cwd,
                env=environment,
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotStart(f"the command {argv[0]!r} cannot be started: {error.strerror}") from None
        stopped: Stop | None = None
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [asyncio.ensure_future(_read(one, limits.output)) for one in (process.stdout, process.stderr)]
        try:
            async with asyncio.timeout(within):
                if process.stdin is not None:
                    with suppress(ConnectionError, RuntimeError):  # uvloop raises the latter if the program has ended
                        process.stdin.write(stdin)
                        await process.stdin.drain()
                        process.stdin.close()
                await process.wait()
        except TimeoutError:
            stopped = "time"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        (output, output_cut), (error_output, error_cut) = await asyncio.gather(*readers)
        code = process.returncode
        exit_code = None if stopped or code is None else code if code >= 0 else 128 - code
        spent = time.monotonic() - started
        return CommandResult(exit_code, output, error_output, output_cut, error_cut, spent, stopped)

    async def overlay(self, folder: Path) -> None:
        await asyncio.to_thread(shutil.copytree, folder, self.work, symlinks=True, dirs_exist_ok=True)

    async def read(self, path: str, limit: int) -> bytes | None:
        return await asyncio.to_thread(self._read, path, limit)

    def _read(self, path: str, limit: int) -> bytes | None:
        """Return the content of a plain file, or None. Raises `SandboxError` if it is larger than `limit` bytes."""
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


async def _read(stream: asyncio.StreamReader, most: int) -> tuple[bytes, bool]:
    """Read a stream to its end, and return the first `most` bytes and whether there were more."""
    kept, cut = b"", False
    while chunk := await stream.read(_CHUNK):
        cut = cut or len(kept) + len(chunk) > most
        kept += chunk[: most - len(kept)]
    return kept, cut


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
        """Copy the folder unless commands work in it, and yield the copy. It is removed at the end."""
        parent = Path(tempfile.mkdtemp(prefix="karenina-sandbox-"))
        try:
            work, home = workspace if in_place else parent / "workspace", parent / "home"
            home.mkdir()
            if not in_place:
                await asyncio.to_thread(shutil.copytree, workspace, work, symlinks=True)
            yield _Folder(workspace, work, home, policy)
        finally:
            await asyncio.to_thread(shutil.rmtree, parent, ignore_errors=True)

    def wrap(self, command: Sequence[str], workspace: Path, policy: Policy) -> list[str]:
        """Return the command unchanged."""
        return list(command)


SANDBOX: Final[SandboxProvider] = NoSandbox()
