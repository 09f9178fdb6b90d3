"""The contract of every port with a real model: the smallest one, in a llama.cpp that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_local.server import POOL, Address
from karenina_testing.contracts import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract

SERVED = {"context": 1024, "threads": 1}


@pytest.fixture(scope="module")
def served(smollm2: Path, shared_server: Callable[..., Address]) -> Path:
    """The small model, whose server runs already: tests of the server and of the ports show its start and its end."""
    shared_server(**SERVED)
    return smollm2


class Small(LiveContract):
    entry_point = "karenina_local:plugin"
    interface = "local"
    tokens = 16
    many_tokens = 120  # takes seconds; the calls before and after the cancelled one may be as long

    @pytest.fixture(autouse=True)
    def _file(self, served: Path) -> None:
        self.file = served

    def live(self, **fields: Any) -> ModelConfig:
        values = {"temperature": 0.0, "max_tokens": self.tokens, "extra": SERVED, **fields}
        return ModelConfig(id="small", interface="local", model_name=str(self.file), **values)

    def secrets(self) -> Sequence[str]:
        keys = [address.key for server, _ in POOL.held() if (address := server.address_if_running()) is not None]
        assert keys
        return keys


class TestLLM(Small, LiveLLMContract):
    pass


class TestParser(Small, LiveParserContract):
    tokens = 40


class TestAgent(Small, LiveAgentContract):
    pass
