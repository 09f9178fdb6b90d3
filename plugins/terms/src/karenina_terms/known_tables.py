"""The tables of terms that this process has read."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Final

from karenina_terms.term_table import Columns, TermTable, read_table
from karenina_toolkit.files.bounded_files import open_file

_MOST_TABLES: Final = 20


def find_table(path: Path, columns: tuple[str, ...], separator: str, sha256: str | None, *, is_new: bool) -> TermTable:
    """Return the table in a file, which is read if this process has not done so or, with `is_new`, if the file has
    changed. Raises `FileError` if it cannot be read, or does not have the digest `sha256`.
    """
    return _tables.get(path, Columns(columns, separator), sha256, is_new=is_new)


class _Tables:
    """The tables that were used last, by path and columns."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[tuple[Path, Columns, str | None], tuple[tuple[int, ...], TermTable]] = OrderedDict()

    def get(self, path: Path, columns: Columns, sha256: str | None, *, is_new: bool) -> TermTable:
        """Return a table from the cache, or read it if it is not there or, with `is_new`, if its file has changed.
        Raises `FileError` if it cannot be read, or does not have the digest `sha256`.
        """
        with self._lock:
            at = path, columns, sha256
            known = self._known.get(at)
            if known is not None and (not is_new or known[0] == _stamp(path)):
                self._known.move_to_end(at)
                return known[1]
            stamp, table = _stamp(path), read_table(path, columns, sha256)
            self._known[at] = stamp, table
            if len(self._known) > _MOST_TABLES:
                self._known.popitem(last=False)
            return table


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes if a file does. Raises `FileError` if it cannot be opened."""
    with open_file(path, any_size=True) as file:
        status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_tables: Final = _Tables()
