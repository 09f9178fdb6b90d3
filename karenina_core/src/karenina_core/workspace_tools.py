"""The tools by which an agent reads and writes the files of its workspace, and no others.

They are offered to every agent whose adapter runs the tool loop itself, answering agents and judges alike: an agent
works in a copy that is its own, so it may write there.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from anyio import to_thread

from karenina_core.tools import Tool, ToolError

MOST_CHARACTERS: Final = 50_000
"""Characters that one `read_file` gives."""
MOST_ENTRIES: Final = 500
"""Entries that one `list_files` names."""
MOST_MATCHES: Final = 100
"""Lines that one `search_files` finds."""
MOST_SEARCHED: Final = 50_000_000
"""Bytes that one `search_files` looks through."""
MOST_WRITTEN: Final = 1_000_000
"""Characters that one `write_file` takes."""
SEARCH_SECONDS: Final = 10.0
"""Seconds that one `search_files` may take in all."""

_LINE_SHOWN = 300
_BINARY_LOOK = 8192
_PATH = {"type": "string", "description": "Path relative to the workspace, such as data/table.csv."}


class _WorkspaceTool(ABC):
    """What the tools share: the folder that they never leave, and work in a thread of its own."""

    name: ClassVar[str]
    description: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]
    origin: ClassVar[str] = "the workspace"

    def __init__(self, root: Path) -> None:
        self._root = root

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """The result, or `ToolError`."""
        return await to_thread.run_sync(self._checked, arguments)

    @abstractmethod
    def work(self, arguments: Mapping[str, Any]) -> str:
        """Do it."""

    def locate(self, path: str) -> Path:
        """The place that `path` names, links followed. Raises `ToolError` where it lies outside the workspace."""
        wanted = PurePosixPath(path)
        if wanted.is_absolute() or ".." in wanted.parts or "\0" in path:
            raise ToolError(f"{path!r} is refused: give a path relative to the workspace, without '..'")
        found = (self._root / wanted).resolve()
        if not found.is_relative_to(self._root):
            raise ToolError(f"{path!r} is refused: it is a link that leaves the workspace")
        return found

    def shown(self, place: Path) -> str:
        """`place` as a path relative to the workspace."""
        return place.relative_to(self._root).as_posix()

    def _checked(self, arguments: Mapping[str, Any]) -> str:
        try:
            return self.work(arguments)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, from Path.resolve
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is a loop of links"
            where = arguments.get("path", ".")
            raise ToolError(f"{self.name} failed for {where!r}: {reason}") from None

    def _existing(self, arguments: Mapping[str, Any]) -> Path:
        path = arguments.get("path", ".")
        found = self.locate(path)
        if not found.exists():
            raise ToolError(f"there is no {path!r} in the workspace; list_files shows what there is")
        return found


class ReadFile(_WorkspaceTool):
    """Reads a text file, in parts where it is long."""

    name = "read_file"
    description = (
        f"Read a text file of the workspace. At most {MOST_CHARACTERS} characters come at once; for the rest of a "
        "longer file call it again with start_line."
    )
    schema = {
        "type": "object",
        "properties": {
            "path": _PATH,
            "start_line": {"type": "integer", "description": "Line to begin with, from 1."},
        },
        "required": ["path"],
    }

    def work(self, arguments: Mapping[str, Any]) -> str:
        """The text from `start_line` on."""
        file = self._existing(arguments)
        if not file.is_file():
            raise ToolError(f"{arguments['path']!r} is no file; list_files shows what is in a folder")
        if _is_binary(file):
            raise ToolError(f"{arguments['path']!r} is no text file ({file.stat().st_size} bytes)")
        first = max(1, arguments.get("start_line", 1))
        parts: list[str] = []
        room = MOST_CHARACTERS
        number = 0
        with file.open(encoding="utf-8", errors="replace", newline="") as lines:
            while line := lines.readline(MOST_CHARACTERS + 1):
                number += 1
                if number < first:
                    while line and not line.endswith("\n"):
                        line = lines.readline(MOST_CHARACTERS + 1)
                    continue
                if len(line) > room:
                    if parts:
                        parts.append(f"\n[not all is shown: go on with start_line={number}]")
                    else:
                        parts.append(f"{line[:room]}\n[line {number} is longer than {room} characters and is cut off]")
                    break
                parts.append(line)
                room -= len(line)
        if not parts:
            return "(the file is empty)" if number == 0 else f"(the file has {number} lines)"
        return "".join(parts)


class ListFiles(_WorkspaceTool):
    """Names what is in a folder, with everything below it."""

    name = "list_files"
    description = (
        "List the files of the workspace, or of one of its folders, with everything below it and sizes in bytes. "
        f"At most {MOST_ENTRIES} entries are named."
    )
    schema = {"type": "object", "properties": {"path": _PATH}}

    def work(self, arguments: Mapping[str, Any]) -> str:
        """One line for each file, empty folder and link."""
        folder = self._existing(arguments)
        if folder.is_file():
            return f"{self.shown(folder)} ({folder.stat().st_size} bytes)"
        lines: list[str] = []
        for entry in _below(folder):
            if len(lines) == MOST_ENTRIES:
                lines.append(f"[more than {MOST_ENTRIES} entries: list a folder of it]")
                break
            lines.append(self._line(entry))
        return "\n".join(lines) or "(the folder is empty)"

    def _line(self, entry: os.DirEntry[str]) -> str:
        path = self.shown(Path(entry.path))
        if entry.is_symlink():
            return f"{path} (link)"
        if entry.is_dir(follow_symlinks=False):
            return f"{path}/"
        return f"{path} ({entry.stat(follow_symlinks=False).st_size} bytes)"


class SearchFiles(_WorkspaceTool):
    """Finds a pattern in the text files."""

    name = "search_files"
    description = (
        "Search the text files of the workspace, or of one of its folders, for a regular expression, line by line. "
        f"At most {MOST_MATCHES} lines are shown, each with its file and number."
    )
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression, as Python writes them."},
            "path": _PATH,
            "glob": {"type": "string", "description": "Only files whose name fits this, such as *.py."},
        },
        "required": ["pattern"],
    }

    def work(self, arguments: Mapping[str, Any]) -> str:
        """`file:line: text` for each match, and what was not looked at."""
        from karenina_core.patterns import BadPattern, compile_pattern

        try:
            pattern = compile_pattern(arguments["pattern"])
        except BadPattern as error:
            raise ToolError(str(error)) from None
        found: list[str] = []
        looked, unread = 0, 0
        end = time.monotonic() + SEARCH_SECONDS
        for file in self._files(arguments):
            size = file.stat().st_size
            if looked + size > MOST_SEARCHED or _is_binary(file):
                unread += 1
                continue
            looked += size
            text = file.read_text("utf-8", "replace")
            try:
                for number, line in enumerate(text.splitlines(), 1):
                    if pattern.search(line, timeout=max(0.001, end - time.monotonic())):
                        found.append(f"{self.shown(file)}:{number}: {line.strip()[:_LINE_SHOWN]}")
                        if len(found) == MOST_MATCHES:
                            return "\n".join([*found, f"[the first {MOST_MATCHES} matches; there may be more]"])
            except TimeoutError:
                raise ToolError(f"the search for {arguments['pattern']!r} took too long: make it simpler") from None
        if unread:
            found.append(f"[{unread} files were not searched: they are no text, or there is too much of it]")
        return "\n".join(found) if len(found) > bool(unread) else "\n".join(["no match", *found])

    def _files(self, arguments: Mapping[str, Any]) -> Iterator[Path]:
        place = self._existing(arguments)
        if place.is_file():
            yield place
            return
        for entry in _below(place):
            if entry.is_file(follow_symlinks=False) and fnmatch(entry.name, arguments.get("glob", "*")):
                yield Path(entry.path)


class WriteFile(_WorkspaceTool):
    """Writes a text file, in place of what it held."""

    name = "write_file"
    description = "Write a text file of the workspace; folders are made as needed, and what the file held is replaced."
    schema = {
        "type": "object",
        "properties": {"path": _PATH, "content": {"type": "string", "description": "The whole new text."}},
        "required": ["path", "content"],
    }

    def work(self, arguments: Mapping[str, Any]) -> str:
        """Write it."""
        file = self.locate(arguments["path"])
        content: str = arguments["content"]
        if len(content) > MOST_WRITTEN:
            raise ToolError(f"{len(content)} characters are too many for one file: {MOST_WRITTEN} are the limit")
        if file.exists() and not file.is_file():
            raise ToolError(f"{arguments['path']!r} is no file and cannot be written")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8", "replace", newline="")
        return f"{self.shown(file)} has {len(content)} characters now"


def workspace_tools(workspace: Path) -> tuple[Tool, ...]:
    """The tools for one workspace: `read_file`, `list_files`, `search_files` and `write_file`.

    Paths are relative to it; `..`, absolute paths and links that lead out of it are refused. Raises `ValueError` where
    it is no folder.
    """
    root = workspace.resolve()
    if not root.is_dir():
        raise ValueError(f"the workspace {workspace} is no folder")
    return (ReadFile(root), ListFiles(root), SearchFiles(root), WriteFile(root))


def _below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Every file, link and empty folder below `folder`, sorted by name; links are not followed."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if not entry.is_dir(follow_symlinks=False):
            yield entry
            continue
        inside = False
        for one in _below(Path(entry.path)):
            inside = True
            yield one
        if not inside:
            yield entry


def _is_binary(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"\0" in opened.read(_BINARY_LOOK)
