"""Servers on loopback for the tests of the `openai` interface."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from openai_servers import Scripted
from repeated_contracts import THROUGH_AGENTS_TOO, leave_to_release

from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port

FAKE_SERVER = Path(__file__).parents[4] / "shared" / "servers" / "fake_openai.py"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as scripted:
        yield scripted


@pytest.fixture
def fake_openai() -> Iterator[Callable[..., str]]:
    """Return a function that starts the shared fake server with the given arguments, and returns its base URL."""
    if not FAKE_SERVER.exists():
        pytest.skip(f"needs {FAKE_SERVER.name} of the shared folder beside the repository")
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [sys.executable, str(FAKE_SERVER), "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        _wait_for(url)
        return url

    yield start
    for process in started:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _wait_for(url: str) -> None:
    """Wait until the fake server listens: it prints its address a moment earlier."""
    where = urlsplit(url)
    for _ in range(200):
        try:
            socket.create_connection((where.hostname or "", where.port or 0), timeout=5).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"no server at {url}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what other classes show of the same wire format."""
    here = Path(__file__).parent
    leave_to_release(
        items, here, {"TestParser", "TestParserWithoutNativeSchemas", "TestParserByPrompt", "TestStreamedParser"}
    )
    leave_to_release(items, here, {"TestAgent", "TestStreamedAgent"}, but=THROUGH_AGENTS_TOO)
