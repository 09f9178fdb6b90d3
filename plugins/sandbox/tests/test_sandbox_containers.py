"""Podman and docker: their options and states and, where podman and runc work, a container for each command."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from karenina_sandbox.providers.containers import ContainerProvider, isolation_arguments, read_state
from karenina_sandbox.sandbox import CannotStart, Limits, Policy, SandboxError

PODMAN = ContainerProvider("podman")
IMAGE = "localhost/karenina-tests:1"
PROGRAMS = ("sh", "cat", "sleep", "id", "rm", "tail")


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_containers_have_no_network_no_rights_and_limits(engine: str, tmp_path: Path) -> None:
    policy = Policy(
        Limits(memory=1000, processes=7, disk=4096),
        mounts=(tmp_path,),
        sockets={"/run/model.sock": tmp_path / "s"},
        environment={"OWN": "value"},
    )
    arguments = isolation_arguments("podman" if engine == "podman" else "docker", policy, 1234)
    pairs = set(pairwise(arguments))
    assert pairs >= {
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--pull", "never"),
        ("--memory", "1000"),
        ("--memory-swap", "1000"),
        ("--pids-limit", "7"),
        ("--ulimit", "fsize=8192:8192"),
        ("--volume", f"{tmp_path}:{tmp_path}:ro"),
        ("--volume", f"{tmp_path}/s:/run/model.sock"),
        ("--env", "OWN=value"),
        ("--user", f"1234:{1234 if os.geteuid() == 0 else os.getegid()}"),
    }
    assert "--read-only" in arguments


@pytest.mark.parametrize(
    ("state", "started", "exit_code", "out_of_memory"),
    [
        ({"Status": "exited", "ExitCode": 3, "OOMKilled": False, "StartedAt": "2026-01-01T00:00Z"}, True, 3, False),
        (
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "StartedAt": "2026-01-01T00:00Z"},
            True,
            137,
            True,
        ),
        ({"Status": "created", "ExitCode": 127, "StartedAt": "0001-01-01T00:00Z"}, False, 127, False),
        ({"ExitCode": 127, "Error": "exec: not found", "StartedAt": "2026-01-01T00:00Z"}, False, 127, False),
        ({"ExitCode": 127, "Error": "", "StartedAt": "2026-01-01T00:00Z"}, True, 127, False),
    ],
)
def test_states_of_containers_are_read(
    state: dict[str, object], started: bool, exit_code: int, out_of_memory: bool
) -> None:
    read = read_state(json.dumps([{"State": state}]))
    assert (read.started, read.exit, read.out_of_memory) == (started, exit_code, out_of_memory)


def test_an_unknown_state_is_an_error() -> None:
    with pytest.raises(SandboxError, match="state of the container"):
        read_state("[]")


def test_an_engine_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ContainerProvider("docker").identity(Policy(image="python:3.12")) == "docker python:3.12"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield an image with a few programs of this machine."""
    why = PODMAN.unavailable()
    if why is not None or shutil.which("runc") is None or os.geteuid() != 0:
        pytest.skip(why or "this needs runc and root")
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(archive, "w", dereference=True) as packed:
        libraries = {
            word
            for name in PROGRAMS
            for word in subprocess.run(["ldd", f"/bin/{name}"], capture_output=True, text=True).stdout.split()
            if word.startswith("/")
        }
        for path in (*(f"/bin/{name}" for name in PROGRAMS), *libraries):
            packed.add(path, path.lstrip("/"))
    subprocess.run(["podman", "import", archive, IMAGE], check=True, capture_output=True)
    yield IMAGE
    subprocess.run(["podman", "rmi", "--force", IMAGE], check=True, capture_output=True)


@pytest.mark.release
def test_a_command_runs_in_a_container_of_its_own(image: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content\n")

    async def try_commands() -> None:
        async with PODMAN.open(tmp_path, Policy(Limits(seconds=30), image=image)) as sandbox:
            result = await sandbox.run(["sh", "-c", "cat; cat file; rm file; echo new > new; exit 3"], stdin=b"given\n")
            assert (result.exit, result.output) == (3, b"given\ncontent\n")
            assert (await sandbox.run(["sleep", "60"], seconds=0.5)).stopped_by == "time"
            with pytest.raises(CannotStart, match="nosuch"):
                await sandbox.run(["nosuch"])
            assert await sandbox.read("new", 100) == b"new\n"
            assert {entry.path: entry.kind for entry in (await sandbox.patch()).entries} == {
                "file": "deleted",
                "new": "file",
            }

    asyncio.run(try_commands())
    assert (tmp_path / "file").exists()
    listed = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    assert not listed.stdout


@pytest.mark.release
@pytest.mark.parametrize(
    ("script", "stopped_by", "exit_code"),
    [
        ("exec tail -n 1 /dev/zero", "memory", None),
        ("tail -n 1 /dev/zero; exit 0", "memory", None),
        ("sh -c 'kill -9 $$'; exit $?", None, 137),
        ("exit 3", None, 3),
    ],
)
def test_a_container_that_needs_too_much_memory_is_stopped(
    image: str, tmp_path: Path, script: str, stopped_by: str | None, exit_code: int | None
) -> None:
    async def run_it() -> None:
        async with PODMAN.open(tmp_path, Policy(Limits(seconds=30, memory=64 * 2**20), image=image)) as sandbox:
            result = await sandbox.run(["sh", "-c", script])
            assert (result.stopped_by, result.exit) == (stopped_by, exit_code)

    asyncio.run(run_it())


@pytest.mark.release
def test_an_image_that_is_not_here_is_not_downloaded(image: str, tmp_path: Path) -> None:
    async def open_it() -> None:
        async with PODMAN.open(tmp_path, Policy(image=f"{image}-missing")):
            pass

    with pytest.raises(SandboxError, match="runs do not download images; run `podman pull"):
        asyncio.run(open_it())
