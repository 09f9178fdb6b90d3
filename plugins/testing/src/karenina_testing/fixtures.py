"""Fixtures for the tests of adapters. Name those that you want in your `conftest.py`:

`from karenina_testing.fixtures import anyio_backend as anyio_backend, open_port as open_port`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Tests that wait do so in asyncio, as runs do."""
    return "asyncio"


@pytest.fixture
async def open_port() -> AsyncIterator[Callable[[Any], Any]]:
    """Hands a port through and closes it after the test."""
    opened: list[Callable[[], Awaitable[None]]] = []

    def keep(port: Any) -> Any:
        opened.append(port.aclose)
        return port

    yield keep
    for close in opened:
        await close()
