"""Files that are sent with a message: images, documents and sound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any, Final, NamedTuple, Self

from karenina_core.text import did_you_mean

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Matches the start of a URL. A single letter is the drive of a Windows path."""
_PAGES: Final = re.compile(r"[1-9]\d{0,3}(-[1-9]\d{0,3})?(,[1-9]\d{0,3}(-[1-9]\d{0,3})?)*")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that is sent with a message. The file's contents are only read when they are sent.

    `name` is the file's name without its folder. `sha256` and `size` (in bytes) are those of the file. Like
    `media_type`, they are empty until a run has examined the file. `pages` selects pages of a document, such as
    `1-2,5`; None stands for all of it. `source` is the path of the file, as written by the user until a run has
    resolved it. It is kept apart: it is neither compared nor part of `to_dict`.
    """

    name: str
    media_type: str = ""
    sha256: str = ""
    size: int = 0
    pages: str | None = None
    source: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the attachment for a path, or for a mapping with `file` and, optionally, `pages`, without reading the
        file. An attachment is returned unchanged. Raises `ValueError` for anything else, such as a URL.
        """
        if isinstance(value, cls):
            return value
        entry = value if isinstance(value, Mapping) else {"file": value}
        path, pages = entry.get("file"), entry.get("pages")
        unknown = [key for key in entry if key not in ("file", "pages")]
        if unknown:
            raise ValueError(
                f"unknown key {unknown[0]!r:.200} in an attachment{did_you_mean(str(unknown[0]), ('file', 'pages'))}"
            )
        if not isinstance(path, str | PurePath) or not PurePath(path).name:
            raise ValueError(f"an attachment must be a path, or a mapping with `file` and `pages`, not {value!r:.200}")
        if _URL.match(str(path)):
            raise ValueError(f"{str(path)!r:.200} is a URL, but attachments are not downloaded; give a file's path")
        text = None if pages is None or isinstance(pages, bool) else str(pages).replace(" ", "")
        if pages is not None and not (text and _PAGES.fullmatch(text)):
            raise ValueError(f"pages must be numbers from 1, or ranges of them, such as 1-2,5, not {pages!r:.200}")
        return cls(PurePath(path).name, pages=text, source=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Convert the attachment to a JSON-compatible dict, without its source and empty fields."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.compare}
        return {name: value for name, value in values.items() if value}


class MediaLimit(NamedTuple):
    """What an adapter knows about attachments of a media type.

    `max_bytes` is the size of the largest file that the server accepts. `max_tokens` is the most tokens that an image,
    or a page of a document, costs. If it is None, the price of such an attachment is unknown.
    """

    max_bytes: int
    max_tokens: int | None = None


def read_attachments(value: object) -> tuple[Attachment, ...]:
    """Convert a list of attachments, or a single one, to a tuple. None stands for no attachments. Raises `ValueError`
    if one of them is not an attachment.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return tuple(map(Attachment.of, value))
    return () if value is None else (Attachment.of(value),)
