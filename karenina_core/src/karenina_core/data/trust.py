"""`Trust`: the sources and values that a user trusts, identified by their contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self


def digest_of(source: str) -> str:
    """Return the SHA-256 digest of `source` in hexadecimal, which identifies a trusted source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_values(file: Path, values: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of a file's resolved path and the names and values it sets.

    The order of the values has no effect. The digest changes if any value, name or folder changes.
    """
    text = json.dumps([str(file.resolve()), sorted(set(values))])
    return digest_of(f"restricted values\0{text}")


@dataclass(frozen=True, slots=True)
class Trust:
    """The source code and values that a user trusts: those whose digests are in `digests` or, with
    `everything`, all of them.

    Trusted sources may be executed, and trusted values in a benchmark take effect. By default, nothing is trusted.
    """

    digests: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def all(cls) -> Self:
        """Return trust in everything, for files that belong to the caller."""
        return cls(everything=True)

    def covers_values(self, file: Path, values: Iterable[tuple[str, str]]) -> bool:
        """Return whether exactly these restricted values in this file are trusted."""
        return self.everything or (bool(self.digests) and digest_of_values(file, values) in self.digests)

    def covers(self, source: str) -> bool:
        """Return whether `source` may be executed."""
        return self.everything or (bool(self.digests) and digest_of(source) in self.digests)


NO_TRUST = Trust()
