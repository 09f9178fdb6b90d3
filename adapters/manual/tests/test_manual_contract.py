"""The `manual` interface against the contract of every adapter. It calls nobody, so that of the calls is not for it."""

from __future__ import annotations

from typing import Any

from karenina_core.models import ModelConfig
from karenina_core.testing.contracts import AdapterContract


class TestAdapter(AdapterContract):
    entry_point = "karenina_manual:plugin"
    interface = "manual"

    def model(self, url: str, **fields: Any) -> ModelConfig:
        traces = {"q1": "On 17q21."}
        return ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces=traces, **fields)
