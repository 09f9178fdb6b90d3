"""Which keys were written, in little memory: so that what is not there need not be looked for in a file."""

from __future__ import annotations

from typing import Final

_BITS: Final = 1 << 25
"""4 MB, of which a million keys set one in thirty."""


class BloomFilter:
    """Keys, which are digests, each remembered by one bit: of a few that were never added it says that they may be."""

    def __init__(self) -> None:
        self._bits = bytearray(_BITS // 8)

    def add(self, key: bytes) -> None:
        """Remember the key."""
        number = int.from_bytes(key[:4], "big") % _BITS
        self._bits[number >> 3] |= 1 << (number & 7)

    def __contains__(self, key: bytes) -> bool:
        """Whether the key may have been added: where it is False, it was not."""
        number = int.from_bytes(key[:4], "big") % _BITS
        return bool(self._bits[number >> 3] & (1 << (number & 7)))
