"""The contents of attachments in requests.

Adapters build a request with a `Contents` in place of each file's contents, and call `fill` when they send it. A long
conversation then holds no contents while it waits.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import Message
from karenina_toolkit.attachments.files import read_attachment

_one_at_a_time: Final[RunVar[CapacityLimiter]] = RunVar("karenina_attachments")


@dataclass(frozen=True, slots=True)
class Contents:
    """A place in a request for the contents of an attachment in base64, after `prefix`."""

    attachment: Attachment
    prefix: str = ""


def data_url(attachment: Attachment) -> Contents:
    """Return the place for a data URL with the attachment's contents."""
    return Contents(attachment, f"data:{attachment.media_type};base64,")


def neutral_name(number: int) -> str:
    """Return the name that a PDF has in a request. The file's own name could give the answer away. `number` is the
    place of the attachment in its message, from 1.
    """
    return f"attachment-{number}.pdf"


def describe(attachment: Attachment) -> str:
    """Return a line that stands for an attachment where it cannot be sent."""
    pages = f", pages {attachment.pages}" if attachment.pages else ""
    return f"[attachment {attachment.name}, {attachment.media_type}{pages}, sha256 {attachment.sha256}]"


def has_attachments(messages: Sequence[Message]) -> bool:
    """Return whether any of the messages has an attachment."""
    return any(message.attachments for message in messages)


async def fill(request: Any, encode: Callable[[Any], Any] | None = None) -> Any:
    """Return a copy of a request in which each `Contents` is replaced by the file's contents in Base64, after its
    prefix, or what `encode` returns for this copy. Raises `PortError` if a file is missing or has changed.

    The files are read in a thread, one request at a time, because this takes several times their size in memory.
    """

    def work() -> Any:
        return _fill(request) if encode is None else encode(_fill(request))

    try:
        limiter = _one_at_a_time.get()
    except LookupError:
        limiter = CapacityLimiter(1)
        _one_at_a_time.set(limiter)
    return await to_thread.run_sync(work, limiter=limiter)


def _fill(value: Any) -> Any:
    """Return a copy of a JSON-compatible value in which each `Contents` is replaced by its prefix and the file's
    contents in Base64.
    """
    if isinstance(value, Contents):
        return value.prefix + b64encode(read_attachment(value.attachment)).decode("ascii")
    if isinstance(value, Mapping):
        return {key: _fill(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(inner) for inner in value]
    return value
