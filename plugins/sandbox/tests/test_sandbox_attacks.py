"""Nothing gets out of bubblewrap's sandbox: as root and as a user, with and without control groups."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import karenina_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap exists for Linux only")
NOBODY = 65_534
SECRET = "SECRET-OF-THE-HOST-4711"
MODES = [
    pytest.param(("root", "cgroups", "overlay"), id="root-overlay"),
    pytest.param(("root", "usage", "copy"), id="root-unused-user"),
    pytest.param(("root", "usage", "in_place"), id="root-in-place", marks=pytest.mark.release),
    pytest.param(("user", "usage", "overlay"), id="user-overlay"),
    pytest.param(("user", "usage", "copy"), id="user-copy", marks=pytest.mark.release),
    pytest.param(("user", "usage", "in_place"), id="user-in-place", marks=pytest.mark.release),
]


def closed_folder(*files: str) -> Path | None:
    """Return a folder above one of the files that other users cannot enter, if any."""
    folders = (folder for file in files for folder in Path(file).absolute().parents)
    return next((folder for folder in folders if not folder.stat().st_mode & stat.S_IXOTH), None)


@pytest.fixture(scope="module", params=MODES)
def attacks(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Return what each attack of the table achieved, as a user and in a way of opening the workspace."""
    who, limited_by, layers = request.param
    if who == "root" and os.geteuid() != 0:
        pytest.skip("this needs root")
    user = NOBODY if who == "user" and os.geteuid() == 0 else None
    if user is not None and (closed := closed_folder(sys.executable, __file__, karenina_sandbox.__file__)) is not None:
        pytest.skip(f"other users cannot read {closed}")
    with tempfile.TemporaryDirectory(prefix="karenina-attacks-") as name:  # pytest's own folder is closed to users
        folder = Path(name)
        (folder / "workspace").mkdir()
        (folder / "workspace" / "kept").write_text("kept")
        (folder / "secret").write_text(SECRET)
        environment = {
            "PATH": os.defpath,
            "HOME": str(Path.home()),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": name,
            "OPENAI_API_KEY": SECRET,
        }
        command = [sys.executable, Path(__file__).with_name("hostile_commands.py"), name, limited_by, layers]
        if user is not None:
            command.append(str(user))
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
        assert done.returncode == 0, done.stderr
        results: dict[str, Any] = json.loads(done.stdout)
        if "unavailable" in results:
            pytest.skip(results["unavailable"])
        left = {path.name for path in folder.iterdir()}
        yield {**results, "left": left, "mode": request.param, "folder": folder}


def test_files_of_the_host_are_not_visible(attacks: dict[str, Any]) -> None:
    assert SECRET not in attacks["home"]["output"] + attacks["other files"]["output"] + attacks["links"]["output"]
    assert attacks["home"]["output"].count("No such file") + attacks["home"]["output"].count("denied") >= 2


def test_processes_of_the_host_are_not_visible(attacks: dict[str, Any]) -> None:
    count, *rest = attacks["processes"]["output"].splitlines()
    assert int(count) <= 8
    assert "hostile_commands" not in str(rest)
    assert "pytest" not in str(rest)


def test_environment_and_descriptors_of_the_host_are_not_visible(attacks: dict[str, Any]) -> None:
    assert "HOME=/home/agent" in attacks["environment"]["output"]
    assert SECRET not in attacks["environment"]["output"]
    assert str(attacks["folder"]) not in attacks["descriptors"]["output"]


def test_there_is_no_network(attacks: dict[str, Any]) -> None:
    assert attacks["network"]["exit"] == 0
    assert "CONNECTED" not in attacks["network"]["output"]


def test_settings_of_the_kernel_cannot_be_written(attacks: dict[str, Any]) -> None:
    assert attacks["kernel"]["exit"] == 0
    assert "OPENED" not in attacks["kernel"]["output"]


def test_only_usual_sockets_and_no_namespaces_can_be_created(attacks: dict[str, Any]) -> None:
    *sockets, unshared = attacks["calls"]["output"].splitlines()
    assert {"SOCKET 1", "SOCKET 2"} <= set(sockets) <= {"SOCKET 1", "SOCKET 2", "SOCKET 10", "SOCKET 16"}
    assert unshared == "UNSHARE -1"


def test_nothing_outside_the_workspace_can_be_written(attacks: dict[str, Any]) -> None:
    assert "WROTE" not in attacks["outside"]["output"]
    assert "GOT" not in attacks["mounts"]["output"]


def test_links_out_of_the_workspace_are_never_followed(attacks: dict[str, Any]) -> None:
    assert attacks["links"]["read"] == ["None", "None"]
    assert all(kind == "link" for kind, _ in attacks["links"]["patch"].values())


def test_files_give_nobody_other_rights(attacks: dict[str, Any]) -> None:
    assert "CapEff:\t0000000000000000" in attacks["rights"]["output"]
    assert all(mode <= 0o777 for _, mode in attacks["rights"]["patch"].values())
    if attacks["mode"] == ("root", "usage", "in_place"):
        assert set(attacks["rights"]["owners"]).isdisjoint({0})


def test_limits_are_those_of_all_processes_together(attacks: dict[str, Any]) -> None:
    assert attacks["children"]["stopped_by"] == "memory"
    assert attacks["fork bomb"]["stopped_by"] == "processes"
    assert attacks["time"]["stopped_by"] == "time"
    assert len(attacks["output"]["output"]) <= 130_000


def test_files_cannot_fill_the_disk(attacks: dict[str, Any]) -> None:
    assert attacks["many files"]["stopped_by"] == "disk"
    assert attacks["large file"]["stopped_by"] == "disk"
    assert "File too large" in attacks["sparse file"]["output"]


def test_no_process_outlives_its_command(attacks: dict[str, Any]) -> None:
    assert "started" in attacks["outlives"]["output"]
    number = attacks["outlives number"]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if command == f"sleep\0{number}\0".encode()]


def test_a_command_can_end_everything_inside_only(attacks: dict[str, Any]) -> None:
    assert attacks["everyone"]["exit"] == 0
    assert "alive" in attacks["everyone"]["output"]


def test_nothing_is_left_behind(attacks: dict[str, Any]) -> None:
    assert attacks["left"] - {"state"} == {"workspace", "secret"}
    assert [path.name for path in (attacks["folder"] / "workspace").iterdir()] == ["kept"]
