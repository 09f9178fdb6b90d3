"""Which sources a user trusts to be executed: by content, never by place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self


def digest_of(source: str) -> str:
    """The SHA-256 of `source`, in hexadecimal: what trust is given to. One changed character is another source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_values(file: Path, values: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256, in hexadecimal, of a file's resolved path and the names and values that it sets.

    The order of the values does not count. A changed value, one more or one less, or another folder is another digest.
    """
    text = json.dumps([str(file.resolve()), sorted(set(values))])
    return digest_of(f"restricted values\0{text}")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the user trusts: the sources and restricted values whose digest is in `digests`, or `everything`.

    A trusted source may be executed; trusted values of a benchmark take effect. The default trusts nothing.
    """

    digests: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def all(cls) -> Self:
        """Trust every source: for files that are all the caller's own."""
        return cls(everything=True)

    def covers_values(self, file: Path, values: Iterable[tuple[str, str]]) -> bool:
        """Return whether exactly these restricted values of exactly this file are trusted."""
        return self.everything or (bool(self.digests) and digest_of_values(file, values) in self.digests)

    def covers(self, source: str) -> bool:
        """Whether `source` may be executed."""
        return self.everything or (bool(self.digests) and digest_of(source) in self.digests)


NO_TRUST = Trust()
