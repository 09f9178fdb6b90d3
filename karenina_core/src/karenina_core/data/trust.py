"""The sources and values that a user trusts, identified by their contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self


def digest_of(source: str) -> str:
    """Return the SHA-256 digest of `source`, which identifies it for trust."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_values(file: Path, values: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 digest of a file's resolved path and the names and values that it sets.

    The order of the values does not matter, but any change to a name, a value or the folder does.
    """
    text = json.dumps([str(file.resolve()), sorted(set(values))])
    return digest_of(f"restricted values\0{text}")


@dataclass(frozen=True, slots=True)
class Trust:
    """What a user trusts: source code and values with these `digests` or, with `everything`, all of them.

    Trusted sources may be executed, and trusted values in a benchmark take effect. By default, nothing is trusted.
    """

    digests: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def all(cls) -> Self:
        """Trust everything, for files that belong to the caller."""
        return cls(everything=True)

    def covers_values(self, file: Path, values: Iterable[tuple[str, str]]) -> bool:
        """Return whether exactly these restricted values in this file are trusted."""
        return self.everything or (bool(self.digests) and digest_of_values(file, values) in self.digests)

    def covers(self, source: str) -> bool:
        """Return whether `source` may be executed."""
        return self.everything or (bool(self.digests) and digest_of(source) in self.digests)


NO_TRUST = Trust()
