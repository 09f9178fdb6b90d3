"""`call_limited`, which runs a function in one of a few child processes shared by all callers.

The processes are new programs, not forks of this one, so they inherit no threads, environment variables or open files.
The first call starts a process. Processes end after they have been idle for some time, or when this process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Condition
from typing import Any, Final

from pydantic import JsonValue

_MEMORY: Final = 1 << 30
_IDLE: Final = 20.0
"""The number of seconds without a job after which a process exits."""
_START: Final = 120.0
"""The number of seconds that a process may take to start and to import a module. This is slow on a busy machine."""
_MOST_BYTES: Final = 1 << 20
"""The maximum size of a result, in bytes."""
_REMEMBERED: Final = 20_000
"""The maximum number of results that are cached for repeated calls with equal arguments."""
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment variables for libraries that would exceed the limit by reserving memory for a thread on each core."""
_NEEDED_BY_PYTHON: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_WORKER: Final = Path(__file__).with_name("worker.py")


class LimitReached(Exception):
    """Raised if a call needs too much time or memory, or if its process crashes. The message states the reason."""


class ChildError(RuntimeError):
    """Raised if the function raises an exception, or if its module cannot be imported in a child process."""


class _Ended(Exception):
    """Raised if a child process ended instead of sending a result."""


def call_limited(function: str, *arguments: JsonValue, seconds: float) -> JsonValue:
    """Return the result of `function`, such as "karenina_math.comparing:compare", called in a child process with limits
    of time and of memory (1 GB). It must depend only on its arguments, and return a JSON value, because results are
    cached, and so are limits that were reached. Raises `LimitReached` if a limit is exceeded, and `ChildError` if the
    process does not start or the function fails.

    Equal calls run once. In the child process, Python code can neither use a network nor start programs nor write
    files, and environment variables are not inherited. On Linux, the process has a network of its own without devices,
    if the system allows it. A process that reaches a limit is killed and replaced.

    Any thread may call this; it blocks until the result is available. There is at most one child process for each core.
    """
    return _pool.call(function, arguments, seconds)


@dataclass(slots=True, eq=False)
class _Child:
    """A child process that remembers which modules it has imported."""

    process: Popen[bytes] = field(init=False)
    loaded: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Start the process. Raises `ChildError` if it does not start."""
        command = [sys.executable, "-I", "-B", str(_WORKER)]
        needed = {name: os.environ[name] for name in _NEEDED_BY_PYTHON if name in os.environ} | _ENVIRONMENT
        try:
            self.process = Popen(  # noqa: S603 - our own program
                command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=needed, cwd="/", start_new_session=True
            )
        except OSError as error:
            raise ChildError(f"cannot start the process that runs comparisons: {error}") from error
        setup = {"path": [str(Path(entry).absolute()) for entry in sys.path], "memory": _MEMORY, "idle": _IDLE}
        try:
            self.ask(setup, _START)
        except (_Ended, TimeoutError) as error:
            self.kill()
            raise ChildError(f"the process that runs comparisons did not start ({_WORKER})") from error

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a job to the child process and return its reply. Raises `TimeoutError` if there is none in time, and
        `_Ended` if the process ended or its reply is too long. The process is not killed.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise _Ended from None
        deadline = time.monotonic() + seconds
        answer = bytearray()
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN | select.POLLHUP)
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1_000):
                raise TimeoutError
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk or len(answer) > _MOST_BYTES:
                raise _Ended
            answer += chunk
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close the pipes to the process, which makes it exit."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@dataclass(slots=True, eq=False)
class _Pool:
    """The child processes of this process, and a cache of their results."""

    most: int
    _changed: Condition = field(default_factory=Condition)
    _idle: list[_Child] = field(default_factory=list)
    _busy: set[_Child] = field(default_factory=set)
    _starting: int = 0
    _results: OrderedDict[str, tuple[JsonValue, str | None]] = field(default_factory=OrderedDict)

    def call(self, function: str, arguments: Sequence[JsonValue], seconds: float) -> JsonValue:
        """Return the result of `function` with `arguments` from the cache or a child process. Raises `LimitReached` if
        it exceeded `seconds` or another limit, which is cached too, and `ChildError` if the process does not start or
        the call fails.
        """
        key = json.dumps([function, seconds, arguments], sort_keys=True)
        with self._changed:
            known = self._results.get(key)
            if known is not None:
                self._results.move_to_end(key)
        if known is None:
            known = self._run(function, arguments, seconds)
            with self._changed:
                self._results[key] = known
                if len(self._results) > _REMEMBERED:
                    self._results.popitem(last=False)
        result, limit = known
        if limit is not None:
            raise LimitReached(limit)
        return result

    def _run(self, function: str, arguments: Sequence[JsonValue], seconds: float) -> tuple[JsonValue, str | None]:
        """Call `function` in a child process. Return the result and None, or None and the limit that was exceeded, such
        as "takes more than 5 seconds". Raises `ChildError` if the process does not start or the call fails.
        """
        child = self._take(function)
        is_usable = False
        try:
            job = {"function": function, "arguments": list(arguments), "seconds": seconds}
            try:
                reply = child.ask(job, seconds)
            except TimeoutError:
                return None, f"takes more than {seconds:g} seconds"
            except _Ended:
                return None, "crashed its process, probably because it ran out of memory"
            if "limit" in reply:
                return None, "is nested too deeply" if reply["limit"] == "depth" else "needs more than 1 GB of memory"
            is_usable = True
            if "error" in reply:
                raise ChildError(f"{function} failed: {reply['error']}")
            return reply["result"], None
        finally:
            self._give_back(child, is_usable=is_usable)

    def _take(self, function: str) -> _Child:
        """Wait for a free child process, or start one, and return it ready to run `function`. Until `_give_back`, only
        this thread may use it. Raises `ChildError` if it does not start or cannot import the function's module.
        """
        while True:
            with self._changed:
                while not self._idle and len(self._busy) + self._starting >= self.most:
                    self._changed.wait()
                child = self._idle.pop() if self._idle else None
                if child is None:
                    self._starting += 1
                else:
                    self._busy.add(child)
            if child is None:
                child = _Child()
                try:
                    child.start()
                    with self._changed:
                        self._busy.add(child)
                finally:
                    with self._changed:
                        self._starting -= 1
                        self._changed.notify()
            try:
                self._load(child, function)
            except _Ended:  # it had nothing to do for some time
                self._give_back(child, is_usable=False)
                continue
            except BaseException:
                self._give_back(child, is_usable=False)
                raise
            return child

    def _load(self, child: _Child, function: str) -> None:
        """Import the function's module in a child process. This also detects a process that is no longer running.
        Raises `_Ended` if the process has ended, and `ChildError` if the module cannot be imported.
        """
        try:
            reply = child.ask({"function": function, "seconds": _START}, _START)
        except TimeoutError:
            raise ChildError(f"{function} was not imported within {_START:g} seconds") from None
        except _Ended:
            if function not in child.loaded and child.process.wait() != 0:
                raise ChildError(f"the process that imports {function} crashed") from None
            raise
        if "result" not in reply:
            raise ChildError(f"{function} cannot be imported: {reply.get('error', reply.get('limit'))}")
        child.loaded.add(function)

    def _give_back(self, child: _Child, *, is_usable: bool) -> None:
        """Make a child process available again, or kill it if it is not usable."""
        if not is_usable:
            child.kill()
        with self._changed:
            self._busy.discard(child)
            if is_usable:
                self._idle.append(child)
            self._changed.notify()

    def close(self) -> None:
        """Kill all child processes, including busy ones, and wait until they have ended."""
        with self._changed:
            children = [*self._idle, *self._busy]
            self._idle.clear()
        for child in children:
            child.process.kill()
            child.process.wait()

    def forget(self) -> None:
        """Leave the child processes to the parent process. Called in a fork of it."""
        for child in (*self._idle, *self._busy):
            child.forget()
            child.process.returncode = 0  # it is not a child of this process


def _start_anew() -> None:
    """Give this fork a pool of its own. It is limited to one child process, because there may be several forks."""
    global _pool
    _pool.forget()
    _pool = _Pool(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pool = _Pool(_cores())
atexit.register(lambda: _pool.close())
os.register_at_fork(after_in_child=_start_anew)
