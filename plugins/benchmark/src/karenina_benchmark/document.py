"""Values of a file with the lines that they were read from, so that errors name the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Collection

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A file, or a line of one: its value, and of every place in it the line and, for a scalar, the written text."""

    file: Path
    value: Any
    lines: Mapping[Place, int]
    written: Mapping[Place, str]

    def line(self, path: Place) -> int | None:
        """The line of a place, or of the nearest place around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


@dataclass(frozen=True)
class Section:
    """A mapping in a document, which knows its place for the sake of its errors."""

    document: Document
    path: Place
    value: Mapping[str, Any]

    def error(self, what: str, cure: str, *path: str | int) -> CheckpointError:
        """An error at this place, or at `path` below it."""
        line = self.document.line((*self.path, *path))
        return CheckpointError(self.document.file, f"line {line}" if line else "", what, cure)

    def check_keys(self, known: Collection[str]) -> None:
        """Raise for a key that is not in `known`, naming the nearest that is."""
        for key in self.value:
            if key not in known:
                near = get_close_matches(key, known, n=1, cutoff=0.6)
                cure = f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(known)}"
                raise self.error(f"unknown key {key!r}", cure, key)

    def text(self, key: str) -> str | None:
        """The text of a key as it was written, numbers and dates too; None where it is absent or null."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping | list):
            raise self.error(f"{key!r} is a text, not a {'list' if isinstance(value, list) else 'mapping'}", "", key)
        return self.document.written[(*self.path, key)]

    def texts(self, key: str) -> list[str]:
        """The texts of a list; a single text is a list of one."""
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            return [self.text(key) or ""]
        for position, entry in enumerate(value):
            if entry is None or isinstance(entry, Mapping | list):
                raise self.error(f"{key!r} is a list of texts", f"entry {position + 1} is none", key, position)
        return [self.document.written[(*self.path, key, position)] for position in range(len(value))]

    def section(self, key: str) -> Section | None:
        """The mapping under a key; None where it is absent or null."""
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{key!r} is a mapping of keys to values", f"not {value!r:.60}", key)
        return Section(self.document, (*self.path, key), value)

    def sections(self, key: str) -> list[Section]:
        """The mappings of the list under a key; a single mapping is a list of one."""
        value = self.value.get(key)
        if value is None:
            return []
        if isinstance(value, Mapping):
            return [Section(self.document, (*self.path, key), value)]
        if not isinstance(value, list):
            raise self.error(f"{key!r} is a list", f"not {value!r:.60}", key)
        for position, entry in enumerate(value):
            if not isinstance(entry, Mapping):
                raise self.error(f"entry {position + 1} of {key!r} is a mapping", f"not {entry!r:.60}", key, position)
        return [Section(self.document, (*self.path, key, position), entry) for position, entry in enumerate(value)]
