"""Values of a file with the lines that they were read from, so that errors name the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.unknown_keys import suggest_key

if TYPE_CHECKING:
    from collections.abc import Collection

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The value of a file or of one of its lines, with the line of each place and the written text of each scalar."""

    file: Path
    value: Any
    lines: Mapping[Place, int]
    written: Mapping[Place, str]

    def line(self, path: Place) -> int | None:
        """Return the line of a place, or of the nearest place that encloses it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


@dataclass(frozen=True)
class Section:
    """A mapping in a document, with its place for error messages."""

    document: Document
    path: Place
    value: Mapping[str, Any]

    def error(self, what: str, cure: str, *path: str | int) -> CheckpointError:
        """Return an error at this place, or at `path` below it."""
        line = self.document.line((*self.path, *path))
        return CheckpointError(self.document.file, f"line {line}" if line else "", what, cure)

    def check_keys(self, known: Collection[str]) -> None:
        """Raise `CheckpointError` for a key that is not in `known`, with a suggestion."""
        for key in self.value:
            if key not in known:
                cure = suggest_key(key, known, f"the keys here are {', '.join(known)}")
                raise self.error(f"unknown key {key!r}", cure, key)

    def text(self, key: str) -> str | None:
        """Return the value of a key as it is written, numbers and dates included; None if it is missing or null."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping | list):
            kind = "list" if isinstance(value, list) else "mapping"
            raise self.error(f"{key!r} must be a text, not a {kind}", "", key)
        return self.document.written[(*self.path, key)]

    def texts(self, key: str) -> list[str]:
        """Return the texts of a list; a single text counts as a list of one."""
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            return [self.text(key) or ""]
        for position, entry in enumerate(value):
            if entry is None or isinstance(entry, Mapping | list):
                what = f"{key!r} must be a list of texts, and entry {position + 1} is not a text"
                raise self.error(what, "", key, position)
        return [self.document.written[(*self.path, key, position)] for position in range(len(value))]

    def section(self, key: str) -> Section | None:
        """Return the mapping under a key; None if it is missing or null."""
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{key!r} must be a mapping of keys to values, not {value!r:.60}", "", key)
        return Section(self.document, (*self.path, key), value)

    def sections(self, key: str) -> list[Section]:
        """Return the mappings of the list under a key; a single mapping counts as a list of one."""
        value = self.value.get(key)
        if value is None:
            return []
        if isinstance(value, Mapping):
            return [Section(self.document, (*self.path, key), value)]
        if not isinstance(value, list):
            raise self.error(f"{key!r} must be a list, not {value!r:.60}", "", key)
        for position, entry in enumerate(value):
            if not isinstance(entry, Mapping):
                what = f"entry {position + 1} of {key!r} must be a mapping, not {entry!r:.60}"
                raise self.error(what, "", key, position)
        return [Section(self.document, (*self.path, key, position), entry) for position, entry in enumerate(value)]
