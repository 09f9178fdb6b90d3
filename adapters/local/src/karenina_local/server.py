"""A llama.cpp child process that is started on first use, shared between ports, and always stopped."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Final

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_local.prompt_cache import PromptCache
from karenina_local.slot_queue import SlotQueue

if TYPE_CHECKING:
    from pathlib import Path

SHOWN_LOG_BYTES: Final = 2000
MOST_STARTS: Final = 4


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server's settings: the model's file, and how to serve it.

    `context` is the number of tokens per slot, `start_timeout` the time limit for loading in seconds, and
    `prompt_cache` the size of the prompt cache in megabytes. If `threads` is None, llama.cpp chooses the number.
    With `mmproj`, the model reads images.
    """

    model: Path
    slots: int = 1
    context: int = 4096
    threads: int | None = None
    start_timeout: float = 300.0
    prompt_cache: int = 500
    mmproj: Path | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a server on the loopback interface, and its API key."""

    url: str
    key: str


class LlamaServer:
    """A llama.cpp server in a child process.

    Methods are thread-safe. `address` blocks while the model is loading. If the server dies, it is started again on the
    next use, up to `MOST_STARTS` times in total. If it fails to start, it is not started again.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.queue = SlotQueue(settings.slots)
        self.prompts = PromptCache(settings.model, settings.context, settings.prompt_cache)
        self._starting = threading.Lock()
        self._state = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self._address: Address | None = None
        self._failure: str | None = None
        self._starts = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id, or None if the child is not running."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def address_if_running(self) -> Address | None:
        """Return the address, or None if the server is not running. Does not block."""
        return self._address if self.pid is not None else None

    def address(self) -> Address:
        """Return the server's address, first starting the server if it does not run, or again if it ended, at most
        `MOST_STARTS` times. Blocks until the model is loaded. Raises a permanent `PortError` if the server cannot be
        started.
        """
        with self._starting:
            running = self.address_if_running()
            if running is not None:
                return running
            if self._failure is None:
                self._start()
            if self._failure is not None or self._address is None:
                raise PortError(self._failure or "llama.cpp did not start", category=ErrorCategory.PERMANENT)
            return self._address

    def close(self) -> None:
        """Stop the child process, even while it is loading, and wait for it. The server cannot be used afterwards."""
        with self._state:
            self._closed = True
            process = self._process
        if process is not None:
            _stop(process)
        with self._starting:
            self._address = None
            if process is not None:
                _close_output(process)
            if self._log is not None:
                self._log.close()
                self._log = None
            self.prompts.close()

    def _start(self) -> None:
        """Start the child and wait until the model is loaded. Sets `_failure` if this fails, or if the child was
        started `MOST_STARTS` times.
        """
        self._address = None
        if self._starts >= MOST_STARTS:
            self._failure = (
                f"llama.cpp ended {self._starts} times while serving {self.settings.model} and was not started again. "
                f"Its last output:\n{self._log_tail()}"
            )
            return
        self._starts += 1
        try:
            folder = self.prompts.open()
        except OSError as error:
            self._failure = f"llama.cpp was not started for {self.settings.model}: {error}"
            return
        key = secrets.token_urlsafe(24)
        with self._state:
            if self._closed:
                self._failure = "the local model was closed before this call"
                return
            if self._process is not None:
                _stop(self._process)
                _close_output(self._process)
            self._process = process = self._spawn()
            _send_settings(process, self._launch_settings(key, folder))
        timer = threading.Timer(self.settings.start_timeout, process.kill)
        timer.start()
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
        finally:
            late = timer.finished.is_set()
            timer.cancel()
        if line:
            self._address = Address(str(json.loads(line)["address"]), key)
            return
        _stop(process)
        self._failure = self._describe_failure(late)

    def _launch_settings(self, key: str, slot_folder: Path) -> dict[str, object]:
        """Return the settings that are sent to the child."""
        mmproj = str(self.settings.mmproj) if self.settings.mmproj is not None else None
        settings = {**asdict(self.settings), "model": str(self.settings.model), "mmproj": mmproj, "key": key}
        return {**settings, "alias": self.settings.model.stem, "slot_folder": f"{slot_folder}{os.sep}"}

    def _spawn(self) -> subprocess.Popen[str]:
        """Start the child process, with its error output in a new temporary file, and return it."""
        if self._log is not None:
            self._log.close()
        self._log = tempfile.TemporaryFile(prefix="karenina-llama-")  # noqa: SIM115 - it lives as long as the child
        # with the default policy, threads busy-wait, and any other busy process makes generation ten times slower
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONUTF8": "1"}
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "karenina_local.server_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C goes to this process only; the child ends when its input does
        )

    def _log_tail(self) -> str:
        """Return the last 2000 bytes of the child's error output as text. The child must have ended."""
        if self._log is None:
            return "(nothing)"
        size = self._log.seek(0, os.SEEK_END)  # the child, which shares this file position, has ended
        self._log.seek(max(0, size - SHOWN_LOG_BYTES))
        return self._log.read().decode("utf-8", "replace").strip() or "(nothing)"

    def _describe_failure(self, late: bool) -> str:
        """Return the reason why the child did not start. `late` is true if it took too long."""
        model = self.settings.model
        if self._closed:
            return "the local model was closed while it was loading"
        if late:
            return (
                f"llama.cpp did not load {model} within {self.settings.start_timeout:g} s; raise `start_timeout` in "
                f"the model's `extra`. Its output:\n{self._log_tail()}"
            )
        code = self._process.returncode if self._process is not None else None
        return (
            f"llama.cpp could not load {model} (exit code {code}): the file is damaged or not supported, or there is "
            f"too little memory (lower `context` or `slots` in the model's `extra`). Its output:\n{self._log_tail()}"
        )


def _send_settings(process: subprocess.Popen[str], settings: dict[str, object]) -> None:
    """Send the settings to the child. If the child has ended, reading its reply will show that."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(settings) + "\n")
            process.stdin.flush()


def _stop(process: subprocess.Popen[str]) -> None:
    """Stop a child process by closing its input, which makes it exit, and kill it if it is still running after 3
    seconds.
    """
    if process.stdin is not None:
        with suppress(OSError, ValueError):
            process.stdin.close()
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close_output(process: subprocess.Popen[str]) -> None:
    """Close the child's output. The caller must hold the start lock, so that no other thread is reading it."""
    if process.stdout is not None:
        process.stdout.close()


class ServerPool:
    """This process's servers that are in use, one for each `ServerSettings`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[ServerSettings, tuple[LlamaServer, int]] = {}

    def acquire(self, settings: ServerSettings) -> LlamaServer:
        """Return the server shared by all users of `settings`, without starting it. Call `release` when you no longer
        need it.
        """
        with self._lock:
            server, holders = self._held.get(settings) or (LlamaServer(settings), 0)
            self._held[settings] = (server, holders + 1)
            return server

    def held(self) -> list[tuple[LlamaServer, int]]:
        """Return the servers in use with their numbers of users."""
        with self._lock:
            return list(self._held.values())

    def release(self, server: LlamaServer) -> None:
        """Give up one use of a server from `acquire`. The last release closes the server and waits until its process
        has ended.
        """
        with self._lock:
            held, holders = self._held.get(server.settings, (server, 0))
            if held is server and holders > 1:
                self._held[server.settings] = (server, holders - 1)
                return
            if held is server:
                self._held.pop(server.settings, None)
        server.close()


POOL: Final = ServerPool()
