"""The contract of every port with a real model: the smallest one, in a llama.cpp that each test starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_local.server import POOL
from karenina_testing.contracts import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract


class Small(LiveContract):
    entry_point = "karenina_local:plugin"
    interface = "local"
    tokens = 16

    @pytest.fixture(autouse=True)
    def _file(self, smollm2: Path) -> None:
        self.file = smollm2

    def live(self, **fields: Any) -> ModelConfig:
        values = {"temperature": 0.0, "max_tokens": self.tokens, "extra": {"context": 1024}, **fields}
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
