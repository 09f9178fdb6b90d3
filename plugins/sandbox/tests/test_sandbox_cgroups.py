"""Where control groups can be created, in both versions. The folders are ordinary ones in place of the kernel's."""

from __future__ import annotations

from pathlib import Path

from karenina_sandbox.limits.cgroups import Cgroups, find_cgroups
from karenina_sandbox.sandbox import Limits


def make_group(folder: Path, controllers: str | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    if controllers is not None:
        (folder / "cgroup.subtree_control").write_text(controllers + "\n")
    return folder


def test_version_2_uses_the_nearest_group_that_passes_both_controllers_on(tmp_path: Path) -> None:
    make_group(tmp_path / "root", "cpu memory pids")
    make_group(tmp_path / "root" / "user", "memory pids")
    make_group(tmp_path / "root" / "user" / "session", "")
    mounts = f"30 23 0:26 / {tmp_path}/root rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    found = find_cgroups(mounts, "0::/user/session\n")
    assert found == Cgroups(2, tmp_path / "root" / "user", tmp_path / "root" / "user")


def test_version_2_without_a_controller_is_not_used(tmp_path: Path) -> None:
    make_group(tmp_path / "root", "cpu pids")
    mounts = f"30 23 0:26 / {tmp_path}/root rw - cgroup2 cgroup2 rw\n"
    assert find_cgroups(mounts, "0::/\n") is None


def test_version_1_uses_the_own_group_of_each_controller(tmp_path: Path) -> None:
    memory, pids = make_group(tmp_path / "memory" / "own"), make_group(tmp_path / "pids")
    mounts = (
        f"31 23 0:27 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"32 23 0:28 / {tmp_path}/pids rw - cgroup cgroup rw,pids\n"
        f"33 23 0:29 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"
    )
    assert find_cgroups(mounts, "5:memory:/own\n4:pids:/\n0::/\n") == Cgroups(1, memory, pids)
    assert find_cgroups(mounts, "5:memory:/gone\n4:pids:/\n0::/\n") is None


def test_limits_of_version_2_are_written(tmp_path: Path) -> None:
    group = Cgroups(2, tmp_path, tmp_path).create(Limits(memory=1000, processes=7))
    assert (group.at.memory / "memory.max").read_text() == "1000"
    assert (group.at.pids / "pids.max").read_text() == "7"
    (group.at.memory / "memory.events").write_text("low 0\nmax 9\noom 1\noom_kill 0\n")
    (group.at.pids / "pids.events").write_text("max 0\n")
    assert group.exceeded() is None
    (group.at.pids / "pids.events").write_text("max 3\n")
    assert group.exceeded() == "processes"
    (group.at.memory / "memory.events").write_text("low 0\nmax 9\noom 1\noom_kill 1\n")
    assert group.exceeded() == "memory"
