"""Failing calls with something confidential in them, for the tests of adapters."""

from __future__ import annotations

import pytest

from karenina_core.models.ports import LLMPort, Message, PortError

PROMPT = "Tell me everything about the confidential compound KX-4711, which nobody may know about."
ASK = [Message.user(PROMPT)]
KEY = "sk-very-secret-key-000"


async def fails(port: LLMPort) -> PortError:
    """Return the error of a call."""
    with pytest.raises(PortError) as caught:
        await port.invoke(ASK)
    return caught.value
