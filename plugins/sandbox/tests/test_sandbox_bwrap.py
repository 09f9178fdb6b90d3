"""Commands in bubblewrap's sandbox: results, what they see, and what is left when the run is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from karenina_sandbox.limits.cgroups import find_cgroups
from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.providers.mounts import python_paths
from karenina_sandbox.sandbox import CannotStart, CommandResult, Limits, Policy, SandboxError

PROVIDER = BwrapProvider()
WHY = PROVIDER.unavailable()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def run(folder: Path, *argv: str, policy: Policy | None = None, stdin: bytes = b"", cwd: str = ".") -> CommandResult:
    """Run a command in a sandbox of its own."""

    async def run_one() -> CommandResult:
        async with PROVIDER.open(folder, policy or Policy()) as sandbox:
            return await sandbox.run(argv, stdin=stdin, cwd=cwd)

    return asyncio.run(run_one())


def find_commands(text: str) -> list[int]:
    """Return the processes whose command line contains a text, except this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def find_sleeping(seconds: str) -> list[int]:
    """Return the processes `sleep` with this argument."""
    return [pid for pid in find_commands(seconds) if find_name(pid) == "sleep"]


def find_name(pid: int) -> str:
    """Return the name of a process, or an empty text if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -SEGV $$", 139), ("kill -KILL $$", 137), ("nosuch", 127)],
)
def test_the_exit_code_is_that_of_the_command(tmp_path: Path, script: str, exit_code: int) -> None:
    result = run(tmp_path, "sh", "-c", script)
    assert (result.exit, result.stopped_by) == (exit_code, None)


def test_why_a_file_of_the_workspace_cannot_be_started_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    reasons = {"./run.sh": "not executable; run chmod", "./new.sh": "no file './new.sh'", "./folder": "is not a file"}
    for name, reason in reasons.items():
        with pytest.raises(CannotStart, match=reason):
            run(tmp_path, name)
    (tmp_path / "run.sh").chmod(0o755)
    assert run(tmp_path, "./run.sh").output == b"ran\n"


def test_input_and_output_are_passed_in_bounds(tmp_path: Path) -> None:
    policy = Policy(Limits(output=1000))
    result = run(tmp_path, "sh", "-c", "cat; echo bad >&2", stdin=b"x" * 5000, policy=policy)
    assert (result.output, result.output_cut) == (b"x" * 1000, True)
    assert (result.error_output, result.error_cut) == (b"bad\n", False)


def test_a_missing_program_is_explained_with_its_place_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tools" / "only-here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    with pytest.raises(CannotStart, match=f"outside it is {program}: add {program.parent} to sandbox_mounts"):
        run(tmp_path / "work", "only-here")
    assert run(tmp_path / "work", "only-here", policy=Policy(mounts=(program.parent,))).output == b"found\n"


def test_python_is_the_interpreter_with_its_packages(tmp_path: Path) -> None:
    script = "import pytest, sys; print(sys.prefix)"
    result = run(tmp_path, "python", "-c", script, policy=Policy(python=Path(sys.executable)))
    assert result.output.decode().strip() == sys.prefix


def test_an_interpreter_in_the_home_folder_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", f"{sys.prefix}/home")
    python_paths.cache_clear()
    if not Path(sys.prefix).is_relative_to("/usr"):
        with pytest.raises(SandboxError, match="contains your home folder"):
            python_paths(Path(sys.executable))


def test_commands_share_files_of_the_workspace_only(tmp_path: Path) -> None:
    async def run_two() -> bytes:
        async with PROVIDER.open(tmp_path, Policy()) as sandbox:
            await sandbox.run(["sh", "-c", "echo kept > file; echo gone > /tmp/file; echo gone > ~/file"])
            result = await sandbox.run(["sh", "-c", "cat file /tmp/file ~/file"])
            return result.output

    assert asyncio.run(run_two()) == b"kept\n"
    assert not list(tmp_path.iterdir())


def test_a_command_in_place_changes_the_folder_itself(tmp_path: Path) -> None:
    async def change() -> None:
        async with PROVIDER.open(tmp_path, Policy(), in_place=True) as sandbox:
            await sandbox.run(["sh", "-c", "echo new > file"])
            assert not await sandbox.patch()

    asyncio.run(change())
    assert (tmp_path / "file").read_text() == "new\n"


def talk_to_wrapped(
    said: str, folder: Path | None, policy: Policy, *, network: bool = False, provider: BwrapProvider = PROVIDER
) -> list[str]:
    """Return the lines that a shell prints, which stays open in a sandbox."""

    async def talk() -> str:
        async with provider.wrap(["sh"], folder, policy, network=network) as (command, environment):
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdin=pipe, stdout=pipe)
            return (await process.communicate(said.encode()))[0].decode()

    return asyncio.run(talk()).splitlines()


def test_a_wrapped_program_stays_open_and_sees_its_own_environment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    said = "pwd; env; cat /proc/*/environ | tr '\\0' '\\n'; echo x > new; ls /\n"
    shown = talk_to_wrapped(said, tmp_path, Policy(environment={"OWN": "value"}))
    assert shown[0] == str(tmp_path)
    assert "OWN=value" in shown
    assert not [line for line in shown if "secret" in line]
    assert (tmp_path / "new").read_text() == "x\n"


def test_a_wrapped_program_without_a_workspace_works_in_an_empty_folder() -> None:
    assert talk_to_wrapped("ls -A; touch new && echo written", None, Policy()) == ["written"]


@pytest.mark.parametrize("network", [False, True])
def test_a_wrapped_program_has_the_network_only_if_asked(network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        policy = Policy(python=Path(sys.executable))
        said = f'{sys.executable} -c "{script}" 2>/dev/null && echo connected'
        assert talk_to_wrapped(said, None, policy, network=network) == ["connected"] * network


def test_a_wrapped_program_gives_its_user_id_back() -> None:
    assert talk_to_wrapped("id -u", None, Policy()) == talk_to_wrapped("id -u", None, Policy())


@pytest.mark.parametrize("provider", [PROVIDER, BwrapProvider(limited_by="usage")], ids=["cgroups", "resources"])
def test_a_wrapped_program_cannot_start_too_many_processes(provider: BwrapProvider) -> None:
    said = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & echo $i; done; echo all\n"
    shown = talk_to_wrapped(said, None, Policy(Limits(processes=8)), provider=provider)
    assert 2 < len(shown) < 9


@pytest.mark.skipif(find_cgroups() is None, reason="only control groups limit the memory of wrapped programs")
@pytest.mark.parametrize(("megabytes", "ends"), [(1, True), (200, False)])
def test_a_wrapped_program_that_uses_too_much_memory_is_killed(megabytes: int, ends: bool) -> None:
    policy = Policy(Limits(memory=64 * 2**20), python=Path(sys.executable))
    said = f"{sys.executable} -c 'print(len({megabytes} * 2**20 * b\"x\"))'; echo ended with $?\n"
    assert (talk_to_wrapped(said, None, policy)[-1:] == ["ended with 0"]) is ends
    assert find_cgroups_of_this_process() == []


def find_cgroups_of_this_process() -> list[Path]:
    cgroups = find_cgroups()
    folders = () if cgroups is None else cgroups.folders
    return [group for folder in folders for group in folder.glob(f"karenina-{os.getpid()}-*")]


def test_a_program_with_the_network_finds_names_as_the_host_does() -> None:
    files = [file for file in ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf") if Path(file).exists()]
    shown = talk_to_wrapped(f"cat {' '.join(files)}", None, Policy(), network=True)
    assert shown == [line for file in files for line in Path(file).read_text().splitlines()]


def test_programs_in_the_same_workspace_can_all_write_there(tmp_path: Path) -> None:
    async def write(name: str) -> int | None:
        async with PROVIDER.wrap(["touch", name], tmp_path, Policy()) as (command, environment):
            await asyncio.sleep(0.2)  # until the other one has its user id, too
            process = await asyncio.create_subprocess_exec(*command, env=environment)
            return await process.wait()

    async def write_both() -> list[int | None]:
        return list(await asyncio.gather(write("one"), write("other")))

    assert asyncio.run(write_both()) == [0, 0]


def install(folder: Path, name: str, content: str) -> Path:
    """Write a program into the `bin` of an installation, and return its path."""
    program = folder / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    (folder / "lib").mkdir(exist_ok=True)
    program.write_text(content)
    program.chmod(0o755)
    return program


def test_what_a_program_needs_outside_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    node = install(tmp_path / "home/node", "node-here", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(node.parent), prepend=os.pathsep)
    server = install(tmp_path / "home/tools", "server", "#!/usr/bin/env node-here\n")
    data = tmp_path / "home/data.db"
    data.touch()
    link = tmp_path / "link"
    link.symlink_to(server)
    problem = PROVIDER.problem_of([str(link), "/usr", f"--db={data}", "--name=/nowhere"], Policy())
    assert problem == (
        f"the sandbox does not contain {link}, {server}, {node}, {data}, which {link} needs; "
        f"add {link}, {tmp_path}/home/tools, {tmp_path}/home/node, {data} to sandbox_mounts"
    )
    mounts = (link, server.parent.parent, node.parent.parent, data)
    assert PROVIDER.problem_of([str(link), f"--db={data}"], Policy(mounts=mounts)) is None


def test_programs_of_the_system_and_the_interpreter_are_found() -> None:
    for command in (["/bin/sh", "-c", "/dev/null"], [sys.executable, "-m", "pytest", "/tmp"]):
        assert PROVIDER.problem_of(command, Policy(python=Path(sys.executable))) is None


def test_a_socket_of_the_policy_can_be_reached(tmp_path: Path) -> None:
    place = tmp_path / "proxy.sock"
    (tmp_path / "work").mkdir()
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/model.sock'); print(s.recv(9).decode())"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        answering = threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True)
        answering.start()
        policy = Policy(python=Path(sys.executable), sockets={"/run/model.sock": place})
        assert run(tmp_path / "work", "python", "-c", script, policy=policy).output == b"hello\n"


def test_a_cancelled_command_leaves_no_process(tmp_path: Path) -> None:
    async def cancel() -> None:
        async with PROVIDER.open(tmp_path, Policy()) as sandbox:
            running = asyncio.ensure_future(sandbox.run(["sleep", "86401.25"]))
            await asyncio.to_thread(wait_until, lambda: find_sleeping("86401.25"))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not find_commands("86401.25")

    asyncio.run(cancel())


def test_a_sandbox_that_is_killed_is_an_error(tmp_path: Path) -> None:
    async def kill() -> None:
        async with PROVIDER.open(tmp_path, Policy()) as sandbox:
            running = asyncio.ensure_future(sandbox.run(["sleep", "86402.25"]))
            await asyncio.to_thread(wait_until, lambda: find_sleeping("86402.25"))
            first = parent_of(find_sleeping("86402.25")[0])
            os.kill(parent_of(first), signal.SIGKILL)
            with pytest.raises(SandboxError, match="died"):
                await running

    asyncio.run(kill())


KILLED = """
import asyncio, sys
from pathlib import Path
from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.sandbox import Policy

async def main():
    provider, folder = BwrapProvider(), Path(sys.argv[1])
    async with provider.open(folder, Policy()) as sandbox, provider.wrap(
        ["sleep", "86403.25"], folder, Policy()
    ) as (command, environment):
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        await sandbox.run(["sh", "-c", "mkdir -p deep/er; chmod 0 deep; sleep 86403.25 & sleep 86403.25"])

asyncio.run(main())
"""


def test_a_killed_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen([sys.executable, "-c", KILLED, work], env=environment) as process:
        wait_until(lambda: len(find_sleeping("86403.25")) == 3)
        process.kill()
    wait_until(lambda: not find_commands("86403.25"))
    assert str(scratch) not in Path("/proc/self/mountinfo").read_text()
    assert len(list(scratch.iterdir())) == 1
    script = KILLED.replace("86403.25", "0")
    subprocess.run([sys.executable, "-c", script, work], env=environment, check=True)
    assert not list(scratch.iterdir())
    cgroups = find_cgroups()
    if cgroups is not None:
        assert not [group for folder in cgroups.folders for group in folder.glob(f"karenina-{process.pid}-*")]


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="cannot be opened"):
        run(tmp_path / "missing", "true")
    with pytest.raises(SandboxError, match=r"sandbox_mounts contains .+, which does not exist"):
        run(tmp_path, "true", policy=Policy(mounts=(tmp_path / "missing",)))


@pytest.mark.parametrize("path", ["/", "/proc", "/home", "/tmp/../etc"])
def test_a_mount_that_hides_a_part_of_the_sandbox_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(SandboxError, match=r"sandbox_mounts contains .+, which would hide"):
        run(tmp_path, "true", policy=Policy(mounts=(Path(path),)))


@pytest.mark.parametrize("argv", [[], [""], ["a\0b"], ["echo", "\ud800"], ["echo", "x" * 200_000], ["echo"] * 5000])
def test_commands_that_no_program_can_get_are_refused(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(CannotStart):
        run(tmp_path, *argv)


@pytest.mark.parametrize("name", ["a:b", "a,b=c", "back\\slash", "sp ace\nline", "\udcff", "-rf", "link"])
def test_a_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    if name == "link":
        (tmp_path / "target").mkdir()
        folder.symlink_to("target")
    else:
        folder.mkdir()
    (folder / "file").write_text("content")
    assert run(folder, "cat", "file").output == b"content"


def test_sandboxes_at_the_same_time_do_not_share_limits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    policy = Policy(Limits(processes=20))
    provider = BwrapProvider(limited_by="usage")
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5 & done; wait"

    async def run_three() -> list[CommandResult]:
        async def run_one() -> CommandResult:
            async with provider.open(tmp_path, policy) as sandbox:
                return await sandbox.run(["sh", "-c", script])

        return list(await asyncio.gather(run_one(), run_one(), run_one()))

    assert [(result.exit, result.stopped_by) for result in asyncio.run(run_three())] == [(0, None)] * 3
