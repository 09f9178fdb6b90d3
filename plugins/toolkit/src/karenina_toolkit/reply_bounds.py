"""Bounds on what a server may send in one reply: bytes after unpacking, seconds, nesting, numbers.

A reply that is outside of them costs its item an error and nothing else. Adapters and tool sources read
`ReplyBounds.of` the model that they are given; the port factory fills the run's settings in.
`karenina_toolkit.reply_body` applies the bounds to the bodies that an SDK reads.
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
"""Lists and objects inside of each other that the JSON of a reply may hold."""
MOST_VALUES: Final = 2_000_000
"""Values that the JSON of a reply may hold: an empty object of 2 bytes takes 72 in memory."""


class ReplyTooLarge(PortError):
    """A reply that exceeds a bound. The same call would bring the like again, so it is not repeated."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


class BrokenReply(PortError):
    """A reply that cannot be read. The call is repeated as after other errors of the server."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.SERVER)


@dataclass(frozen=True, slots=True)
class ReplyBounds:
    """The bounds of one model's replies: bytes after unpacking, and seconds of a reply that is streamed."""

    max_bytes: int = MAX_REPLY_BYTES
    stream_seconds: float = STREAM_TIMEOUT

    @classmethod
    def of(cls, model: ModelConfig) -> Self:
        """Return the bounds that the model's configuration sets, with the defaults for those that it does not."""
        return cls(model.max_reply_bytes or MAX_REPLY_BYTES, model.stream_timeout or STREAM_TIMEOUT)

    def check_size(self, where: str, size: int) -> None:
        """Raise `ReplyTooLarge` if `size` bytes are more than a reply may have; `where` names the server."""
        if size > self.max_bytes:
            raise ReplyTooLarge(
                f"{where} sent a reply of more than {self.max_bytes} bytes (after unpacking), which was cut off; "
                "raise max_reply_bytes if such replies are wanted"
            )


def read_json(raw: bytes, loads: Callable[[bytes], Any] = json.loads) -> Any:
    """Return the JSON value that `raw` holds, read with `loads`.

    Raises `ValueError` if it is not JSON, nested deeper than `DEEPEST` levels, or of more than `MOST_VALUES` values.
    """
    if len(raw) > MOST_VALUES and count_value_marks(raw) > MOST_VALUES:
        raise ValueError(f"its JSON holds more than {MOST_VALUES} values")
    try:
        value = loads(raw)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        check_depth(value)
    return value


def count_value_marks(raw: bytes) -> int:
    """Return the number of characters in `raw` that may begin another JSON value: an upper bound of the values."""
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
    """Return the `PortError` that an SDK wrapped in errors of its own, if there is one."""
    seen = 0
    while error is not None and seen < 20:
        if isinstance(error, PortError):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
