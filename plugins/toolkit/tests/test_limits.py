"""`call_limited`: its limits, its processes and what they inherit. Functions of the standard library are called."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from karenina_toolkit.limits import ChildError, LimitReached, call_limited

SECONDS = 120.0
HUGE_POWER = (7, 10**9)
"""Arguments of `pow` that need a single call of C code, which takes hours."""


def test_a_function_is_called_in_another_process() -> None:
    assert call_limited("operator:add", 2, 3, seconds=SECONDS) == 5
    assert call_limited("os:getpid", seconds=SECONDS) != os.getpid()


def test_a_long_call_of_c_code_ends_at_the_limit() -> None:
    started = time.monotonic()
    with pytest.raises(LimitReached, match=r"takes more than 0\.5 seconds"):
        call_limited("operator:pow", *HUGE_POWER, seconds=0.5)
    assert time.monotonic() - started < SECONDS
    assert call_limited("operator:add", 20, 30, seconds=SECONDS) == 50


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(
        ["unshare", "--net", *(["--user"] if os.geteuid() else []), "true"], capture_output=True
    ).returncode,
    reason="the system lets no process leave its network",
)
def test_a_process_has_a_network_without_devices() -> None:
    lines = str(call_limited("linecache:getlines", "/proc/self/net/dev", seconds=SECONDS))

    assert "lo:" in lines
    assert lines.count(":") == 1, lines


def test_a_limit_is_reached_once_for_equal_calls() -> None:
    for _ in range(2):
        with pytest.raises(LimitReached):
            call_limited("time:sleep", 1.5, seconds=1)
    started = time.monotonic()
    with pytest.raises(LimitReached):
        call_limited("time:sleep", 1.5, seconds=1)
    assert time.monotonic() - started < 0.9


def test_memory_is_limited() -> None:
    with pytest.raises(LimitReached, match="1 GB of memory"):
        call_limited("operator:mul", "x" * 1_000, 2_000_000, seconds=SECONDS)
    assert call_limited("operator:add", 200, 300, seconds=SECONDS) == 500


def test_a_process_that_crashes_is_replaced() -> None:
    with pytest.raises(LimitReached, match="crashed its process"):
        call_limited("os:abort", seconds=SECONDS)
    assert call_limited("operator:add", 2_000, 3_000, seconds=SECONDS) == 5_000


def test_equal_calls_run_once() -> None:
    first = call_limited("time:time_ns", seconds=SECONDS)
    assert call_limited("time:time_ns", seconds=SECONDS) == first


def test_processes_are_reused_and_no_more_than_cores() -> None:
    def process_of(number: int) -> object:
        call_limited("time:sleep", number / 1_000, seconds=SECONDS)
        return call_limited("os:getsid", 0, seconds=SECONDS + number)  # a process leads its session

    with ThreadPoolExecutor(12) as threads:
        seen = set(threads.map(process_of, range(40)))
    assert len(seen) <= len(os.sched_getaffinity(0))


def test_an_error_of_the_function_is_not_a_limit() -> None:
    with pytest.raises(ChildError, match="operator:truediv failed: ZeroDivisionError"):
        call_limited("operator:truediv", 1, 0, seconds=SECONDS)
    with pytest.raises(ChildError, match="no_such_module:compare cannot be imported"):
        call_limited("no_such_module:compare", seconds=SECONDS)


def test_a_result_must_be_json() -> None:
    with pytest.raises(ChildError, match="not JSON serializable"):
        call_limited("builtins:object", seconds=SECONDS)


def test_secrets_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hush")
    assert call_limited("os:getenv", "SECRET_KEY", seconds=SECONDS) is None


def test_no_connection_can_be_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = list(server.getsockname())
        with pytest.raises(ChildError, match=r"PermissionError: socket\..* is forbidden"):
            call_limited("socket:create_connection", place, seconds=SECONDS)


def test_no_program_can_be_started(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(ChildError, match="PermissionError"):
        call_limited("subprocess:call", ["touch", str(made)], seconds=SECONDS)
    with pytest.raises(ChildError, match="PermissionError"):
        call_limited("os:system", f"touch {made}", seconds=SECONDS)
    assert not made.exists()


@pytest.mark.forks
def test_a_fork_has_processes_of_its_own() -> None:
    mine = call_limited("os:getpgid", 0, seconds=SECONDS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            is_other = call_limited("os:getpgid", 0, seconds=SECONDS + 1) != mine
            code = 0 if is_other else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert call_limited("operator:add", 2.5, 3.5, seconds=SECONDS) == 6


PARENT = """
import sys, threading, time
from karenina_toolkit.limits import call_limited
print(call_limited("os:getpid", seconds=120), flush=True)
if sys.argv[1] == "busy":
    threading.Thread(target=call_limited, args=("operator:pow", 7, 10**9), kwargs={"seconds": 1}, daemon=True).start()
    time.sleep(0.3)
print("now", flush=True)
time.sleep(1_000)
"""


@pytest.fixture(params=["idle", "busy"])
def killed_parent(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the id of a child process whose parent was killed."""
    command = [sys.executable, "-c", PARENT, request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "now\n"
        parent.send_signal(signal.SIGKILL)
        yield child


def test_no_process_outlives_a_killed_parent(killed_parent: int) -> None:
    deadline = time.monotonic() + 60
    while _is_alive(killed_parent) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(killed_parent)


def test_processes_end_with_a_parent_that_ends() -> None:
    code = 'from karenina_toolkit.limits import call_limited\nprint(call_limited("os:getpid", seconds=120))'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not _is_alive(int(done.stdout))


def test_many_threads_share_the_processes() -> None:
    sums: dict[int, object] = {}

    def add(number: int) -> None:
        sums[number] = call_limited("operator:add", number, number, seconds=SECONDS)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(100, 130)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {number: 2 * number for number in range(100, 130)}


def _is_alive(process: int) -> bool:
    """Return whether a process runs. One that has ended, but was not waited for, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
