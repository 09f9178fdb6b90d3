"""Bounds on one reply from a server: bytes after decompression, seconds, nesting depth, number of values.

A reply that exceeds them fails its item and nothing else. Adapters and tool sources call `ReplyBounds.of` with their
model; the port factory sets the run's settings in the model. `karenina_toolkit.http.reply_body` applies the bounds to
bodies that an SDK reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from karenina_core.models.model import MAX_REPLY_BYTES, STREAM_TIMEOUT
from karenina_core.models.ports import ErrorCategory, PortError

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

DEEPEST: Final = 200
"""Maximum nesting of lists and objects in the JSON of a reply."""
MOST_VALUES: Final = 2_000_000
"""Maximum number of values in the JSON of a reply: an empty object of 2 bytes takes 72 in memory."""


class ReplyTooLarge(PortError):
    """Raised when a reply exceeds a bound. It is permanent, because a retry would get a similar reply."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


class BrokenReply(PortError):
    """Raised when a reply cannot be read. The call is retried, as after other server errors."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.SERVER)


@dataclass(frozen=True, slots=True)
class ReplyBounds:
    """The bounds on one model's replies: bytes after decompression, and seconds for a streamed reply."""

    max_bytes: int = MAX_REPLY_BYTES
    stream_seconds: float = STREAM_TIMEOUT

    @classmethod
    def of(cls, model: ModelConfig) -> Self:
        """Return the bounds from the model's configuration, with defaults for those that it does not set."""
        return cls(model.max_reply_bytes or MAX_REPLY_BYTES, model.stream_timeout or STREAM_TIMEOUT)

    def check_size(self, where: str, size: int) -> None:
        """Raise `ReplyTooLarge` if `size` bytes exceed the bound; `where` names the server."""
        if size > self.max_bytes:
            raise ReplyTooLarge(
                f"{where} sent a reply of more than {self.max_bytes} bytes (decompressed), which was discarded; "
                "raise max_reply_bytes to accept such replies"
            )


def read_json(raw: bytes, loads: Callable[[bytes], Any] = json.loads) -> Any:
    """Return the JSON value in `raw`, read with `loads`.

    Raises `ValueError` if it is not JSON, is nested deeper than `DEEPEST` levels, or has more than `MOST_VALUES`
    values.
    """
    if len(raw) > MOST_VALUES and count_value_marks(raw) > MOST_VALUES:
        raise ValueError(f"its JSON has more than {MOST_VALUES} values")
    try:
        value = loads(raw)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        check_depth(value)
    return value


def count_value_marks(raw: bytes) -> int:
    """Return the number of characters in `raw` that may start another JSON value: an upper bound on the values."""
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def check_depth(value: Any) -> None:
    """Raise `ValueError` if the JSON `value` is nested deeper than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    raise ValueError(f"its JSON is nested deeper than {DEEPEST} levels")


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def find_port_error(error: BaseException | None) -> PortError | None:
    """Return `error` itself or the `PortError` that an SDK wrapped in it; None if there is none."""
    seen = 0
    while error is not None and seen < 20:
        if isinstance(error, PortError):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
