"""The speed of a local model, as measured by llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens and milliseconds, summed over `calls`.

    Cached prompt tokens are not counted. Each call is timed separately, so concurrent calls appear slower than their
    total throughput.
    """

    calls: int = 0
    read_tokens: int = 0
    read_ms: float = 0.0
    written_tokens: int = 0
    written_ms: float = 0.0

    @property
    def read_per_second(self) -> float | None:
        """Prompt tokens per second, or None if none were read."""
        return 1000 * self.read_tokens / self.read_ms if self.read_ms > 0 else None

    @property
    def written_per_second(self) -> float | None:
        """Reply tokens per second, or None if none were written."""
        return 1000 * self.written_tokens / self.written_ms if self.written_ms > 0 else None

    def __add__(self, other: Speed) -> Speed:
        return Speed(
            self.calls + other.calls,
            self.read_tokens + other.read_tokens,
            self.read_ms + other.read_ms,
            self.written_tokens + other.written_tokens,
            self.written_ms + other.written_ms,
        )

    def __sub__(self, other: Speed) -> Speed:
        """Return the speed over the calls since `other`, an earlier state of the same sum."""
        return Speed(
            self.calls - other.calls,
            self.read_tokens - other.read_tokens,
            self.read_ms - other.read_ms,
            self.written_tokens - other.written_tokens,
            self.written_ms - other.written_ms,
        )

    def __str__(self) -> str:
        return (
            f"{_rate(self.read_per_second)} tokens/s read, {_rate(self.written_per_second)} tokens/s written "
            f"({self.calls} {'call' if self.calls == 1 else 'calls'}, {self.read_tokens} and "
            f"{self.written_tokens} tokens)"
        )


def speed_of(reply: Mapping[str, Any]) -> Speed:
    """Return the speed of one call from `timings` in llama.cpp's reply; without `timings`, one call with no tokens."""
    timings = reply.get("timings")
    if not isinstance(timings, Mapping):
        return Speed(calls=1)

    def number(key: str) -> float:
        value = timings.get(key)
        return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0

    return Speed(1, int(number("prompt_n")), number("prompt_ms"), int(number("predicted_n")), number("predicted_ms"))


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
