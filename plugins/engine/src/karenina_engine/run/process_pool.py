"""A pool of forked processes that share the memory of this process."""

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
from typing import Any, Final, Generic, NoReturn, Self, TypeVar

J = TypeVar("J")
R = TypeVar("R")

_QUEUED: Final = 2
"""The number of jobs that a process is given at a time, so that it never has to wait for the next one."""
_OUT_OF_ORDER: Final = 4
"""The maximum number of results per process that may be ready before the result of an earlier job."""
_PIPE_BYTES: Final = 1 << 20
"""The capacity of a pipe in bytes. It lets processes continue before their last result has been read."""
_GRACE: Final = 2.0
"""The number of seconds that a process has to finish its job when the pool is closed."""
_POLL: Final = 0.002
_PR_SET_PDEATHSIG: Final = 1
"""The Linux `prctl` option for the signal to send when the parent process dies."""

Logged = list[tuple[int, str]]
"""Log records as pairs of a level and a message."""

logger = logging.getLogger("karenina")


def can_fork() -> bool:
    """Return whether it is safe to fork this process. This requires Linux and a single thread. Threads started by
    libraries count too. If they held locks, these would never be released in the new process.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return False
    if threads > 1:  # for example, the HTTP client of an earlier run leaves a thread
        logger.debug("only one core is used because this process has %d threads and cannot be forked safely", threads)
    return threads == 1


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class WorkerState:
    """The state of a worker process.

    `logged` contains the log records of the current job. The job may remove some of them. If `ending` is True, nobody
    needs the job's result anymore, so the job may end early if it leaves nothing unfinished.
    """

    logged: Logged = field(default_factory=list)
    ending: bool = False


Work = Callable[[WorkerState], Callable[[J], R]]
"""A function that is called once in each process and returns the function that runs jobs there."""


@dataclass(slots=True, eq=False)
class _Process:
    """A worker process, with its pipes and the numbers of its jobs."""

    pid: int
    jobs: Connection[Any, Any]
    results: Connection[Any, Any]
    numbers: deque[int] = field(default_factory=deque)


class ProcessPool(Generic[J, R]):
    """A pool of `count` forked processes that run jobs until the `with` block ends.

    `work` is called once in each process and returns the function that runs the jobs there. Jobs are sent through a
    pipe, so they must be small. Everything else is inherited. If a job raises an exception or its process dies, the job
    has no result. To see the error, run the job again in this process. Log records of successful jobs are logged in
    this process.

    Only create a pool if `can_fork` returns True. The pool may have fewer processes than requested, or none at all. All
    of them end when this process ends, for whatever reason.
    """

    def __init__(self, work: Work[J, R], count: int) -> None:
        self._processes: list[_Process] = []
        self._dead: list[_Process] = []
        self._jobs_by_number: dict[int, J] = {}
        self._finished: dict[int, tuple[R | None, Logged]] = {}
        self._next = self._last = 0
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for _ in range(count):
                self._processes.append(self._fork_process(work))
        except OSError as error:  # too many processes: the pool continues with fewer
            logger.debug("a process could not be forked: %s", error)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes. They have `_GRACE` seconds to finish their current jobs."""
        living, self._processes = self._processes, []
        dead, self._dead = self._dead, []
        _end_processes([*living, *dead])

    def results(self, jobs: Iterator[J]) -> Iterator[tuple[J, R | None]]:
        """Yield each job with its result, in order. The result is None if the job failed or its process died."""
        while self._distribute(jobs):
            if self._processes:
                for ready in wait([process.results for process in self._processes]):
                    self._receive(ready)
            yield from self._in_order()

    async def aresults(self, jobs: Iterator[J]) -> AsyncGenerator[tuple[J, R | None]]:
        """Yield the same values as `results`, but without blocking the event loop."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        watched = {process.results for process in self._processes}
        for connection in watched:
            loop.add_reader(connection.fileno(), readable.set)
            os.set_blocking(connection.fileno(), True)  # uvloop made it non-blocking, but whole results are read
        try:
            while self._distribute(jobs):
                if self._processes:
                    await readable.wait()
                    readable.clear()
                    for ready in wait([process.results for process in self._processes], timeout=0):
                        self._receive(ready)
                for connection in watched - {process.results for process in self._processes}:
                    loop.remove_reader(connection.fileno())
                    watched.remove(connection)
                for pair in self._in_order():
                    yield pair
        finally:
            for connection in watched:
                if not connection.closed:
                    loop.remove_reader(connection.fileno())

    def _distribute(self, jobs: Iterator[J]) -> bool:
        """Send jobs to processes that have too few, and return whether there is anything left to yield. If all
        processes have died, each call marks one remaining job as having no result.
        """
        most = self._next + (_QUEUED + _OUT_OF_ORDER) * max(1, len(self._processes))
        for process in sorted(self._processes, key=lambda worker: len(worker.numbers)):
            while len(process.numbers) < _QUEUED and self._last < most:
                number = self._next_job(jobs)
                if number is None:
                    break
                process.numbers.append(number)
                with contextlib.suppress(OSError):  # the death of a process is noticed at its other pipe
                    process.jobs.send(self._jobs_by_number[number])
        if not self._processes and not self._jobs_by_number:
            number = self._next_job(jobs)
            if number is not None:
                self._finished[number] = None, []
        return bool(self._jobs_by_number)

    def _next_job(self, jobs: Iterator[J]) -> int | None:
        """Take the next job and return its number. Returns None if there are no more jobs."""
        for job in jobs:
            self._jobs_by_number[self._last] = job
            self._last += 1
            return self._last - 1
        return None

    def _receive(self, ready: Any) -> None:
        """Read a result from a process. If the process has died, log a warning and give up its jobs."""
        process = next(worker for worker in self._processes if worker.results is ready)
        try:
            self._finished[process.numbers[0]] = process.results.recv()
            process.numbers.popleft()
        except (EOFError, OSError):
            logger.warning("a worker process died; its work is done in the main process")
            self._processes.remove(process)
            self._dead.append(process)
            self._finished.update((number, (None, [])) for number in process.numbers)

    def _in_order(self) -> Iterator[tuple[J, R | None]]:
        """Yield the finished jobs that come before the first unfinished one, each with its result (None if it failed),
        and log their records.
        """
        while self._next in self._finished:
            number = self._next
            self._next += 1
            result, logged = self._finished.pop(number)
            for level, text in logged:
                logger.log(level, text)  # as the message itself, by whose beginning commands select what they print
            yield self._jobs_by_number.pop(number), result

    def _fork_process(self, work: Work[J, R]) -> _Process:
        """Fork a process that runs jobs, and return it in the parent. The child never returns. Raises `OSError` if
        forking fails.
        """
        jobs_in, jobs = Pipe(duplex=False)
        results, results_out = Pipe(duplex=False)
        _enlarge(results_out)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            # Copies of the other processes' pipes would otherwise stay open when the parent ends.
            for other in (*self._processes, _Process(0, jobs, results)):
                other.jobs.close()
                other.results.close()
            _run_process(parent, work, jobs_in, results_out)
        jobs_in.close()
        results_out.close()
        return _Process(pid, jobs, results)


def _end_processes(processes: Sequence[_Process]) -> None:
    """Ask the processes to end. Those that are still running after `_GRACE` seconds are killed."""
    for process in processes:
        _kill(process.pid, signal.SIGTERM)
        process.jobs.close()
        process.results.close()
    deadline = time.monotonic() + _GRACE
    left = [process.pid for process in processes]
    while left := [pid for pid in left if not _has_ended(pid)]:
        if time.monotonic() >= deadline:
            for pid in left:
                _kill(pid, signal.SIGKILL)
        time.sleep(_POLL)


def _kill(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process. If the process has ended, nothing happens."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _has_ended(pid: int) -> bool:
    """Return whether a child process has ended, and if so, remove it from the process table. A process that is not a
    child of this one counts as ended.
    """
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _enlarge(pipe: Connection[Any, Any]) -> None:
    """Set the capacity of a pipe to `_PIPE_BYTES`, if the system allows it."""
    import fcntl

    with contextlib.suppress(OSError):  # the system may allow less
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _run_process(
    parent: int, work: Work[Any, Any], jobs: Connection[Any, Any], results: Connection[Any, Any]
) -> NoReturn:
    """Run jobs with the function that `work` returns until the pool closes, then exit the process. A job that fails has
    the result None.
    """
    try:
        state = WorkerState()
        _detach(parent, state)
        logger.handlers, logger.propagate = [_LogCollector(state.logged)], False
        do: Callable[[Any], Any] | None = None
        while True:
            job = jobs.recv()
            state.logged.clear()
            try:
                do = do or work(state)
                result = do(job)
            except Exception:
                results.send((None, []))
            else:
                results.send((result, state.logged))
    except BaseException:  # noqa: S110 - the parent has ended, or notices that this process has
        pass
    finally:
        os._exit(0)


class _LogCollector(logging.Handler):
    """A logging handler that collects log records as text."""

    def __init__(self, logged: Logged) -> None:
        super().__init__()
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        """Add a log record to those of the current job."""
        self._logged.append((record.levelno, self.format(record)))


def _detach(parent: int, state: WorkerState) -> None:
    """Detach a new process from its parent: set up its signals, reseed `random`, exclude inherited objects from garbage
    collection, and make sure that the process is killed when the parent ends.
    """
    import ctypes

    def end(_number: int, _frame: object) -> None:
        """Handle a signal by letting the current job end early."""
        state.ending = True

    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent receives it too, and ends this process
    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    gc.freeze()
    random.seed()
