"""The event loop of a run: uvloop if it is installed, and the same behaviour without it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator

import pytest

from karenina_engine.scheduling.blocking import run_blocking


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The distribution that the loop comes from."""
    name: str = request.param
    if name == "uvloop":
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)  # as if it were not installed
    return name


async def spoken() -> str:
    """What another process says, read through the loop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print(input())", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate(b"a word\n")
    return said.decode().strip()


async def own_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_a_run_takes_the_fast_loop_where_it_is_installed(loop: str) -> None:
    assert run_blocking(own_loop) == loop


def test_other_processes_are_heard(loop: str) -> None:
    assert run_blocking(spoken) == "a word"


@pytest.mark.anyio
async def test_other_processes_are_heard_where_a_loop_runs_already(loop: str) -> None:
    assert run_blocking(spoken) == "a word"


def test_an_error_comes_through(loop: str) -> None:
    async def fail() -> None:
        raise LookupError("what went wrong")

    with pytest.raises(LookupError, match="what went wrong"):
        run_blocking(fail)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal's programs have it: those that a shell starts in the background are given none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_what_runs(loop: str) -> None:
    cleaned = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("up")

    with pytest.raises(KeyboardInterrupt):
        run_blocking(work)
    assert cleaned == ["up"]
