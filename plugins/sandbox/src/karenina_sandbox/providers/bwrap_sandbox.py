"""A workspace in which bubblewrap runs commands, one after another."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from karenina_sandbox.limits.cgroups import Cgroup, Cgroups
from karenina_sandbox.limits.resources import counts_by_namespace, largest_file
from karenina_sandbox.limits.usage import count_tasks, find_processes, measure_memory
from karenina_sandbox.providers.layers import LayeredSandbox
from karenina_sandbox.providers.mounts import INSIDE, command_of, environment_of
from karenina_sandbox.providers.processes import (
    BoundedReader,
    FirstProcess,
    check_command,
    explain_program,
    open_reader,
    write_all,
)
from karenina_sandbox.providers.seccomp import opened_filter
from karenina_sandbox.sandbox import CannotStart, CommandResult, SandboxError, Stop

_PAUSE: Final = 0.1
"""The number of seconds between two looks at what a command uses."""
_OPENING_SECONDS: Final = 60.0
"""The number of seconds within which bubblewrap must have created the namespaces."""
_GATE: Final = """
case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] ;;
  *) command -v "$1" > /dev/null ;;
esac && echo start || { echo missing; exit 127; }
read -r go && exec "$@"
exit 127
"""
"""The script that precedes each command. It states whether there is such a program, and starts it if it is told to.

If the run is killed before that, it ends: bubblewrap binds itself to the life of the run only after it has opened the
sandbox, which would otherwise outlive the run.
"""


@dataclass(slots=True)
class BwrapSandbox(LayeredSandbox):
    """A workspace in which commands run isolated. `prefix` is a command before each command.

    Processes of bubblewrap have the name `name`, by which they are found if this process is killed.
    """

    program: str = ""
    name: str = ""
    arguments: Sequence[str] = ()
    prefix: Sequence[str] = ()
    cgroups: Cgroups | None = None

    async def run(
        self, argv: Sequence[str], *, cwd: str = ".", stdin: bytes = b"", seconds: float | None = None
    ) -> CommandResult:
        """Run a command in the folder `cwd` with `stdin` as its input, and return its output and how it ended. It is
        stopped after `seconds`, or the policy's limit if that is lower. Commands of the same sandbox run one after
        another. Raises as `Sandbox.run` does.
        """
        check_command(argv)
        most = self.policy.limits.seconds
        async with self.lock:
            await self.note_size()
            return await _Command(self, cwd, stdin, most if seconds is None else min(seconds, most)).run(argv)


@dataclass(slots=True)
class _Command:
    """A command in a sandbox."""

    sandbox: BwrapSandbox
    cwd: str
    stdin: bytes
    seconds: float
    _stop: Stop | None = None

    async def run(self, argv: Sequence[str]) -> CommandResult:
        """Start bubblewrap with pipes for its arguments and status, wait for the command, and return what it did.
        Raises `CannotStart` if the command, and `SandboxError` if bubblewrap cannot be started.
        """
        sandbox = self.sandbox
        environment = environment_of(sandbox.policy)
        inside = str(PurePosixPath(INSIDE, self.cwd))
        arguments = [*sandbox.arguments, "--chdir", inside]
        command = [*sandbox.prefix, "/bin/sh", "-c", _GATE, "sh", *command_of(argv, sandbox.policy)]
        with ExitStack() as stack:
            filtering = stack.enter_context(opened_filter())
            given = os.memfd_create("arguments")
            stack.callback(os.close, given)
            os.write(given, "\0".join(arguments).encode("utf-8", "surrogateescape"))
            os.lseek(given, 0, os.SEEK_SET)
            status, status_end = os.pipe()
            ready_end, ready = os.pipe()
            ends = ExitStack()
            ends.callback(os.close, status_end)
            ends.callback(os.close, ready_end)
            stack.callback(ends.close)
            stack.callback(os.close, ready)
            reader, close = open_reader(status)
            stack.callback(close)
            channels = ["--args", str(given), "--json-status-fd", str(status_end), "--block-fd", str(ready_end)]
            passed = [given, status_end, ready_end]
            if filtering is not None:
                channels += ["--seccomp", str(filtering)]
                passed.append(filtering)
            try:
                process = await asyncio.create_subprocess_exec(
                    sandbox.name,
                    *channels,
                    "--",
                    *command,
                    executable=sandbox.program,
                    env=environment,
                    cwd="/",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=passed,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"{sandbox.program} cannot be started: {error}") from error
            ends.close()
            return await self._attend(argv[0], process, reader, ready)

    async def _attend(
        self, name: str, process: asyncio.subprocess.Process, status: asyncio.StreamReader, ready: int
    ) -> CommandResult:
        """Set the limits, let the command start with a byte to the descriptor `ready`, and return what it did when it
        and all that it started have ended. `status` is what bubblewrap reports. Raises `CannotStart`, which names the
        program `name`, or `SandboxError` if it did not start.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        most = self.sandbox.policy.limits.output
        flood = asyncio.Event()
        error_output = BoundedReader(process.stderr, most, flood)
        writing: asyncio.Future[None] | None = None
        first: FirstProcess | None = None
        cgroup: Cgroup | None = None
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                line = await status.readline()
                if not line:
                    raise SandboxError(f"the sandbox cannot be opened: {_last_line((await error_output.end())[0])}")
                first = FirstProcess(int(json.loads(line)["child-pid"]))
                cgroup = self._limit(first.pid)
                with suppress(BrokenPipeError):  # its end is reported below
                    os.write(ready, b"1")
                gate = await process.stdout.readline()
                if gate == b"missing\n":
                    layers = [folder / self.cwd for folder in self.sandbox.layers.visible]
                    raise CannotStart(explain_program(name, layers) or explain_missing(name))
                if gate != b"start\n":
                    raise SandboxError(f"the sandbox cannot be opened: {_last_line((await error_output.end())[0])}")
            started = time.monotonic()
            output = BoundedReader(process.stdout, most, flood)
            writing = asyncio.ensure_future(write_all(process.stdin, b"go\n" + self.stdin))
            await self._wait(process, first.pid, cgroup, flood)
            spent = time.monotonic() - started
        except TimeoutError:
            raise SandboxError(f"the sandbox was not opened within {_OPENING_SECONDS:g} s") from None
        finally:
            await asyncio.shield(_end(process, first, writing))
            if self._stop is None and cgroup is not None:
                self._stop = cgroup.exceeded()
            if cgroup is not None:
                cgroup.remove()
        (out, out_cut), (err, err_cut) = await output.end(), await error_output.end()
        ended = [json.loads(line) for line in (await status.read()).splitlines() if b"exit-code" in line]
        if ended and self._stop is None and await self.sandbox.exceeds_disk():
            self._stop = "disk"
        if self._stop is not None:
            return CommandResult(None, out, err, out_cut, err_cut, spent, self._stop)
        if ended:
            return CommandResult(int(ended[0]["exit-code"]), out, err, out_cut, err_cut, spent)
        raise SandboxError(f"the sandbox of the command {name!r} died ({process.returncode}): {_last_line(err)}")

    def _limit(self, pid: int) -> Cgroup | None:
        """Limit the first process of the sandbox, and so all that it starts, and return its control group, if any.
        Raises `SandboxError` if a limit cannot be set.
        """
        limits = self.sandbox.policy.limits
        try:
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            largest = largest_file(limits)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, largest))
            if self.sandbox.prefix or counts_by_namespace():
                resource.prlimit(pid, resource.RLIMIT_NPROC, (limits.processes, limits.processes))
            if self.sandbox.cgroups is None:
                return None
            cgroup = self.sandbox.cgroups.create(limits)
            try:
                cgroup.add(pid)
            except OSError:
                cgroup.remove()
                raise
        except OSError as error:
            raise SandboxError(f"the resource limits for a command cannot be set: {error}") from error
        return cgroup

    async def _wait(
        self, process: asyncio.subprocess.Process, pid: int, cgroup: Cgroup | None, flood: asyncio.Event
    ) -> None:
        """Wait until the command ends or reaches a limit, which is stored in `_stop`. This does not kill it."""
        watching = asyncio.ensure_future(self._watch(pid, cgroup))
        tasks = {watching, flooding := asyncio.ensure_future(flood.wait()), asyncio.ensure_future(process.wait())}
        try:
            done, _ = await asyncio.wait(tasks, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if watching in done:
                self._stop = watching.result()
            elif flooding in done:
                self._stop = "output"
            elif not done:
                self._stop = "time"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, pid: int, cgroup: Cgroup | None) -> Stop:
        """Poll until the command exceeds a limit, and return it. This never returns if it does not.

        The pauses grow if measuring takes long.
        """
        limits, pause = self.sandbox.policy.limits, _PAUSE
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            if cgroup is not None:
                stop = cgroup.exceeded()
            else:
                stop = await asyncio.to_thread(_find_excess, pid, limits.memory, limits.processes)
            if stop is not None:
                return stop
            if await self.sandbox.exceeds_disk():
                return "disk"
            pause = max(_PAUSE, 4 * (time.monotonic() - began))


def explain_missing(name: str) -> str:
    """Return the message for a command that the sandbox does not contain: where it is outside, and what to do."""
    outside = shutil.which(name) if "/" not in name else None
    if outside is None:
        cure = "correct the command, or name the folder that contains it in sandbox_mounts"
    else:
        cure = f"outside it is {outside}: add {Path(outside).parent} to sandbox_mounts, or install it in /usr"
    return f"the command {name!r} is not in the sandbox; {cure}"


async def _end(
    process: asyncio.subprocess.Process, first: FirstProcess | None, writing: asyncio.Future[None] | None
) -> None:
    """Kill all processes of a command, wait until they have ended, and cancel the writing of its input."""
    if writing is not None:
        writing.cancel()
    if first is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return
    first.kill()
    await first.wait()
    await process.wait()
    first.close()


def _find_excess(pid: int, memory: int, tasks: int) -> Stop | None:
    """Return the limit at which a process and its descendants are together: "memory" if they use more than `memory`
    bytes, "processes" if they have `tasks` threads or more, or None.
    """
    processes = find_processes(pid)
    if measure_memory(processes, memory) > memory:
        return "memory"
    return "processes" if count_tasks(processes) >= tasks else None


def _last_line(text: bytes) -> str:
    return ascii((text.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1])[1:-1]
