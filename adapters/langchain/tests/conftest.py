"""Servers on loopback for the tests of the LangChain adapter."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from langchain_servers import Scripted, serving

FAKE_SERVER = Path(__file__).parents[4] / "shared" / "servers" / "fake_openai.py"
VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_CUSTOM_HEADERS",
    "OPENROUTER_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_AUTH_TOKEN",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING_V2",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake_openai() -> Iterator[Callable[..., str]]:
    """Starts the shared fake server with the given arguments, and returns its base URL."""
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
    """The fake server prints its address a moment before it listens."""
    where = urlsplit(url)
    for _ in range(200):
        try:
            socket.create_connection((where.hostname or "", where.port or 0), timeout=5).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"no server at {url}")


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as scripted:
        yield scripted


Closer = Callable[[Any], Any]


@pytest.fixture
async def open_port() -> AsyncIterator[Closer]:
    """Hands a port through and closes it after the test."""
    opened: list[Callable[[], Awaitable[None]]] = []

    def keep(port: Any) -> Any:
        opened.append(port.aclose)
        return port

    yield keep
    for close in opened:
        await close()
