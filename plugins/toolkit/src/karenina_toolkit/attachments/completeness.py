"""What can be told about a file from its bytes: whether its end is missing, and whether a PDF is encrypted."""

from __future__ import annotations

from typing import Final

_NEAR_END: Final = 66_000
_ENDS: Final = {"image/png": b"IEND", "image/jpeg": b"\xff\xd9", "application/pdf": b"%%EOF"}
"""What is near the end of a whole file, by media type."""


def find_flaw(media_type: str, data: bytes) -> str | None:
    """Return what is probably wrong with a file, or None."""
    end = _ENDS.get(media_type)
    if end is not None and end not in data[-_NEAR_END:]:
        return "has no end, so it is probably cut off"
    if media_type == "application/pdf" and b"/Encrypt" in data:
        return "is encrypted, which services refuse"
    return None
