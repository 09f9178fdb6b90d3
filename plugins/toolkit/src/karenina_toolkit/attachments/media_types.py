"""The media types of files, by their first bytes. Nothing is decoded.

Only seven types can be sent, so seven signatures are enough. A file that could also be read as another type is refused:
one program would show a picture where another one opens an archive.
"""

from __future__ import annotations

import re
from typing import Final

SUFFIXES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
}
"""The media types that can be sent, by suffix."""

MEDIA_TYPES: Final = tuple(dict.fromkeys(SUFFIXES.values()))
"""The media types that can be sent."""

IMAGES: Final = tuple(name for name in MEDIA_TYPES if name.startswith("image/"))
"""The media types of images that can be sent."""

MAX_FILE: Final = 20_000_000
"""The maximum size of an attachment, in bytes."""
MAX_MESSAGE: Final = 50_000_000
"""The maximum size of all attachments of a message, in bytes."""

HEAD: Final = 1024
"""The number of bytes at the start of a file that `find_media_type` needs."""
TAIL: Final = 66_000
"""The number of bytes at the end of a file that `find_archive` needs. A ZIP file's comment has up to 65,535 bytes."""
OVERLAP: Final = 8
"""The number of bytes that two pieces of a file must share, so that no signature of an archive is missed."""

_ZIP_END: Final = b"PK\x05\x06"
_ZIP64_LOCATOR: Final = b"PK\x06\x07"
"""Begins the 20 bytes before the end of an archive whose sizes do not fit into 32 bits."""
_ARCHIVES: Final = re.compile(rb"Rar!\x1a\x07|7z\xbc\xaf\x27\x1c")
"""Matches signatures that are long enough not to appear by chance in 20 MB."""
_MARKUP: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:svg|\?xml|!doctype|html)", re.IGNORECASE)


def find_media_type(head: bytes) -> str | None:
    """Return the media type of a file that begins with `head`, or None if the type is not supported. Raises
    `ValueError` if the file may also be a PDF, because PDF readers accept the signature anywhere in the first 1024
    bytes.
    """
    found = _by_signature(head)
    if found not in (None, "application/pdf") and b"%PDF-" in head[:HEAD]:
        raise ValueError(f"the file can be read both as {found} and as application/pdf")
    return found


def find_archive(piece: bytes) -> bool:
    """Return whether a piece of a file contains the signature of a RAR or 7z archive."""
    return _ARCHIVES.search(piece) is not None


def ends_in_zip(tail: bytes, size: int) -> bool:
    """Return whether a file that ends in `tail` and has `size` bytes can be opened as a ZIP archive."""
    end = tail.rfind(_ZIP_END)
    if end < 0 or len(tail) - end < 22:
        return False
    if end >= 20 and tail.startswith(_ZIP64_LOCATOR, end - 20):
        return True
    listed = int.from_bytes(tail[end + 12 : end + 16], "little")  # by chance, this is larger than the file
    return listed <= size - (len(tail) - end)


def is_markup(head: bytes) -> bool:
    """Return whether a file that begins with `head` is SVG, XML or HTML."""
    return _MARKUP.match(head) is not None


def _by_signature(head: bytes) -> str | None:
    """Return the media type of a file whose first bytes are `head`, or None if their signature is unknown."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    if head[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12])
    if head.startswith(b"ID3") or _is_mpeg_audio(head):
        return "audio/mpeg"
    return None


def _is_mpeg_audio(head: bytes) -> bool:
    """Return whether a file begins with the header of a frame of MPEG audio, layer III."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer, rate, frequency = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer == 1 and rate not in (0, 15) and frequency != 3
