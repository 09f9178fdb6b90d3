"""The files of a promptfoo configuration. They are read as data, and only from the configuration's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Final

from karenina_benchmark.document import Document
from karenina_benchmark.errors import BenchmarkFileError, read_text
from karenina_benchmark.yaml_files import read as read_yaml
from karenina_importing.attached_media import store_media
from karenina_importing.source_files import bounded, read_json
from karenina_toolkit.attachments.media_types import MAX_FILE
from karenina_toolkit.files import LINES, TABLES, plain_cell, read_records
from karenina_toolkit.files.bounded_files import FileError, open_only_below, read_bytes
from karenina_toolkit.files.safe_paths import stays_below

YAML: Final = (".yaml", ".yml")
FILE: Final = "file://"
_MOST_FILES: Final = 1000
_WILD: Final = "*?["
_TEXTS: Final = (".txt", ".md", ".j2", ".html", ".xml", ".csv", ".tsv", "")


class NotRead(ValueError):
    """Raised if a file is not read. The message contains the reason and a fix."""


class Folder:
    """The folder of a configuration. Each file in it is read only once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._documents: dict[Path, Document] = {}
        self._texts: dict[Path, str] = {}

    def find(self, name: str) -> list[Path]:
        """Return the files that match a name such as `file://tests/*.yaml`, sorted, without folders. Raises `NotRead`
        if there are none or more than 1,000, or if one of them is outside the folder.
        """
        plain = name.removeprefix(FILE).removeprefix("./")
        if not any(mark in plain for mark in _WILD):
            paths = [self.path / plain]
        elif PurePath(plain).is_absolute() or ".." in PurePath(plain).parts:
            paths = [self.path / plain.partition("*")[0]]
        else:
            try:
                files = (path for path in self.path.glob(plain) if not path.is_dir())
                paths = sorted(islice(files, _MOST_FILES + 1))
            except (ValueError, OSError, NotImplementedError) as error:
                raise NotRead(f"cannot find the files {name!r:.80}: {error}") from error
            if len(paths) > _MOST_FILES:
                raise NotRead(f"{name!r:.80} matches more than {_MOST_FILES:,} files")
        for path in paths:
            if not stays_below(self.path, str(path.absolute())):
                raise NotRead(f"{name!r:.80} is outside the configuration folder; copy the file into that folder")
        missing = not paths or not all(path.is_file() for path in paths)
        if missing:
            raise NotRead(f"no file {name!r:.80} was found in the configuration folder")
        return paths

    def text(self, path: Path) -> str:
        """Return the text of a file below the folder. It is only read once. Raises `NotRead` if this fails."""
        if path not in self._texts:
            try:
                with open_only_below(self.path):
                    self._texts[path] = read_text(path)
            except BenchmarkFileError as error:
                raise NotRead(str(error)) from error
        return self._texts[path]

    def document(self, path: Path) -> Document:
        """Return the parsed YAML or JSON file at a path below the folder, which is only read once. Only YAML has line
        numbers. Raises `BenchmarkFileError` if this fails.
        """
        if path not in self._documents:
            with open_only_below(self.path):
                self._documents[path] = read_document(path)
        return self._documents[path]

    def value(self, name: str) -> Any:
        """Return the content of the file that matches `name`, parsed if it is YAML or JSON, or a list of contents if
        several files match. Raises `NotRead` if there is none, or if one cannot be read or is not a text file.
        """
        contents = []
        for path in self.find(name):
            ending = path.suffix.lower()
            try:
                if ending in (*YAML, ".json"):
                    contents.append(self.document(path).value)
                    continue
            except BenchmarkFileError as error:
                raise NotRead(str(error)) from error
            if ending not in _TEXTS:
                raise NotRead(f"{name!r:.80} is not a text file; only promptfoo can read it")
            contents.append(self.text(path).strip())
        return contents[0] if len(contents) == 1 else contents

    def media(self, name: str, files: dict[str, bytes]) -> str:
        """Add the contents of an image, PDF or recording to `files`, and return their path beside the benchmark. Raises
        `NotRead` if the file is missing, or cannot be attached.
        """
        (path,) = self.find(name)[:1]
        try:
            with open_only_below(self.path):
                stored = store_media(read_bytes(path, max_bytes=MAX_FILE), files)
        except (FileError, OSError) as error:
            raise NotRead(str(error)) from error
        if stored is None:
            raise NotRead(
                f"the content of {name!r:.80} cannot be attached, although the file name suggests that it can"
            )
        return stored

    def rows(self, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the place and values of each row in a table or JSON lines file. Rows that are empty or not objects are
        skipped. Raises `BenchmarkFileError` if the file cannot be read.
        """
        in_table = path.suffix.lower() in TABLES
        with bounded(path), open_only_below(self.path):
            opened = read_records(path, package="karenina-importing")
        with bounded(path), opened as records:
            for record in records:
                if isinstance(record.value, Mapping) and any(cell is not None for cell in record.value.values()):
                    cells = record.value.items()
                    yield record.where, {key: plain_cell(cell) for key, cell in cells} if in_table else record.value


def read_document(path: Path) -> Document:
    """Read a YAML or JSON file. Only YAML has line numbers. Raises `BenchmarkFileError` if this fails."""
    if path.suffix.lower() in YAML:
        return read_yaml(read_text(path), path)
    return Document(path, read_json(path), {}, {})


def is_table(path: Path) -> bool:
    """Return whether a file is a table or JSON lines, judging by its suffix."""
    return path.suffix.lower() in (*TABLES, *LINES)
