"""The compression of results in a journal, with a dictionary made from the first results of a run.

Results repeat names and structure, so a dictionary (zlib's `zdict`) makes them many times smaller. The first results
are stored as text. The dictionary is then added to `meta`, at the latest together with the first row that needs it. A
compressed text is a blob: the dictionary's id (the start of its SHA-256), followed by raw deflate data. `meta` has two
copies of the dictionary, in case one is damaged.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from karenina_toolkit.files.bounded_files import MAX_BYTES, max_file_bytes

if TYPE_CHECKING:
    import sqlite3

DICTIONARY: Final = "dictionary "
"""The prefix of dictionary names in `meta`."""
_COPIES: Final = (1, 2)
_ID_BYTES: Final = 8
_WINDOW: Final = 13
"""The size of zlib's window in bytes, as a power of 2, which is also the maximum size of a dictionary. A compressor is
copied for each text, with its window and tables; larger ones take longer to copy and do not make results smaller.
"""
_LARGEST_WINDOW: Final = 14
"""The largest window of texts and dictionaries that are read. Earlier versions wrote them with this window."""
_LEVEL: Final = 3
_MEMORY: Final = 5
_ENOUGH: Final = 12_000
"""The number of bytes of samples needed to make a dictionary."""
_SAMPLE: Final = 2_000
"""The number of bytes to sample at each end of a long text, where results are most alike."""
RESULT_COLUMN: Final = 10
"""The index of the result's text in a row of `results`."""


class TextCompressor:
    """Compresses the texts that a run adds to a journal.

    If a string needs a new value in `meta`, the compressor first calls `store` with the value's name and the value.
    """

    def __init__(self, store: Callable[[str, bytes], None], dictionary: bytes | None = None) -> None:
        self._store = store
        self._samples: list[bytes] = []
        self._id = b""
        self._primed: Any = None
        if dictionary is not None:
            self._prime(dictionary)

    def compress(self, text: str) -> str | bytes:
        """Compress a string for the journal. Strings longer than `MAX_BYTES`, and those collected as samples while
        there is no dictionary, are returned unchanged. Raises `UnicodeEncodeError` for a lone surrogate.
        """
        data = text.encode()
        if len(data) > MAX_BYTES:  # SQLite may refuse it, which a blob would hide until it is read
            return text
        if self._primed is None:
            self._samples.append(data if len(data) <= 2 * _SAMPLE else data[:_SAMPLE] + data[-_SAMPLE:])
            if sum(map(len, self._samples)) >= _ENOUGH:
                self._make_dictionary()
            return text
        deflate = self._primed.copy()
        return bytes(self._id + deflate.compress(data) + deflate.flush())

    def _make_dictionary(self) -> None:
        """Make a dictionary from the newest samples, store it in the journal, use it from now on, and discard the
        samples.
        """
        dictionary = b"".join(self._samples)[-(1 << _WINDOW) :]
        self._samples.clear()
        for name in _copy_names(dictionary):
            self._store(name, dictionary)
        self._prime(dictionary)

    def _prime(self, dictionary: bytes) -> None:
        """Start using a dictionary. The primed compressor is copied for each text, which is faster than priming it
        again.
        """
        self._id = _digest(dictionary)
        self._primed = zlib.compressobj(_LEVEL, zlib.DEFLATED, -_WINDOW, _MEMORY, zdict=dictionary)


class TextReader:
    """Reads compressed results, using the dictionaries in a journal's `meta`."""

    def __init__(self, database: Callable[[], sqlite3.Connection]) -> None:
        self._database = database
        self._dictionaries: dict[bytes, bytes] = {}

    def read(self, stored: object) -> str:
        """Return the original text. Returns an empty string if the stored text is damaged or too long. Raises
        `sqlite3.Error` if the journal cannot be read.
        """
        if not isinstance(stored, bytes):
            return stored if isinstance(stored, str) else ""
        dictionary = self.dictionary(dictionary_id(stored))
        try:
            inflate = zlib.decompressobj(-_LARGEST_WINDOW, zdict=dictionary or b"")
            data = inflate.decompress(stored[_ID_BYTES:], max(MAX_BYTES, max_file_bytes()))
            return data.decode() if dictionary and inflate.eof else ""
        except (zlib.error, UnicodeDecodeError):
            return ""

    def read_row(self, row: Sequence[Any], start: int = 0) -> tuple[Any, ...]:
        """Return a row of `results` with its text decompressed. `start` is the index of the table's first column in the
        row.
        """
        at = start + RESULT_COLUMN
        return (*row[:at], self.read(row[at]), *row[at + 1 :])

    def dictionary(self, id: bytes) -> bytes | None:
        """Return the dictionary with the given id, or None if there is no intact copy."""
        if id not in self._dictionaries:
            query = "SELECT value FROM meta WHERE name = ?"
            for copy in _COPIES:
                for (value,) in self._database().execute(query, (f"{DICTIONARY}{id.hex()} {copy}",)):
                    if isinstance(value, bytes) and _digest(value) == id:
                        self._dictionaries[id] = value
        return self._dictionaries.get(id)


def dictionary_id(stored: bytes) -> bytes:
    """Return the id of the dictionary that was used to compress `stored`."""
    return stored[:_ID_BYTES]


def intact_dictionary(name: str, value: object) -> dict[str, bytes]:
    """Return a dictionary stored in a row of `meta`, under the names of all its copies. Returns an empty dict if the
    copy is damaged or the row contains something else.
    """
    if not (name.startswith(DICTIONARY) and isinstance(value, bytes) and len(value) <= 1 << _LARGEST_WINDOW):
        return {}
    names = _copy_names(value)
    return dict.fromkeys(names, value) if name in names else {}


def _copy_names(dictionary: bytes) -> list[str]:
    """Return the names of a dictionary's copies in `meta`."""
    return [f"{DICTIONARY}{_digest(dictionary).hex()} {copy}" for copy in _COPIES]


def _digest(dictionary: bytes) -> bytes:
    """Return the id of a dictionary."""
    return hashlib.sha256(dictionary).digest()[:_ID_BYTES]
