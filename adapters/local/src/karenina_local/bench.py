"""Benchmark of a model's speed on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message
from karenina_local.ports import LocalLLM

if TYPE_CHECKING:
    from karenina_local.speed import Speed

PROMPT: Final = "Count the words of this list, and then write them down in the order of the alphabet: " + ", ".join(
    f"{first}{second}" for first in ("stone", "river", "cloud", "field") for second in ("bird", "house", "road", "song")
)


async def bench(model_name: str, *, calls: int = 3, tokens: int = 64, extra: dict[str, Any] | None = None) -> Speed:
    """Return the speed of `calls` sequential replies of at most `tokens` tokens. Raises `PortError`.

    A first reply warms up and does not count. Each call has a different prompt of some 80 tokens, so that it is not in
    the cache of a slot.
    """
    model = ModelConfig(
        id="bench",
        interface="local",
        model_name=model_name,
        temperature=0.0,
        max_tokens=tokens,
        request_timeout=600.0,
        extra={"slots": 1, "context": 2048, **(extra or {})},
    )
    port = LocalLLM(model)
    try:
        await port.invoke([Message.user("Say yes.")])
        warm = port.speed
        for number in range(calls):
            await port.invoke([Message.user(f"{number + 1}. {PROMPT}")])
        return port.speed - warm
    finally:
        await port.aclose()
