"""Processes that are forked from this one and have all that it has, to do the same work on many jobs, on all cores."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Self, TypeVar

J = TypeVar("J")
R = TypeVar("R")

_AHEAD: Final = 2
"""Jobs that a process has at a time, so that it need not wait for the next one."""
_EARLY: Final = 4
"""Results for each process that may be there before one that is wanted earlier."""
_ROOM: Final = 1 << 20
"""Bytes that fit into a pipe: a process goes on while its last result has not been taken."""
_PATIENCE: Final = 2.0
"""Seconds that a process has to end what it is doing."""
_LOOKS: Final = 0.002
_DEATH_OF_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of Linux."""

Logged = list[tuple[int, str]]
"""Levels and texts."""

logger = logging.getLogger("karenina")


def can_fork() -> bool:
    """Whether this process may be forked without harm: on Linux, while it has one thread.

    Threads of libraries count too: what they hold would stay held for ever in the new process.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return False
    if threads > 1:  # an HTTP client of an earlier run leaves one, for example
        logger.debug("one core is used: this process has %d threads, which forked processes would not have", threads)
    return threads == 1


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class WorkerState:
    """What a process knows of its own. `logged` is what was logged during the job; it may be shortened.

    `ending` says that nobody waits for the job any more, so that it may end early, wherever that leaves nothing behind.
    """

    logged: Logged = field(default_factory=list)
    ending: bool = False


Work = Callable[[WorkerState], Callable[[J], R]]
"""Makes what does jobs, in a process of its own."""


@dataclass(slots=True, eq=False)
class _Process:
    """A process, its pipes, and the numbers of the jobs that it has."""

    pid: int
    jobs: Connection[Any, Any]
    results: Connection[Any, Any]
    numbers: deque[int] = field(default_factory=deque)


class ProcessPool(Generic[J, R]):
    """So many processes, each a copy of this one, that do jobs until the `with` block ends; then they are gone.

    `work` is called once in each of them, for what does the jobs there. Jobs are small, because they wait in a pipe;
    what they are about is inherited. A job that raises, or of which a process dies, has no result: whoever gave it does
    it here, and finds out why. What is logged during the others is logged here.

    To be made where `can_fork` says so. The processes end with this one, however it ends.
    """

    def __init__(self, work: Work[J, R], count: int) -> None:
        self._hands: list[_Process] = []
        self._ended: list[_Process] = []
        self._given: dict[int, J] = {}
        self._brought: dict[int, tuple[R | None, Logged]] = {}
        self._next = self._last = 0
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for _ in range(count):
                self._hands.append(self._forked(work))
        except OSError as error:  # no room for another one: those that there are have to do
            logger.debug("a process could not be forked: %s", error)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes. They may end what they are doing, where that does not take long."""
        hands, self._hands = self._hands, []
        ended, self._ended = self._ended, []
        _end([*hands, *ended])

    def results(self, jobs: Iterator[J]) -> Iterator[tuple[J, R | None]]:
        """The jobs in their order, each with its result, or None where it has none."""
        while self._give(jobs):
            if self._hands:
                for ready in wait([hand.results for hand in self._hands]):
                    self._hear(ready)
            yield from self._in_order()

    async def aresults(self, jobs: Iterator[J]) -> AsyncGenerator[tuple[J, R | None]]:
        """`results`, in an event loop that has other things to do meanwhile."""
        loop, said = asyncio.get_running_loop(), asyncio.Event()
        heard = {hand.results for hand in self._hands}
        for one in heard:
            loop.add_reader(one.fileno(), said.set)
            os.set_blocking(one.fileno(), True)  # uvloop has made it the other way, and whole results are read
        try:
            while self._give(jobs):
                if self._hands:
                    await said.wait()
                    said.clear()
                    for ready in wait([hand.results for hand in self._hands], timeout=0):
                        self._hear(ready)
                for one in heard - {hand.results for hand in self._hands}:
                    loop.remove_reader(one.fileno())
                    heard.remove(one)
                for found in self._in_order():
                    yield found
        finally:
            for one in heard:
                if not one.closed:
                    loop.remove_reader(one.fileno())

    def _give(self, jobs: Iterator[J]) -> bool:
        """Hand out jobs to those who have too few; whether there is any that has not been returned."""
        most = self._next + (_AHEAD + _EARLY) * max(1, len(self._hands))
        for hand in sorted(self._hands, key=lambda one: len(one.numbers)):
            while len(hand.numbers) < _AHEAD and self._last < most:
                number = self._take(jobs)
                if number is None:
                    break
                hand.numbers.append(number)
                with contextlib.suppress(OSError):  # that it has died is heard from its other pipe
                    hand.jobs.send(self._given[number])
        if not self._hands and not self._given:
            number = self._take(jobs)
            if number is not None:
                self._brought[number] = None, []
        return bool(self._given)

    def _take(self, jobs: Iterator[J]) -> int | None:
        for job in jobs:
            self._given[self._last] = job
            self._last += 1
            return self._last - 1
        return None

    def _hear(self, ready: Any) -> None:
        hand = next(one for one in self._hands if one.results is ready)
        try:
            self._brought[hand.numbers[0]] = hand.results.recv()
            hand.numbers.popleft()
        except (EOFError, OSError):
            logger.warning("a process that helped has died; what it was working on is done here")
            self._hands.remove(hand)
            self._ended.append(hand)
            self._brought.update((number, (None, [])) for number in hand.numbers)

    def _in_order(self) -> Iterator[tuple[J, R | None]]:
        while self._next in self._brought:
            number = self._next
            self._next += 1
            found, logged = self._brought.pop(number)
            for level, text in logged:
                logger.log(level, "%s", text)
            yield self._given.pop(number), found

    def _forked(self, work: Work[J, R]) -> _Process:
        given, jobs = Pipe(duplex=False)
        results, brought = Pipe(duplex=False)
        _widen(brought)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for other in (*self._hands, _Process(0, jobs, results)):  # else they would not end with their parent
                other.jobs.close()
                other.results.close()
            _live(parent, work, given, brought)
        given.close()
        brought.close()
        return _Process(pid, jobs, results)


def _end(hands: Sequence[_Process]) -> None:
    for hand in hands:
        _send(hand.pid, signal.SIGTERM)
        hand.jobs.close()
        hand.results.close()
    late = time.monotonic() + _PATIENCE
    left = [hand.pid for hand in hands]
    while left := [pid for pid in left if not _has_ended(pid)]:
        if time.monotonic() >= late:
            for pid in left:
                _send(pid, signal.SIGKILL)
        time.sleep(_LOOKS)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _widen(pipe: Connection[Any, Any]) -> None:
    import fcntl

    with contextlib.suppress(OSError):  # the system may allow less
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _ROOM)


def _live(parent: int, work: Work[Any, Any], jobs: Connection[Any, Any], results: Connection[Any, Any]) -> NoReturn:
    """The life of a process: it never returns into what its parent was doing."""
    try:
        apart = WorkerState()
        _set_apart(parent, apart)
        logger.handlers, logger.propagate = [_Gathering(apart.logged)], False
        do: Callable[[Any], Any] | None = None
        while True:
            job = jobs.recv()
            apart.logged.clear()
            try:
                do = do or work(apart)
                found = do(job)
            except Exception:
                results.send((None, []))
            else:
                results.send((found, apart.logged))
    except BaseException:  # noqa: S110 - there is nobody to tell: its parent has ended, or hears that it has
        pass
    finally:
        os._exit(0)


class _Gathering(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, logged: Logged) -> None:
        super().__init__()
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        self._logged.append((record.levelno, self.format(record)))


def _set_apart(parent: int, apart: WorkerState) -> None:
    """Take from a new process what belongs to its parent: signals, and the garbage that the parent would collect."""
    import ctypes

    def end(_number: int, _frame: object) -> None:
        apart.ending = True

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and says when to end
    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    gc.freeze()
    random.seed()
