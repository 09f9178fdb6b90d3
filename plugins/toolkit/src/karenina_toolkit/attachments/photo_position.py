"""Finding the GPS position of a photo in its Exif data, without decoding the image."""

from __future__ import annotations

import struct
from typing import Final

_GPS: Final = 0x8825
"""The Exif tag that points to the GPS data."""
_LATITUDE: Final = 2
_MOST_ENTRIES: Final = 1000


def has_position(data: bytes) -> bool:
    """Return whether a JPEG, PNG or WebP image states where it was taken. `data` is the image, or its start. Other
    types, and damaged Exif data, count as having no position.
    """
    exif = _find_exif(data)
    try:
        return exif is not None and _has_latitude(exif)
    except struct.error:
        return False


def _find_exif(data: bytes) -> bytes | None:
    """Return the content of a JPEG, PNG or WebP file from the TIFF header of its Exif data on. Without Exif data,
    returns None.
    """
    if data.startswith(b"\xff\xd8"):
        at = data.find(b"Exif\0\0")
        return data[at + 6 :] if at >= 0 else None
    if data.startswith(b"\x89PNG"):
        at = data.find(b"eXIf")
        return data[at + 4 :] if at >= 0 else None
    if data[8:12] == b"WEBP":
        at = data.find(b"EXIF")
        return data[at + 8 :].removeprefix(b"Exif\0\0") if at >= 0 else None
    return None


def _has_latitude(exif: bytes) -> bool:
    """Return whether Exif data contains a latitude. Raises `struct.error` if it is cut off."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return False
    (first,) = struct.unpack_from(f"{order}I", exif, 4)
    gps = _entries(exif, order, first).get(_GPS)
    return gps is not None and _LATITUDE in _entries(exif, order, gps)


def _entries(exif: bytes, order: str, at: int) -> dict[int, int]:
    """Return the last four bytes of each tag's entry in the Exif directory at byte `at`, read as an integer: for a
    directory, the byte at which it starts. `order` is the byte order as in `struct`.
    """
    (count,) = struct.unpack_from(f"{order}H", exif, at)
    places = range(at + 2, at + 2 + 12 * min(count, _MOST_ENTRIES), 12)
    fields = (struct.unpack_from(f"{order}HHII", exif, place) for place in places)
    return {tag: value for tag, _, _, value in fields}
