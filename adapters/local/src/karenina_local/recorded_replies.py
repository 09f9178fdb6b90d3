"""Recorded server replies from a file."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_openai.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message
    from karenina_openai.client import Watch


def digest_request(wire: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> str:
    """Return the key of a request in a file of replies, which is a digest of its messages and fields."""
    text = json.dumps([wire, fields], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


@cache
def load_replies(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the recorded replies in a file, each under the digest of its request. Raises `AdapterConfigError` if the
    file is invalid.
    """
    try:
        replies: dict[str, Mapping[str, Any]] = {**json.loads(file.read_text("utf-8"))["replies"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdapterConfigError(f"extra.replies: {file} is not a file of recorded replies ({error})") from error
    return replies


class RecordedClient(Client):
    """A client that returns recorded replies and opens no connections."""

    def __init__(self, model: ModelConfig, file: Path, *, watch: Watch | None = None) -> None:
        super().__init__(model, watch=watch)
        self._file = file
        self._replies = load_replies(file)

    async def post(self, messages: Sequence[Message], wire: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Return the recorded reply to a request with these messages and fields. Raises a permanent `PortError` if
        there is none.
        """
        reply = self._replies.get(digest_request(wire, fields))
        if reply is None:
            raise PortError(
                f"{self._file} has no reply to this prompt, because the replies were recorded with other questions or "
                "instructions; record the replies again",
                category=ErrorCategory.PERMANENT,
            )
        return dict(reply)
