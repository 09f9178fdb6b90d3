"""Fixtures for adapter tests. Import those that you need in your `conftest.py`:

`from karenina_testing.fixtures import anyio_backend as anyio_backend, open_port as open_port`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from karenina_testing.server import ScriptedServer


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests with asyncio, as in a real run."""
    return "asyncio"


@pytest.fixture
async def open_port() -> AsyncIterator[Callable[[Any], Any]]:
    """Yield a function that returns its argument, an adapter's port, and closes it after the test."""
    opened: list[Callable[[], Awaitable[None]]] = []

    def keep(port: Any) -> Any:
        opened.append(port.aclose)
        return port

    yield keep
    for close in opened:
        await close()


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """Run a model server on the loopback interface. Set its replies with `says` or in its `script`."""
    with ScriptedServer() as server:
        yield server
