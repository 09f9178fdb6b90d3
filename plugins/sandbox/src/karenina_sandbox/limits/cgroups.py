"""Control groups, with which the kernel limits the memory and the number of processes of a command.

Both versions are supported: version 1, if its controllers `memory` and `pids` are mounted writable, and version 2, if
a group from the own one upwards is writable and passes both controllers on. Under systemd, that is the case for root,
and for programs started by `systemd-run --user --scope`.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from karenina_sandbox.sandbox import Limits, Stop

_NAME: Final = re.compile(r"karenina-(\d+)-[0-9a-f]{8}")
_CONTROLLERS: Final = ("memory", "pids")
_ENTER: Final = """
while [ "$1" != -- ]; do
  echo $$ > "$1" || exit 127
  shift
done
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The folders in which groups can be created: one for both controllers, or (version 1) one for each."""

    version: Literal[1, 2]
    memory: Path
    pids: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders without repetition."""
        return (self.memory,) if self.memory == self.pids else (self.memory, self.pids)

    def create(self, limits: Limits) -> Cgroup:
        """Create a group with these limits, and return it. Raises `OSError` if it cannot be created."""
        name = f"karenina-{os.getpid()}-{secrets.token_hex(4)}"
        group = Cgroup(Cgroups(self.version, self.memory / name, self.pids / name))
        try:
            for folder in group.at.folders:
                folder.mkdir()
            group.limit(limits)
        except BaseException:
            group.remove()
            raise
        return group

    def remove_orphans(self) -> None:
        """Remove the groups of processes that no longer exist. The kernel refuses to remove one that is in use."""
        for folder in self.folders:
            with suppress(OSError):
                for group in folder.iterdir():
                    match = _NAME.fullmatch(group.name)
                    if match is not None and not Path("/proc", match[1]).exists():
                        _remove(group)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The control group of one command."""

    at: Cgroups

    def limit(self, limits: Limits) -> None:
        """Write the limits of memory (including swap) and processes to the group. Raises `OSError` if that fails."""
        if self.at.version == 2:
            (self.at.memory / "memory.max").write_text(str(limits.memory))
            swap, oom = self.at.memory / "memory.swap.max", self.at.memory / "memory.oom.group"
            if swap.exists():
                swap.write_text("0")
            if oom.exists():
                oom.write_text("1")
        else:
            (self.at.memory / "memory.limit_in_bytes").write_text(str(limits.memory))
            with suppress(OSError):  # only if the kernel counts swap
                (self.at.memory / "memory.memsw.limit_in_bytes").write_text(str(limits.memory))
        (self.at.pids / "pids.max").write_text(str(limits.processes))

    def add(self, pid: int) -> None:
        """Move a process into the group, which also gets processes that it starts later. Raises `OSError` if that
        fails.
        """
        for folder in self.at.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def exceeded(self) -> Stop | None:
        """Return the limit ("memory" or "processes") at which the kernel has stopped the group, or None."""
        events = self.at.memory / ("memory.events" if self.at.version == 2 else "memory.oom_control")
        if _read_count(events, "oom_kill"):
            return "memory"
        return "processes" if _read_count(self.at.pids / "pids.events", "max") else None

    def entering_command(self) -> list[str]:
        """Return the command that enters the group before it becomes another command."""
        places = [str(folder / "cgroup.procs") for folder in self.at.folders]
        return ["/bin/sh", "-c", _ENTER, "sh", *places, "--"]

    def remove(self, *, patient: bool = False) -> None:
        """Remove the group, which must be empty; errors are ignored. With `patient`, wait up to a second until it is
        empty.

        What is left is removed by `Cgroups.remove_orphans`.
        """
        for folder in self.at.folders:
            with suppress(OSError):
                _remove(folder) if patient else folder.rmdir()


def find_cgroups(mounts: str | None = None, own: str | None = None) -> Cgroups | None:
    """Return the control groups in which this process can limit both memory and processes, or None. `mounts` and `own`
    replace the contents of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    """
    try:
        mounted = list(_read_mounts(Path("/proc/self/mountinfo").read_text() if mounts is None else mounts))
        groups = _read_own(Path("/proc/self/cgroup").read_text() if own is None else own)
    except OSError:
        return None
    found = {name: _find_first(mounted, groups, name) for name in _CONTROLLERS}
    memory, pids = found["memory"], found["pids"]
    if memory is not None and pids is not None:
        return Cgroups(1, memory, pids)
    for kind, _, root, point in mounted:
        if kind == "cgroup2" and "" in groups:
            here = _below(point, root, groups[""])
            while here.is_relative_to(point):
                if _passes_on(here):
                    return Cgroups(2, here, here)
                here = here.parent
    return None


def _find_first(mounted: list[tuple[str, set[str], str, Path]], groups: dict[str, str], name: str) -> Path | None:
    """Return the folder of this process's own group for a controller of version 1, or None if it is not writable.
    `mounted` comes from `_read_mounts`, and `groups` maps controllers to the process's groups.
    """
    for kind, options, root, point in mounted:
        if kind == "cgroup" and name in options and name in groups:
            here = _below(point, root, groups[name])
            if os.access(here, os.W_OK) and os.access(here / "cgroup.procs", os.W_OK):
                return here
    return None


def _passes_on(group: Path) -> bool:
    """Return whether a group of version 2 is writable and passes the controllers `memory` and `pids` on to groups in
    it.
    """
    try:
        passed = (group / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    writable = os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
    return writable and set(_CONTROLLERS) <= set(passed)


def _below(point: Path, root: str, group: str) -> Path:
    """Return the folder of a group, if the mount at `point` shows the hierarchy from `root` on."""
    relative = os.path.relpath(group, root)
    return point if relative.startswith("..") else point / relative


def _read_mounts(text: str) -> Iterator[tuple[str, set[str], str, Path]]:
    """Yield the type, options, root and path of each control group hierarchy in the text of `/proc/self/mountinfo`."""
    for line in text.splitlines():
        first, _, last = line.partition(" - ")
        fields, (kind, _, options) = first.split(" "), [*last.split(" "), "", "", ""][:3]
        if kind in ("cgroup", "cgroup2"):
            yield kind, set(options.split(",")), fields[3], Path(fields[4])


def _read_own(text: str) -> dict[str, str]:
    """Return the own group of each controller of version 1, and under "" that of version 2."""
    lines = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {name: path for _, names, path in lines for name in names.split(",")}


def _remove(group: Path) -> None:
    """Remove a group, trying for a second because its processes may still be ending. If that fails, it is left."""
    for _ in range(20):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)
    return None


def _read_count(file: Path, name: str) -> int:
    """Return the number after `name` in a file of counts, or 0 if there is none or the file cannot be read."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
