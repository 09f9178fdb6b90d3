"""The `local` interface against the contract of every adapter; its calls are tried with a real model elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_testing.contracts import AdapterContract


class TestAdapter(AdapterContract):
    entry_point = "karenina_local:plugin"
    interface = "local"

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.file = tmp_path / "small.gguf"
        self.file.write_bytes(b"GGUF")

    def model(self, url: str, **fields: Any) -> ModelConfig:
        return ModelConfig(id="m", interface="local", model_name=str(self.file), **fields)
