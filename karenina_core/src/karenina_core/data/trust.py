"""The source code and values that a user trusts, identified by their contents."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Self


def digest_of(source: str) -> str:
    """Return the SHA-256 digest by which `source` is trusted."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


class Trust(NamedTuple):
    """What a user trusts: source code and values with the given `digests`, or all if `everything` is set.

    Trusted source code may be executed, and trusted values in a benchmark take effect. By default, nothing is trusted.
    """

    digests: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def all(cls) -> Self:
        """Return an instance that trusts everything, for files that belong to the caller."""
        return cls(everything=True)

    def covers(self, source: str) -> bool:
        """Return whether `source` may be executed."""
        return self.everything or (bool(self.digests) and digest_of(source) in self.digests)


NO_TRUST = Trust()
