"""The providers `podman` and `docker`: a container for each command, by their command lines.

The image is never downloaded. The container has no network, a read-only root and no capabilities; the workspace is
mounted at the same path as in bubblewrap's sandbox.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, Self

from karenina_sandbox.providers.layers import (
    LayeredSandbox,
    choose_uid,
    make_layers,
    open_in_scratch,
)
from karenina_sandbox.providers.mounts import HOME, INSIDE, check_mounts
from karenina_sandbox.providers.processes import BoundedReader, check_command, explain_program, write_all
from karenina_sandbox.sandbox import CannotStart, CommandResult, Policy, SandboxError, SandboxProvider, Stop

Engine = Literal["podman", "docker"]
_NAME: Final = re.compile(r"karenina-sandbox-(\d+)-[0-9a-f]{12}")
_INIT_FOLDERS: Final = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/bin")
_PAUSE: Final = 0.1
_MEMORY: Final = "/sys/fs/cgroup/memory"
_CALL_SECONDS: Final = 120.0
"""The number of seconds that a call of the engine may take, apart from the command in the container."""


class ContainerProvider:
    """The provider that runs each command in a container of its own. The image has the programs."""

    needs_image = True

    def __init__(self, name: Engine) -> None:
        self.name: Final = name

    def unavailable(self) -> str | None:
        """Return why the engine cannot be used here, with a cure, or None."""
        return _find_problem(self.name)

    def describe(self) -> str:
        """Return the version of the engine, and which limits hold."""
        version = _call(self.name, "--version").strip()
        return f"{version}; the engine limits memory and processes; the size of files is checked"

    def identity(self, policy: Policy) -> str:
        """Return the provider's name and the image: its digest if the image is here, else its name."""
        return f"{self.name} {_image_digest(self.name, policy.image or '') or policy.image}"

    def open(
        self, workspace: Path, policy: Policy, *, in_place: bool = False
    ) -> AbstractAsyncContextManager[ContainerSandbox]:
        """Open a sandbox with the contents of the folder `workspace`. Raises `SandboxError` if it cannot be opened."""
        return open_in_scratch(lambda scratch: self._open(workspace, policy, scratch, in_place))

    def _open(self, workspace: Path, policy: Policy, scratch: Path, in_place: bool) -> ContainerSandbox:
        """Return a sandbox whose layers are in the folder `scratch` or, if `in_place`, whose commands change the
        workspace itself. Raises `SandboxError` if it cannot be opened.
        """
        self._check(policy)
        _remove_orphans(self.name)
        workspace = workspace.resolve()
        try:
            owner = _owner(self.name, workspace, in_place=in_place)
            given = owner if os.geteuid() == 0 else None
            layers = make_layers(workspace, scratch, given, overlay=False, in_place=in_place)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the workspace {workspace} cannot be opened in a sandbox: {error}") from error
        arguments = isolation_arguments(self.name, policy, owner)
        arguments += ["--volume", f"{layers.changed}:{INSIDE}"]
        return ContainerSandbox(policy, layers, given, engine=self.name, arguments=arguments, scratch=scratch)

    def _check(self, policy: Policy) -> None:
        """Raise `SandboxError` if the engine, the image or a mounted folder cannot be used."""
        problem = _find_problem(self.name)
        if problem is not None:
            raise SandboxError(problem)
        check_mounts(policy)
        if policy.image is None:
            raise SandboxError(
                f"{self.name} requires an image; set one, for example with `--sandbox-image python:3.12`"
            )
        if _image_digest(self.name, policy.image) is None:
            raise SandboxError(
                f"{self.name} has no image {policy.image!r}, and runs do not download images; run "
                f"`{self.name} pull {policy.image}`, or correct --sandbox-image"
            )


@dataclass(slots=True)
class ContainerSandbox(LayeredSandbox):
    """A workspace in which each command runs in a container of its own.

    The engine is started in the folder `scratch`, because podman's monitor writes a file `oom` into its own.
    """

    engine: Engine = "podman"
    arguments: Sequence[str] = ()
    scratch: Path | None = None

    async def run(
        self, argv: Sequence[str], *, cwd: str = ".", stdin: bytes = b"", seconds: float | None = None
    ) -> CommandResult:
        """Run a command, and return its output and how it ended. It is stopped after `seconds`, or the policy's limit
        if that is lower. Commands of the same sandbox run one after another. Raises as `Sandbox.run` does.
        """
        check_command(argv)
        most = self.policy.limits.seconds
        within = most if seconds is None else min(seconds, most)
        name = f"karenina-sandbox-{os.getpid()}-{secrets.token_hex(6)}"
        place = ["--name", name, "--interactive", "--workdir", str(PurePosixPath(INSIDE, cwd))]
        async with self.lock:
            await self.note_size()
            try:
                image = str(self.policy.image)
                created = await _call_async(self.engine, "create", *self.arguments, *place, image, *argv)
                if not is_hybrid():
                    return await self._attend(name, argv[0], stdin, within)
                with _MemoryWatch(created.strip()) as memory:
                    return await self._attend(name, argv[0], stdin, within, memory)
            finally:
                await asyncio.shield(_remove(self.engine, name))

    async def _attend(
        self, name: str, program: str, stdin: bytes, seconds: float, memory: _MemoryWatch | None = None
    ) -> CommandResult:
        """Start the container `name`, send it `stdin`, wait until it has ended or reaches a limit, such as `seconds`,
        at which it is killed, and return what the command did. Raises `CannotStart`, which names `program`, if it did
        not start.
        """
        process = await _start(self.engine, "start", "--attach", "--interactive", name, folder=self.scratch)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        most = self.policy.limits.output
        flood = asyncio.Event()
        output, error_output = (BoundedReader(one, most, flood) for one in (process.stdout, process.stderr))
        writing = asyncio.ensure_future(write_all(process.stdin, stdin))
        watching = asyncio.ensure_future(self._watch())
        flooding = asyncio.ensure_future(flood.wait())
        waiting = asyncio.ensure_future(process.wait())
        stop: Stop | None = None
        started = time.monotonic()
        try:
            tasks = {watching, flooding, waiting}
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if watching in done:
                stop = watching.result()
            elif flooding in done:
                stop = "output"
            elif not done:
                stop = "time"
            spent = time.monotonic() - started
            if stop is not None:
                await _call_async(self.engine, "kill", name, check=False)
            state = read_state(await _call_async(self.engine, "inspect", name))
        finally:
            for task in (watching, flooding, waiting, writing):
                task.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        (out, out_cut), (err, err_cut) = await output.end(), await error_output.end()
        if not state.started:
            raise CannotStart(
                explain_program(program, self.layers.visible)
                or f"the command {program!r} cannot be started in the image {self.policy.image}: "
                f"{state.error or err.decode('utf-8', 'replace').strip()}; correct it, or choose another image"
            )
        if stop is None and (state.out_of_memory or (memory is not None and memory.reached)):
            stop = "memory"
        if stop is None and await self.exceeds_disk():
            stop = "disk"
        return CommandResult(None if stop else state.exit, out, err, out_cut, err_cut, spent, stop)

    async def _watch(self) -> Stop:
        """Poll until the command has written more than it may, and return "disk". Otherwise, this never returns."""
        pause = _PAUSE
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            if await self.exceeds_disk():
                return "disk"
            pause = max(_PAUSE, 4 * (time.monotonic() - began))


class _MemoryWatch:
    """A watch whether the kernel ends a process of podman's container because of its memory limit (`reached`).

    Podman does not report this if both versions of control groups are mounted. Version 1 has notifications for it, and
    sends another one when a group has been removed.
    """

    def __init__(self, container: str) -> None:
        self.reached = False
        self._loop = asyncio.get_running_loop()
        self._groups = [
            Path(_MEMORY, "libpod_parent", f"libpod-{container}"),
            Path(_MEMORY, "machine.slice", f"libpod-{container}.scope"),
        ]
        self._notified = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._timer = self._loop.call_soon(self._register)

    def __enter__(self) -> Self:
        self._loop.add_reader(self._notified, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._notified)
        os.close(self._notified)

    def _register(self) -> None:
        """Subscribe to the kernel's notifications when the container's group exists; until then, try again later."""
        group = next((group for group in self._groups if group.exists()), None)
        if group is None:
            self._timer = self._loop.call_later(_PAUSE / 5, self._register)
            return
        with suppress(OSError), (group / "memory.oom_control").open("rb") as control:
            (group / "cgroup.event_control").write_text(f"{self._notified} {control.fileno()}")

    def _read(self) -> None:
        if os.eventfd_read(self._notified) > 1 or any(group.exists() for group in self._groups):
            self.reached = True


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container that has ended, or was never started."""

    started: bool
    exit: int
    out_of_memory: bool
    error: str


def read_state(inspected: str) -> ContainerState:
    """Return the state that `inspect` prints. Raises `SandboxError` if it is not what podman and docker print."""
    try:
        state: dict[str, Any] = json.loads(inspected)[0]["State"]
        error = str(state.get("Error") or "")
        exit_code = int(state["ExitCode"])
        started = str(state.get("StartedAt", "")) > "0001-01-02" and not (exit_code in (126, 127) and error)
        return ContainerState(started, exit_code, bool(state.get("OOMKilled")), error)
    except (ValueError, KeyError, IndexError, TypeError) as problem:
        raise SandboxError(f"the state of the container cannot be read: {problem!r}") from problem


def isolation_arguments(engine: Engine, policy: Policy, owner: int | None) -> list[str]:
    """Return the options of `create` and `run` for isolation and limits. The user in the container is `owner`, or that
    of the image if it is None.

    In rootless docker, the image's root is the user who runs docker.
    """
    limits = policy.limits
    largest = limits.disk + 4096
    arguments = ["--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL", "--log-driver", "none"]
    arguments += ["--security-opt", "no-new-privileges", "--hostname", "sandbox"]
    arguments += ["--init"] if has_init(engine) else []
    arguments += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    arguments += ["--pids-limit", str(limits.processes)]
    arguments += ["--ulimit", "core=0:0", "--ulimit", f"fsize={largest}:{largest}"]
    for place, size in (("/tmp", limits.memory // 2), (HOME, limits.memory // 4)):  # noqa: S108
        arguments += ["--tmpfs", f"{place}:rw,exec,mode=1777,size={size}"]
    if engine == "podman":
        arguments += ["--read-only-tmpfs=false", "--timeout", str(int(limits.seconds) + 60)]
        if os.geteuid() != 0:
            arguments += ["--userns", "keep-id"]
        if is_hybrid():
            arguments += ["--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    if owner is not None:
        arguments += ["--user", f"{owner}:{owner if os.geteuid() == 0 else os.getegid()}"]
    for path in policy.mounts:
        arguments += ["--volume", f"{path}:{path}:ro"]
    for inside, outside in policy.sockets.items():
        arguments += ["--volume", f"{outside}:{inside}"]
    for name, value in {"HOME": HOME, "TZ": "UTC", "PYTHONHASHSEED": "0", **policy.environment}.items():
        arguments += ["--env", f"{name}={value}"]
    return arguments


def has_init(engine: Engine) -> bool:
    """Return whether the engine has a first process for containers, so that a program gets signals as usual."""
    return engine == "docker" or any(Path(folder, "catatonit").exists() for folder in _INIT_FOLDERS)


def is_hybrid() -> bool:
    """Return whether both versions of control groups are mounted, which crun and newer limits do not support."""
    return Path("/sys/fs/cgroup/unified").is_dir() and not Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _owner(engine: Engine, workspace: Path, *, in_place: bool) -> int | None:
    """Return the user id with which commands run in a container."""
    if engine == "docker" and "rootless" in _call(engine, "info", "--format", "{{.SecurityOptions}}"):
        return None
    return choose_uid(workspace, in_place=in_place) if os.geteuid() == 0 else os.geteuid()


def _find_problem(engine: Engine) -> str | None:
    if shutil.which(engine) is None:
        return f"{engine} is not installed; install it, or choose another sandbox"
    return _try_engine(engine)


@lru_cache(maxsize=2)
def _try_engine(engine: Engine) -> str | None:
    """Return why the engine does not answer, with a cure, or None if it does. It is called once per process."""
    form = "{{.ServerVersion}}" if engine == "docker" else "{{.Version.Version}}"
    try:
        _call(engine, "info", "--format", form)
    except SandboxError as error:
        return f"{error}; start {engine}, or choose another sandbox"
    return None


@lru_cache(maxsize=64)
def _image_digest(engine: Engine, image: str) -> str | None:
    """Return the id of an image, or None if the engine or the image is not on this machine. The engine is called once
    per image and process.
    """
    if shutil.which(engine) is None:
        return None
    try:
        return _call(engine, "image", "inspect", "--format", "{{.Id}}", image).strip() or None
    except SandboxError:
        return None


@lru_cache(maxsize=2)
def _remove_orphans(engine: Engine) -> None:
    """Remove the containers of processes that no longer exist. Errors are ignored. Later calls in the same process do
    nothing.
    """
    with suppress(SandboxError):
        for name in _call(
            engine, "ps", "--all", "--filter", "name=karenina-sandbox-", "--format", "{{.Names}}"
        ).split():
            match = _NAME.fullmatch(name)
            if match is not None and not Path("/proc", match[1]).exists():
                _call(engine, "rm", "--force", name)


def _call(engine: Engine, *arguments: str) -> str:
    """Call the engine, and return its standard output. Raises `SandboxError` if it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603
            [engine, *arguments], capture_output=True, timeout=_CALL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{engine} failed: {error}") from error
    if done.returncode != 0:
        raise SandboxError(f"{engine} {arguments[0]} failed: {_last_line(done.stderr)}")
    return done.stdout.decode("utf-8", "replace")


async def _call_async(engine: Engine, *arguments: str, check: bool = True) -> str:
    """Call the engine asynchronously, and return its standard output, with `check=False` even if it fails. Raises
    `SandboxError` if it takes too long or, by default, if it fails.
    """
    process = await _start(engine, *arguments)
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise SandboxError(f"{engine} {arguments[0]} did not finish within {_CALL_SECONDS:g} s") from None
    if check and process.returncode != 0:
        raise SandboxError(f"{engine} {arguments[0]} failed: {_last_line(err)}")
    return out.decode("utf-8", "replace")


async def _start(engine: Engine, *arguments: str, folder: Path | None = None) -> asyncio.subprocess.Process:
    """Start the engine with pipes in a session of its own. Raises `SandboxError` if it cannot be started."""
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            engine, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, start_new_session=True
        )
    except OSError as error:
        raise SandboxError(f"{engine} cannot be started: {error}") from error


async def _remove(engine: Engine, name: str) -> None:
    with suppress(SandboxError):
        await _call_async(engine, "rm", "--force", "--volumes", name, check=False)


def _last_line(text: bytes) -> str:
    return ascii((text.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1])[1:-1]


PODMAN: Final[SandboxProvider] = ContainerProvider("podman")
DOCKER: Final[SandboxProvider] = ContainerProvider("docker")
