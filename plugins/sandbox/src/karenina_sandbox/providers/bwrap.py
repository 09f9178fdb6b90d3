"""The provider `bwrap`: namespaces of the kernel, set up by bubblewrap.

A user's programs run as that user in a user namespace. As root, a workspace that is read through an overlay is used in
the same way, if control groups limit what runs. Otherwise root's programs run under a user id that nobody uses, because
files that they leave could give others root's rights, and the kernel does not limit root's processes by number.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from karenina_sandbox.limits.cgroups import Cgroups, find_cgroups
from karenina_sandbox.limits.resources import limiting_command
from karenina_sandbox.providers.bwrap_program import (
    LAST,
    Program,
    drop_to,
    find_program,
    has_own_users,
    isolation,
    require_program,
    try_overlay,
)
from karenina_sandbox.providers.bwrap_sandbox import BwrapSandbox
from karenina_sandbox.providers.layers import (
    choose_uid,
    give,
    make_layers,
    open_in_scratch,
    release_uid,
)
from karenina_sandbox.providers.mounts import (
    HOME,
    bind_arguments,
    command_of,
    environment_of,
    mount_arguments,
    workspace_arguments,
)
from karenina_sandbox.providers.seccomp import opened_filter
from karenina_sandbox.providers.visibility import find_missing
from karenina_sandbox.sandbox import Policy, ProgramProvider, SandboxError

_OPEN_FILTER: Final = 'exec 9< "$1" && shift && exec "$@"'
"""The script that opens the filter for bubblewrap, because whoever starts the program passes no descriptors to it."""


class BwrapProvider:
    """The provider that isolates commands with bubblewrap.

    `limited_by` replaces how the memory and the number of processes are limited: by default, with control groups if
    they are writable, else by adding up what the processes use. `layers` replaces how a workspace is opened.
    """

    name = "bwrap"
    needs_image = False

    def __init__(
        self, *, limited_by: Literal["cgroups", "usage"] | None = None, layers: Literal["overlay", "copy"] | None = None
    ) -> None:
        self._limited_by = limited_by
        self._layers = layers

    def unavailable(self) -> str | None:
        """Return why bubblewrap cannot be used here, with a cure, or None."""
        program = find_program()
        return program if isinstance(program, str) else None

    def describe(self) -> str:
        """Return which bubblewrap is used, how workspaces are opened, and which limits hold. Raises `SandboxError` if
        there is none.
        """
        program = require_program()
        cgroups, temporary = self._cgroups(), Path(tempfile.gettempdir())
        overlay = self._overlays(program, temporary, temporary, cgroups)
        how = "workspaces are opened as overlays" if overlay else "workspaces are copied"
        if cgroups is not None:
            limits = f"control groups (version {cgroups.version}) limit memory and processes"
        else:
            limits = "memory and processes are added up every 0.1 s, because no control group is writable"
        user = "; agents' commands run under an unused user id" if os.geteuid() == 0 else ""
        return f"bubblewrap {program.version} ({program.path}); {how}; {limits}; the size of files is checked{user}"

    def identity(self, policy: Policy) -> str:
        """Return the provider's name: a version of bubblewrap changes no result."""
        return self.name

    def open(
        self, workspace: Path, policy: Policy, *, in_place: bool = False
    ) -> AbstractAsyncContextManager[BwrapSandbox]:
        """Open a sandbox with the contents of the folder `workspace`. Raises `SandboxError` if it cannot be opened."""
        return open_in_scratch(lambda scratch: self._open(workspace, policy, scratch, in_place))

    def _open(self, workspace: Path, policy: Policy, scratch: Path, in_place: bool) -> BwrapSandbox:
        """Return a sandbox whose layers are in the folder `scratch` or, if `in_place`, whose commands change the
        workspace itself. Raises `SandboxError` if it cannot be opened.
        """
        program, cgroups = require_program(), self._cgroups()
        workspace = workspace.resolve()
        try:
            overlay = not in_place and self._overlays(program, workspace, scratch, cgroups)
            uid = None if overlay or os.geteuid() != 0 else choose_uid(workspace, in_place=in_place)
            layers = make_layers(workspace, scratch, uid, overlay=overlay, in_place=in_place)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the workspace {workspace} cannot be opened in a sandbox: {error}") from error
        arguments = [*isolation(uid), *mount_arguments(policy), *workspace_arguments(layers), *LAST]
        prefix = [] if uid is None else drop_to(uid)
        return BwrapSandbox(
            policy,
            layers,
            uid,
            program=program.path,
            name=scratch.name,
            arguments=arguments,
            prefix=prefix,
            cgroups=cgroups,
        )

    def _overlays(self, program: Program, workspace: Path, scratch: Path, cgroups: Cgroups | None) -> bool:
        """Return whether to open the workspace as an overlay instead of a copy. Raises `SandboxError` if an overlay was
        demanded but cannot be mounted.
        """
        safe = os.geteuid() != 0 or (cgroups is not None and has_own_users())
        overlay = self._layers != "copy" and safe and try_overlay(program, workspace, scratch)
        if self._layers == "overlay" and not overlay:
            raise SandboxError(f"the workspace {workspace} cannot be opened as an overlay")
        return overlay

    def problem_of(self, command: Sequence[str], policy: Policy) -> str | None:
        """Return why a command, or a path that it names, is not found inside, with a cure, or None."""
        return find_missing(command, policy)

    @asynccontextmanager
    async def wrap(
        self, command: Sequence[str], workspace: Path | None, policy: Policy, *, network: bool = False
    ) -> AsyncIterator[tuple[Sequence[str], Mapping[str, str]]]:
        """Yield a command that runs `command` isolated in `workspace`, which has the same path inside, with the network
        only if `network` is set, and its environment. Raises `SandboxError` if the sandbox cannot be opened.

        Memory and processes are limited by control groups, if they are writable, and otherwise only processes. As root,
        the files of the workspace get an unused owner.
        """
        uid, cgroup = None, None
        stack = ExitStack()
        if os.geteuid() == 0:
            try:
                uid = await asyncio.to_thread(choose_uid, workspace or Path("/"), in_place=workspace is not None)
            except OSError as error:
                raise SandboxError(f"the workspace {workspace} cannot be opened in a sandbox: {error}") from error
        try:
            filtering = stack.enter_context(opened_filter())
            wrapped = await asyncio.to_thread(_wrap, command, workspace, policy, uid, network, filtering)
            cgroups = self._cgroups()
            if cgroups is not None:
                try:
                    cgroup = cgroups.create(policy.limits)
                except OSError as error:
                    raise SandboxError(f"the resource limits for a program cannot be set: {error}") from error
                wrapped = [*cgroup.entering_command(), *wrapped]
            # The environment of bubblewrap itself can be read inside (/proc/1/environ): it must be the program's.
            yield wrapped, environment_of(policy)
        finally:
            stack.close()
            if cgroup is not None:
                await asyncio.shield(asyncio.to_thread(cgroup.remove, patient=True))
            if uid is not None:
                release_uid(uid)

    def _cgroups(self) -> Cgroups | None:
        return None if self._limited_by == "usage" else find_cgroups()


def _wrap(
    command: Sequence[str],
    workspace: Path | None,
    policy: Policy,
    uid: int | None,
    network: bool,
    filtering: int | None,
) -> list[str]:
    """Return bubblewrap's command for a program that stays open, with the network if `network` is set, and with the
    seccomp filter in the descriptor `filtering`, if any. With `uid`, make it the owner of the workspace. Raises
    `SandboxError` if that fails, or if there is no bubblewrap.
    """
    arguments = [*isolation(uid), *mount_arguments(policy)]
    if network:
        arguments.remove("--unshare-net")
        for file in ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"):  # so that names of servers are found
            arguments += ["--ro-bind-try", file, file]
    if workspace is not None:
        workspace = workspace.resolve()
        try:
            if uid is not None:
                give(workspace, uid)
        except OSError as error:
            raise SandboxError(f"the workspace {workspace} cannot be opened in a sandbox: {error}") from error
        arguments += bind_arguments("--bind", str(workspace), str(workspace))
    arguments += ["--chdir", HOME if workspace is None else str(workspace), *LAST]
    prefix = [] if uid is None else drop_to(uid)
    prefix += limiting_command(policy.limits, own_user=uid is not None)
    start = [require_program().path]
    if filtering is not None:
        start = ["/bin/sh", "-c", _OPEN_FILTER, "sh", f"/proc/{os.getpid()}/fd/{filtering}", *start, "--seccomp", "9"]
    return [*start, *arguments, "--", *prefix, *command_of(command, policy)]


SANDBOX: Final[ProgramProvider] = BwrapProvider()
