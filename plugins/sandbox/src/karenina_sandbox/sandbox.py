"""The interface between checks and agents, which run programs, and providers, which isolate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from karenina_core.errors import KareninaError
from karenina_sandbox.patch import Patch

Stop = Literal["time", "memory", "processes", "disk", "output"]
"""The limit that ended a command."""


class SandboxError(KareninaError, RuntimeError):
    """Raised if a sandbox cannot be opened, or died. This is never the fault of what ran in it."""


class CannotStart(SandboxError):
    """Raised if a command cannot be started inside. The message says where it is outside, and which option helps."""


class Limits(NamedTuple):
    """The limits on a command and all processes that it starts.

    `seconds` is wall-clock time. `memory` and `disk` are totals in bytes, and `disk` is what is written into the
    workspace. `output` is the number of bytes that are kept of each of both streams. A command that prints a thousand
    times as much is stopped.
    """

    seconds: float = 600.0
    memory: int = 2 * 1024**3
    processes: int = 256
    disk: int = 2 * 1024**3
    output: int = 64_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What a sandbox allows.

    - `mounts`: paths of the host, readable inside at the same path.
    - `python`: the interpreter that is `python` inside, readable with its prefixes, or None.
    - `sockets`: proxies of unix sockets, by the path inside. Without any, there is no network.
    - `image`: the container image, for providers that use one.
    - `environment`: variables in addition to PATH, HOME, TZ and PYTHONHASHSEED.
    """

    limits: Limits = field(default_factory=Limits)
    mounts: tuple[Path, ...] = ()
    python: Path | None = None
    sockets: Mapping[str, Path] = field(default_factory=dict)
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class CommandResult(NamedTuple):
    """What a command did.

    `exit` is the exit code (128 plus the number of a signal that ended it), or None if a limit ended the command;
    `stopped_by` is that limit. `output` and `error_output` are the first bytes of both streams, and `output_cut` and
    `error_cut` state whether there were more.
    """

    exit: int | None
    output: bytes = b""
    error_output: bytes = b""
    output_cut: bool = False
    error_cut: bool = False
    seconds: float = 0.0
    stopped_by: Stop | None = None


class Sandbox(Protocol):
    """An isolated workspace. Commands see earlier commands' changes of files, and none of their processes."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        stdin: bytes = b"",
        seconds: float | None = None,
    ) -> CommandResult:
        """Run a command in the folder `cwd` of the workspace for at most `seconds`, or the policy's limit if that is
        lower, and return its output and how it ended. All processes that it started have then ended too. Raises
        `CannotStart` if it cannot be started, and `SandboxError` if the sandbox itself fails.
        """

    async def overlay(self, folder: Path) -> None:
        """Copy the files in `folder` over the workspace, such as hidden tests."""

    async def read(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file of the workspace. Links are not followed.

        Returns None if there is no plain file at `path`. Raises `SandboxError` if it is larger than `limit` bytes.
        """

    async def patch(self) -> Patch:
        """Return what has changed in the workspace since it was opened."""


@runtime_checkable
class SandboxProvider(Protocol):
    """A way to isolate programs. One instance serves all runs, and stores nothing about them."""

    @property
    def name(self) -> str:
        """The name by which the setting `sandbox` selects the provider."""

    @property
    def needs_image(self) -> bool:
        """Whether a container image has to be chosen."""

    def unavailable(self) -> str | None:
        """Return why this machine cannot open such sandboxes, with a cure, or None if it can."""

    def describe(self) -> str:
        """Return which program isolates and which limits hold here, for `karenina doctor`. It must be available."""

    def identity(self, policy: Policy) -> str:
        """Return what affects results apart from the policy: the provider's name, version and image digest."""

    def open(self, workspace: Path, policy: Policy, *, in_place: bool = False) -> AbstractAsyncContextManager[Sandbox]:
        """Open a sandbox with the contents of the folder `workspace`, which commands only change with `in_place`.
        Raises `SandboxError` if it cannot be opened.

        With `in_place`, `patch` returns no changes.
        """


@runtime_checkable
class ProgramProvider(SandboxProvider, Protocol):
    """A provider that also isolates programs that stay open."""

    def problem_of(self, command: Sequence[str], policy: Policy) -> str | None:
        """Return why a command, or a path that it names, is not found inside, with a cure, or None."""

    def wrap(
        self, command: Sequence[str], workspace: Path | None, policy: Policy, *, network: bool = False
    ) -> AbstractAsyncContextManager[tuple[Sequence[str], Mapping[str, str]]]:
        """Return an async context manager that yields the command that runs `command` isolated in `workspace` (which is
        not copied) or, if that is None, in an empty folder, and its whole environment. With `network`, it has the
        host's network. Raises `SandboxError` if the sandbox cannot be opened.
        """
