"""What a program in bubblewrap's sandbox sees: folders of the system, the interpreter, a few files of /etc."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from karenina_sandbox.providers.layers import Layers
from karenina_sandbox.sandbox import Policy, SandboxError

INSIDE: Final = "/task"
"""The path of the workspace inside."""
HOME: Final = "/home/agent"
"""The home folder inside, which is empty at the start of each command."""
_ETC: Final = Path(__file__).parent / "etc"
OWN: Final = ("/proc", "/dev", "/tmp", "/etc", INSIDE, HOME)  # noqa: S108
"""The paths at which a sandbox has files of its own."""
_SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SHARED: Final = (
    "alternatives",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs",
)
"""The files and folders of /etc that programs see."""


def mount_arguments(policy: Policy) -> list[str]:
    """Return bubblewrap's arguments for everything but the workspace: the system, the interpreter, mounts and sockets.
    Raises `SandboxError` if a mount does not exist or would hide a part of the sandbox.
    """
    memory = policy.limits.memory
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            arguments += ["--ro-bind", str(place), str(place)]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(memory // 4)]
    arguments += ["--tmpfs", "/dev/shm", "--perms", "1777", "--size", str(memory // 2), "--tmpfs", "/tmp"]  # noqa: S108
    arguments += ["--perms", "0777", "--size", str(memory // 4), "--tmpfs", HOME, "--dir", "/etc"]
    for name in _SHARED:
        if Path("/etc", name).exists():
            arguments += bind_arguments("--ro-bind", f"/etc/{name}", f"/etc/{name}")
    for file in sorted(_ETC.iterdir()):
        arguments += ["--ro-bind", str(file), f"/etc/{file.name}"]
    check_mounts(policy)
    for path in (*python_paths(policy.python), *policy.mounts):
        arguments += bind_arguments("--ro-bind", str(path), str(path))
    for inside, outside in policy.sockets.items():
        arguments += bind_arguments("--bind", str(outside), inside)
    return arguments


def check_mounts(policy: Policy) -> None:
    """Raise `SandboxError` if a path in `sandbox_mounts` does not exist, or would hide a folder of the sandbox."""
    for path in policy.mounts:
        if not path.exists():
            raise SandboxError(f"sandbox_mounts contains {path}, which does not exist; correct the path")
        hidden = [own for own in OWN if Path(own).is_relative_to(os.path.normpath(path))]
        if hidden:
            raise SandboxError(
                f"sandbox_mounts contains {path}, which would hide {hidden[0]} in the sandbox; mount a subfolder "
                "instead"
            )


def visible_paths(policy: Policy) -> Iterator[Path]:
    """Yield the files and folders of the host that programs see, apart from the workspace. Raises `SandboxError` if the
    interpreter cannot be run, or if its prefix contains the user's home folder.
    """
    yield from (Path("/usr"), *(Path("/", name) for name in _SYSTEM), *(Path("/etc", name) for name in _SHARED))
    yield from python_paths(policy.python)
    yield from policy.mounts


def workspace_arguments(layers: Layers) -> list[str]:
    """Return bubblewrap's arguments for the workspace."""
    if layers.work is None:
        return ["--bind", str(layers.changed), INSIDE]
    return ["--overlay-src", str(layers.source), "--overlay", str(layers.changed), str(layers.work), INSIDE]


def bind_arguments(option: str, outside: str, inside: str) -> list[str]:
    """Return the arguments for a mount. Its parents must be accessible, which bubblewrap does not ensure."""
    parents = [str(parent) for parent in reversed(Path(inside).parents) if str(parent) not in ("/", "/etc", "/tmp")]  # noqa: S108
    return [*(word for parent in parents for word in ("--dir", parent)), option, outside, inside]


def environment_of(policy: Policy) -> dict[str, str]:
    """Return the environment of programs in the sandbox: fixed values, and those in `policy`, but none from this
    process. PATH contains the folder of the interpreter, the folders in `mounts`, their `bin`, and the system's.
    """
    folders = [] if policy.python is None else [str(policy.python.parent)]
    folders += [str(path) for mount in policy.mounts for path in (mount, mount / "bin") if path.is_dir()]
    folders += ["/usr/local/bin", "/usr/bin", "/bin"]
    usual = {"PATH": ":".join(dict.fromkeys(folders)), "HOME": HOME, "TZ": "UTC", "PYTHONHASHSEED": "0"}
    return {**usual, **policy.environment}


def command_of(argv: Sequence[str], policy: Policy) -> list[str]:
    """Return a command in which `python` is the interpreter of the policy."""
    if argv[0] == "python" and policy.python is not None:
        return [str(policy.python), *argv[1:]]
    return list(argv)


@lru_cache(maxsize=16)
def python_paths(python: Path | None) -> tuple[Path, ...]:
    """Return what an interpreter, if any, needs outside of /usr: its prefixes, and the links that lead to it. Raises
    `SandboxError` if it cannot be run, or if a prefix contains the user's home folder.
    """
    if python is None:
        return ()
    prefixes = sorted({Path(prefix) for prefix in _prefixes(python)})
    prefixes += [real for prefix in prefixes if (real := prefix.resolve()) not in prefixes]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - it may be unknown, which is no error here
    paths: list[Path] = []
    for prefix in prefixes:
        if prefix.is_relative_to("/usr"):
            continue
        if home.is_relative_to(prefix):
            raise SandboxError(
                f"the interpreter {python} is installed in {prefix}, which contains your home folder; set "
                "sandbox_python to the interpreter of a virtual environment or to /usr/bin/python3"
            )
        paths.append(prefix)
    links = (
        link for link in follow_links(python) if not any(link.is_relative_to(path) for path in (*paths, Path("/usr")))
    )
    return (*paths, *links)


def _prefixes(python: Path) -> Sequence[str]:
    """Run an interpreter, and return its `sys.prefix` and `sys.base_prefix`. Raises `SandboxError` if that fails."""
    if os.fspath(python) == sys.executable:
        return (sys.prefix, sys.base_prefix)
    script = "import sys; print(sys.prefix, sys.base_prefix, sep='\\0', end='')"
    try:
        shown = subprocess.run([python, "-I", "-c", script], capture_output=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the interpreter {python} cannot be run: {error}; correct sandbox_python") from error
    return os.fsdecode(shown.stdout).split("\0")


def follow_links(program: Path) -> Iterator[Path]:
    """Yield a program's path and, while it is a link, the path that it leads to; the last one is the real program."""
    for _ in range(20):
        yield program
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))
