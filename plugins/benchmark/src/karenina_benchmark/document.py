"""Values with the lines they were read from, so that errors can name the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import BenchmarkFileError, Problems, nearest_key, suggest_key
from karenina_core.catalog import install_command

if TYPE_CHECKING:
    from collections.abc import Collection

Place = tuple[str | int, ...]


@dataclass(slots=True)
class Document:
    """The value of a file (or of one of its lines), with the line and source text of each value within it.

    A `Place` is the path of keys and list positions that leads to a value. `written` contains the source text of
    scalars.
    """

    file: Path
    value: Any
    lines: Mapping[Place, int]
    written: Mapping[Place, str]
    text_lines: Mapping[Place, int] = field(default_factory=dict)
    """The line on which the text of a YAML block scalar (`key: |`) starts."""
    place: str = ""
    """The value's position in a file that has no lines, such as the row of a sheet."""

    def line(self, path: Place) -> int | None:
        """Return the line of a value, or that of the nearest value that contains it if its own is unknown. Returns None
        if there is none.
        """
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


@dataclass(slots=True)
class Section:
    """A mapping in a document, with its place for error messages."""

    document: Document
    path: Place
    value: Mapping[str, Any]

    def where(self, *path: str | int) -> str:
        """Return the line of this mapping, or of `path` within it, as `line 3`. If the file has no lines, returns the
        row or an empty string.
        """
        line = self.document.line((*self.path, *path))
        return f"line {line}" if line else self.document.place

    def where_in_text(self, line: int | None, *path: str | int) -> str:
        """Return the place of line `line` in the text at `path`, such as `line 3`. If `line` is None or the text is not
        a block scalar, returns the place of the text itself.
        """
        first = self.document.text_lines.get((*self.path, *path))
        return self.where(*path) if first is None or line is None else f"line {first + line - 1}"

    def error(self, what: str, cure: str, *path: str | int) -> BenchmarkFileError:
        """Return an error at this mapping, or at `path` within it."""
        return BenchmarkFileError(self.document.file, self.where(*path), what, cure)

    def check_keys(self, known: Collection[str]) -> None:
        """Raise `BenchmarkFileError` if there are keys that are not in `known`, suggesting similar keys."""
        unknown = [key for key in self.value if key not in known]
        if not unknown:
            return
        problems = Problems()
        for key in unknown:
            cure = suggest_key(key, known, f"the known keys are {', '.join(known)}")
            if isinstance(self.value[key], Mapping) and nearest_key(key, known) is None:
                command = install_command(str(key).replace("_", "-"))
                cure += f"; if {key} is a plugin package, install the plugin: {command}"
            problems.found.append(self.error(f"unknown key {key!r}", cure, key))
        problems.raise_all()

    def text(self, key: str) -> str | None:
        """Return the source text of a value, also for numbers and dates, or None if it is missing or null. Raises
        `BenchmarkFileError` for a list or mapping.
        """
        value = self.value.get(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, Mapping | list):
            kind = "list" if isinstance(value, list) else "mapping"
            raise self.error(f"{key!r} must be a string, not a {kind}", "", key)
        return self.document.written[(*self.path, key)]

    def texts(self, key: str) -> list[str]:
        """Return the entries of a list as strings, as written in the file. A single scalar counts as a list of one, and
        a missing key as an empty list. Raises `BenchmarkFileError` for a mapping, and for an entry that is null, a list
        or a mapping.
        """
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            return [self.text(key) or ""]
        for position, entry in enumerate(value):
            if entry is None or isinstance(entry, Mapping | list):
                what = f"{key!r} must be a list of strings, but entry {position + 1} is not a string"
                raise self.error(what, "", key, position)
        return [self.document.written[(*self.path, key, position)] for position in range(len(value))]

    def section(self, key: str) -> Section | None:
        """Return the mapping under a key, or None if it is missing or null. Raises `BenchmarkFileError` for any other
        value.
        """
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, (dict, Mapping)):  # most are dicts, and the check of an abstract class is slow
            raise self.error(f"{key!r} must be a mapping of keys to values, not {value!r:.60}", "", key)
        return Section(self.document, (*self.path, key), value)

    def sections(self, key: str, problems: Problems) -> list[Section]:
        """Return the mappings in a list. A single mapping counts as a list of one, and a missing key as an empty list.
        Entries that are not mappings are skipped, and their errors are added to `problems`. Raises `BenchmarkFileError`
        for a scalar.
        """
        value = self.value.get(key)
        if value is None:
            return []
        if isinstance(value, Mapping):
            return [Section(self.document, (*self.path, key), value)]
        if not isinstance(value, list):
            raise self.error(f"{key!r} must be a list, not {value!r:.60}", "", key)
        entries: list[Section] = []
        for position, entry in enumerate(value):
            if isinstance(entry, Mapping):
                entries.append(Section(self.document, (*self.path, key, position), entry))
            else:
                what = f"entry {position + 1} of {key!r} must be a mapping, not {entry!r:.60}"
                problems.found.append(self.error(what, "", key, position))
        return entries
