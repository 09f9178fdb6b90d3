"""The tools that let an agent read and write files in its workspace.

All agents in the tool loop have these tools, including judges. Each works in its own copy of the workspace.
"""

from __future__ import annotations

import io
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, Final

from anyio import to_thread

from karenina_core.models.ports import Tool
from karenina_toolkit.agents.tool_sources import ToolError
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.safe_paths import NotAFileError, open_file, open_folder, resolve_links
from karenina_toolkit.printable import quantity

MOST_CHARACTERS: Final = 50_000
"""The maximum number of characters in a result of `read_file`."""
MOST_ENTRIES: Final = 500
"""The maximum number of entries in a result of `list_files`."""
MOST_MATCHES: Final = 100
"""The maximum number of lines in a result of `search_files`."""
MOST_SEARCHED: Final = 50_000_000
"""The maximum number of bytes that `search_files` searches."""
MOST_WRITTEN: Final = 1_000_000
"""The maximum number of characters that `write_file` writes."""
SEARCH_SECONDS: Final = 10.0
"""The time limit for `search_files` and `read_file`, in seconds."""
DEEPEST: Final = 100
"""The maximum depth of folders in paths, lists and searches."""

_LINE_SHOWN = 300
_BINARY_LOOK = 8192
_PATH = {"type": "string", "description": "Path relative to the workspace, such as data/table.csv."}


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry in a folder at the time when the folder was read."""

    path: Path
    is_folder: bool
    is_file: bool
    is_link: bool
    size: int

    @classmethod
    def of(cls, folder: Path, entry: os.DirEntry[str]) -> _Entry:
        """Return the path, type and size of something found in a scan of `folder`. Links are not followed."""
        return cls(
            folder / entry.name,
            entry.is_dir(follow_symlinks=False),
            entry.is_file(follow_symlinks=False),
            entry.is_symlink(),
            entry.stat(follow_symlinks=False).st_size,
        )


class _WorkspaceTool(ABC):
    """Base class of the workspace tools. They never leave their folder, and they run in a thread."""

    name: ClassVar[str]
    description: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]
    origin: ClassVar[str] = "the workspace"

    def __init__(self, root: Path) -> None:
        self._root = root

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Run the tool in a thread. Raises `ToolError` if the tool rejects the call or fails."""
        return await to_thread.run_sync(self._run, arguments)

    @abstractmethod
    def work(self, arguments: Mapping[str, Any]) -> str:
        """Do the tool's work and return its result.

        Raises `ToolError` to reject the call, and `OSError` if a file operation fails.
        """

    def locate(self, path: str) -> Path:
        """Return `path`, which need not exist, with its links resolved. Raises `ToolError` if it is absolute, contains
        `..`, leaves the workspace through a link or is deeper than `DEEPEST`, and `OSError` if its links form a loop.
        """
        relative = PurePosixPath(path)
        if relative.is_absolute() or ".." in relative.parts or "\0" in path:
            raise ToolError(f"{path!r} is refused: give a path relative to the workspace, without '..'")
        if len(relative.parts) > DEEPEST:
            raise ToolError(f"the path is refused: it names more than {DEEPEST} folders")
        resolved = resolve_links(self._root / relative)
        if not resolved.is_relative_to(self._root):
            raise ToolError(f"{path!r} is refused: it is a link that leaves the workspace")
        return resolved

    def show(self, place: Path) -> str:
        """Return `place` relative to the workspace, with unprintable characters escaped."""
        path = place.relative_to(self._root).as_posix()
        return path if path.isprintable() else ascii(path)

    def open(self, file: Path) -> IO[bytes]:
        """Open the file at `file` for reading. Raises `ToolError` if something else is there, such as a folder, and
        `OSError` if it has been replaced by a link.
        """
        try:
            return open_file(self._root, file)
        except NotAFileError:
            raise ToolError(f"{self.show(file)!r} is not a file; list_files shows the contents of a folder") from None

    def below(self, folder: Path) -> Iterator[_Entry]:
        """Yield every file, link and empty folder below `folder`, sorted by name. Links are not followed. Folders at
        the depth `DEEPEST` are yielded without their contents.
        """
        return self._below(folder, 0)

    def _below(self, folder: Path, depth: int) -> Iterator[_Entry]:
        """Yield the files, links and empty folders below `folder`, sorted by name. It is `depth` levels below the
        starting folder, and a folder at `DEEPEST` levels is yielded without its contents.
        """
        with open_folder(self._root, folder) as handle, os.scandir(handle) as entries:
            children = sorted((_Entry.of(folder, entry) for entry in entries), key=lambda entry: entry.path.name)
        for entry in children:
            inside = False
            if entry.is_folder and depth < DEEPEST:
                for below in self._below(entry.path, depth + 1):
                    inside = True
                    yield below
            if not inside:
                yield entry

    def _run(self, arguments: Mapping[str, Any]) -> str:
        """Return the result of `work`. Any `OSError` is converted to a `ToolError`."""
        try:
            return self.work(arguments)
        except OSError as error:
            where = arguments.get("path", ".")
            raise ToolError(f"{self.name} failed for {where!r}: {error.strerror or error}") from None

    def _locate_existing(self, arguments: Mapping[str, Any]) -> Path:
        """Return the path that the `path` argument (by default, the whole workspace) names. Raises `ToolError` if it
        does not exist.
        """
        path = arguments.get("path", ".")
        located = self.locate(path)
        if not located.exists():
            raise ToolError(f"there is no {path!r} in the workspace; list_files shows what there is")
        return located


class ReadFile(_WorkspaceTool):
    """The tool that reads a text file. Long files are read in parts."""

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
        """Return whole lines of the file from `start_line` on, up to `MOST_CHARACTERS`, with a note if there is more.
        Bytes that are not UTF-8 are replaced. Raises `ToolError` if the file is missing or not text, or if it takes too
        long to find the line.
        """
        file = self._locate_existing(arguments)
        if not file.is_file():
            raise ToolError(f"{arguments['path']!r} is not a file; list_files shows the contents of a folder")
        with self.open(file) as opened:
            if _is_binary(opened):
                raise ToolError(f"{arguments['path']!r} is not a text file ({os.fstat(opened.fileno()).st_size} bytes)")
            with io.TextIOWrapper(opened, encoding="utf-8", errors="replace", newline="\n") as lines:
                return _read_part(lines, max(1, arguments.get("start_line", 1)))


class ListFiles(_WorkspaceTool):
    """The tool that lists everything below a folder."""

    name = "list_files"
    description = (
        "List the files of the workspace, or of one of its folders, with everything below it and sizes in bytes. "
        f"At most {MOST_ENTRIES} entries are named."
    )
    schema = {"type": "object", "properties": {"path": _PATH}}

    def work(self, arguments: Mapping[str, Any]) -> str:
        """Return one line for each file, link and empty folder anywhere below the path, with the sizes of files, or the
        line of the path itself if it is a file. After `MOST_ENTRIES` lines, a note ends the list. Raises `ToolError` if
        the path does not exist.
        """
        folder = self._locate_existing(arguments)
        if folder.is_file():
            return f"{self.show(folder)} ({folder.stat().st_size} bytes)"
        lines: list[str] = []
        for entry in self.below(folder):
            if len(lines) == MOST_ENTRIES:
                lines.append(f"[more than {MOST_ENTRIES} entries: list a folder of it]")
                break
            lines.append(self._line(entry))
        return "\n".join(lines) or "(the folder is empty)"

    def _line(self, entry: _Entry) -> str:
        """Return an entry's path, followed by the size of a file or a marker for links and folders."""
        path = self.show(entry.path)
        if entry.is_link:
            return f"{path} (link)"
        return f"{path}/" if entry.is_folder else f"{path} ({entry.size} bytes)"


class SearchFiles(_WorkspaceTool):
    """The tool that searches text files for a pattern."""

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
        """Return the first `MOST_MATCHES` lines that match the pattern as `file:line: text`, or `no match`, and the
        number of files that were not searched, because they are too large or not text. Raises `ToolError` if the path
        is missing, the pattern is invalid or the search takes too long.
        """
        from karenina_toolkit.patterns import BadPattern, compile_pattern

        try:
            pattern = compile_pattern(arguments["pattern"])
        except BadPattern as error:
            raise ToolError(str(error)) from None
        lines: list[str] = []
        looked, unread = 0, 0
        end = time.monotonic() + SEARCH_SECONDS
        for file in self._files(arguments):
            if time.monotonic() > end:
                raise ToolError("the search took too long: search one folder, or files whose name fits a glob")
            content = self._content(file, MOST_SEARCHED - looked)
            if content is None:
                unread += 1
                continue
            looked += len(content)
            text = io.StringIO(content.decode("utf-8", "replace"))
            try:
                for number, part in _numbered(text):
                    if pattern.search(part, timeout=max(0.001, end - time.monotonic())):
                        lines.append(f"{self.show(file)}:{number}: {part.strip()[:_LINE_SHOWN]}")
                        if len(lines) == MOST_MATCHES:
                            return "\n".join([*lines, f"[the first {MOST_MATCHES} matches; there may be more]"])
            except TimeoutError:
                raise ToolError(f"the search for {arguments['pattern']!r} took too long: make it simpler") from None
        if unread:
            lines.append(f"[not searched, because not text or too large: {quantity(unread, 'file')}]")
        return "\n".join(lines) if len(lines) > bool(unread) else "\n".join(["no match", *lines])

    def _content(self, file: Path, most: int) -> bytes | None:
        """Return the content of a text file, or None if it is missing, not text, or larger than `most` bytes."""
        try:
            with self.open(file) as opened:
                size = os.fstat(opened.fileno()).st_size
                return None if size > most or _is_binary(opened) else opened.read(size)
        except (OSError, ToolError):
            return None

    def _files(self, arguments: Mapping[str, Any]) -> Iterator[Path]:
        """Yield the files to search: `path` itself if it is a file, otherwise the files below it that match `glob`.
        `glob` is compared with the file's name, not its path.
        """
        place = self._locate_existing(arguments)
        if place.is_file():
            yield place
            return
        for entry in self.below(place):
            if entry.is_file and fnmatch(entry.path.name, arguments.get("glob", "*")):
                yield entry.path


class WriteFile(_WorkspaceTool):
    """The tool that creates or replaces a text file."""

    name = "write_file"
    description = "Write a text file of the workspace; folders are made as needed, and what the file held is replaced."
    schema = {
        "type": "object",
        "properties": {"path": _PATH, "content": {"type": "string", "description": "The whole new text."}},
        "required": ["path", "content"],
    }

    def work(self, arguments: Mapping[str, Any]) -> str:
        """Write the file, creating missing folders and replacing an existing file, and return a sentence that states
        its new length in characters. Raises `ToolError` if the content is too long or the path exists and is not a
        file.
        """
        file = self.locate(arguments["path"])
        content: str = arguments["content"]
        if len(content) > MOST_WRITTEN:
            raise ToolError(f"{len(content)} characters are too many for one file: {MOST_WRITTEN} are the limit")
        if file.exists() and not file.is_file():
            raise ToolError(f"{arguments['path']!r} is not a file and cannot be written")
        data = content.encode("utf-8", "replace")
        with open_folder(self._root, file.parent, make=True) as folder:
            replace_file(file.name, lambda new: new.write(data), dir_fd=folder, sync=False)
        return f"{self.show(file)} has {len(content)} characters now"


def make_workspace_tools(workspace: Path) -> tuple[Tool, ...]:
    """Return the tools for a workspace: `read_file`, `list_files`, `search_files` and `write_file`. Paths are relative
    to the workspace, and must not lead out of it. Raises `ValueError` if `workspace` is not a folder.
    """
    root = workspace.resolve()
    if not root.is_dir():
        raise ValueError(f"the workspace {workspace} is not a folder")
    return (ReadFile(root), ListFiles(root), SearchFiles(root), WriteFile(root))


def _read_part(lines: io.TextIOWrapper, first: int) -> str:
    """Return the text from line `first` on, up to the limit for one call, with a note if there is more, or a note with
    the number of lines if the file has fewer. Raises `ToolError` if it takes longer than `SEARCH_SECONDS` to find the
    line.
    """
    parts: list[str] = []
    room = MOST_CHARACTERS
    number = 0
    end = time.monotonic() + SEARCH_SECONDS
    while line := lines.readline(MOST_CHARACTERS + 1):
        number += 1
        if time.monotonic() > end:
            raise ToolError(f"line {first} is too far down in the file to be read")
        if number < first:
            while line and not line.endswith("\n") and time.monotonic() <= end:
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
        return "(the file is empty)" if number == 0 else f"(the file has {quantity(number, 'line')})"
    return "".join(parts)


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the parts of each line between carriage returns, with the number of the line in `read_file`."""
    for number, line in enumerate(lines, 1):
        for part in line.rstrip("\r\n").split("\r"):
            yield number, part


def _is_binary(opened: IO[bytes]) -> bool:
    """Return whether a file starts with binary data. The file position is reset."""
    binary = b"\0" in opened.read(_BINARY_LOOK)
    opened.seek(0)
    return binary
