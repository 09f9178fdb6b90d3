"""A set of keys in little memory, which saves most searches for keys that are not in a file."""

from __future__ import annotations

from typing import Final

_BITS: Final = 1 << 25
"""4 MB; a million keys set one bit in thirty."""


class BloomFilter:
    """A Bloom filter with one hash function, for keys that are digests: it may contain keys that were never added."""

    def __init__(self) -> None:
        self._bits = bytearray(_BITS // 8)

    def add(self, key: bytes) -> None:
        """Add a key."""
        number = int.from_bytes(key[:4], "big") % _BITS
        self._bits[number >> 3] |= 1 << (number & 7)

    def __contains__(self, key: bytes) -> bool:
        """Return False if the key was not added, and True if it probably was."""
        number = int.from_bytes(key[:4], "big") % _BITS
        return bool(self._bits[number >> 3] & (1 << (number & 7)))
