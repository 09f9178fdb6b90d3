"""Tokens a second: as llama.cpp measured them, added up over calls."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message
from karenina_local.ports import LocalLLM, Speed, speed_of

TIMINGS = {"cache_n": 18, "prompt_n": 148, "prompt_ms": 1480.0, "predicted_n": 27, "predicted_ms": 900.0}


def test_the_timings_of_a_reply_are_read() -> None:
    speed = speed_of({"timings": TIMINGS})
    assert speed == Speed(1, 148, 1480.0, 27, 900.0)
    assert (speed.read_per_second, speed.written_per_second) == (100.0, 30.0)
    assert str(speed) == "100 tokens/s read, 30 tokens/s written (1 call, 148 and 27 tokens)"


@pytest.mark.parametrize("reply", [{}, {"timings": None}, {"timings": {"prompt_n": "many", "predicted_ms": -1}}])
def test_a_reply_without_timings_has_no_speed(reply: dict[str, Any]) -> None:
    speed = speed_of(reply)
    assert speed == Speed(calls=1)
    assert (speed.read_per_second, speed.written_per_second) == (None, None)
    assert str(speed).startswith("- tokens/s read, - tokens/s written")


def test_calls_are_weighed_by_their_tokens() -> None:
    both = Speed(1, 10, 100.0, 30, 1000.0) + Speed(1, 0, 0.0, 10, 1000.0)
    assert both == Speed(2, 10, 100.0, 40, 2000.0)
    assert (both.read_per_second, both.written_per_second) == (100.0, 20.0)
    assert both - Speed(1, 0, 0.0, 10, 1000.0) == Speed(1, 10, 100.0, 30, 1000.0)


def test_the_speed_is_logged_when_the_port_is_closed(smollm2: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "karenina")

    async def run() -> Speed:
        short: dict[str, Any] = {"max_tokens": 4, "temperature": 0.0, "extra": {"context": 512}}
        port = LocalLLM(ModelConfig(id="small", interface="local", model_name=str(smollm2), **short))
        try:
            await port.invoke([Message.user("Count to ten.")])
            return port.speed
        finally:
            await port.aclose()

    speed = asyncio.run(run())
    assert (speed.calls, speed.written_tokens) == (1, 4)
    (logged,) = [record.getMessage() for record in caplog.records if "tokens/s" in record.getMessage()]
    assert logged == f"model 'small' (local:{smollm2}): {speed}"
