"""Failing calls with something confidential in them, for the tests of adapters."""

from __future__ import annotations

import pytest

from karenina_core.models.adapters import AdapterConfigError, AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import LLMPort, Message, PortError

PROMPT = "Tell me everything about the confidential compound KX-4711, which nobody may know about."
ASK = [Message.user(PROMPT)]
KEY = "sk-very-secret-key-000"


async def fails(port: LLMPort) -> PortError:
    """Return the error of a call."""
    with pytest.raises(PortError) as caught:
        await port.invoke(ASK)
    return caught.value


def assert_refused(spec: AdapterSpec, model: ModelConfig, problem: str) -> None:
    """Assert that an adapter refuses the model `m` before a run, and does not show its `pw-secret`."""
    assert spec.check is not None
    with pytest.raises(AdapterConfigError, match="model 'm'") as caught:
        spec.check(model)
    assert problem in str(caught.value)
    assert "pw-secret" not in str(caught.value)
