"""The changes of binary files in a diff of git: a whole content (`literal`), or what differs from the old (`delta`)."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Sequence
from typing import Final

_START: Final = re.compile(rb"(literal|delta) (\d{1,9})\s*")
_LENGTHS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The first character of a line of binary content, by the number of bytes in the line minus one."""
_LARGEST_COPY: Final = 0x10000
"""The number of bytes that a delta copies if it states none."""


class DamagedContent(ValueError):
    """Raised if binary content cannot be read."""


class TooLarge(DamagedContent):
    """Raised if binary content is larger than the caller allows."""


def read_content(lines: Sequence[bytes], most: int) -> tuple[bytes, bool]:
    """Decode the lines after `GIT binary patch`, and return the content, and whether it is a delta to the old one.
    Raises `DamagedContent` if it cannot be decoded, and its subclass `TooLarge` if it has more than `most` bytes.
    """
    start = _START.fullmatch(lines[0]) if lines else None
    if start is None:
        raise DamagedContent("is damaged")
    size, packed = int(start[2]), bytearray()
    if size > most:
        raise TooLarge(f"is larger than {most:,} bytes")
    try:
        for line in lines[1:]:
            if not line.strip():
                break
            packed += base64.b85decode(line[1:].rstrip())[: _LENGTHS.index(line[:1]) + 1]
        stream = zlib.decompressobj()
        content = stream.decompress(packed, size + 1)
    except (ValueError, zlib.error):
        raise DamagedContent("is damaged") from None
    if len(content) != size or not stream.eof:
        raise DamagedContent("is damaged")
    return content, start[1] == b"delta"


def apply_delta(delta: bytes, old: bytes, most: int) -> bytes | None:
    """Return the content that a delta of git makes of `old`, or None if it was made for content of another size. Raises
    `DamagedContent` if the delta is damaged, and `TooLarge` if the new content has more than `most` bytes.
    """
    try:
        old_size, at = _read_size(delta, 0)
        new_size, at = _read_size(delta, at)
        if old_size != len(old):
            return None
        new = bytearray()
        while at < len(delta) and len(new) <= min(new_size, most):
            code = delta[at]
            at += 1
            if code & 0x80:  # copy from the old content: four bytes of a place and three of a length may follow
                numbers = [0] * 7
                for bit in range(7):
                    if code & 1 << bit:
                        numbers[bit] = delta[at]
                        at += 1
                start, length = int.from_bytes(numbers[:4], "little"), int.from_bytes(numbers[4:], "little")
                length = length or _LARGEST_COPY
                if start + length > len(old):
                    raise DamagedContent("is damaged")
                new += old[start : start + length]
            else:
                new += delta[at : at + code]
                at += code
    except IndexError:
        raise DamagedContent("is damaged") from None
    if len(new) > most:
        raise TooLarge(f"is larger than {most:,} bytes")
    if at != len(delta) or len(new) != new_size:
        raise DamagedContent("is damaged")
    return bytes(new)


def _read_size(delta: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits per byte at index `at`, and return it with the index after it. Raises `IndexError` at
    the end, and `DamagedContent` if the number is too long.
    """
    size = shift = 0
    while True:
        byte = delta[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return size, at
        if shift > 63:
            raise DamagedContent("is damaged")
