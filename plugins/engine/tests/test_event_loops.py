"""The event loop of a run: uvloop if it is installed, and the same behaviour without it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from karenina_engine.run.execution import run_blocking


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the distribution of the event loop."""
    name: str = request.param
    if name == "uvloop":
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)  # as if it were not installed
    return name


async def echo() -> str:
    """Return the output of another process, read through the event loop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print(input())", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(b"a word\n")
    return output.decode().strip()


async def own_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_a_run_uses_uvloop_if_it_is_installed(loop: str) -> None:
    assert run_blocking(own_loop) == loop


def test_subprocesses_work(loop: str) -> None:
    assert run_blocking(echo) == "a word"


@pytest.mark.anyio
async def test_subprocesses_work_inside_a_running_loop(loop: str) -> None:
    assert run_blocking(echo) == "a word"


def test_an_error_is_raised(loop: str) -> None:
    async def fail() -> None:
        raise LookupError("what went wrong")

    with pytest.raises(LookupError, match="what went wrong"):
        run_blocking(fail)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Enable Ctrl-C as in a terminal: programs that a shell starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_notebook_cancels_the_coroutine(loop: str) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
            cleaned.append("late")
        finally:
            cleaned.append("up")

    async def cell() -> None:
        run_blocking(work)

    notebook = asyncio.new_event_loop()  # unlike `asyncio.run`, a notebook leaves Ctrl-C as it is
    try:
        with pytest.raises(KeyboardInterrupt):
            notebook.run_until_complete(cell())
        assert cleaned == ["up"]
    finally:
        notebook.close()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_the_coroutine(loop: str) -> None:
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
