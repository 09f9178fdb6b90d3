"""Applying a unified diff to a folder, as `git diff` and `diff -ru` write it.

Neither `git apply` nor `patch` is used: the diff may come from a stranger.
"""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karenina_core.errors import KareninaError
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.safe_paths import open_file, open_folder

MOST_READ: Final = 50_000_000
"""The maximum size of a diff in bytes."""
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LINES: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_MARKS: Final = (b" ", b"+", b"-")
_NO_NEWLINE: Final = b"\\"
_LITERAL: Final = re.compile(rb"literal (\d{1,9})\s*")
_LENGTHS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The first character of a line of binary content, by the number of bytes in the line minus one."""


class DiffError(KareninaError, ValueError):
    """Raised if a diff cannot be read, or does not fit the files."""


@dataclass(slots=True)
class _FileChange:
    """The change of one file. `old` and `new` are None if the file does not exist before or after it.

    `content` is the new content of a binary file, or None for a text.
    """

    old: str | None = None
    new: str | None = None
    mode: int | None = None
    hunks: list[tuple[int, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    content: bytes | None = None


def apply_diff(diff: bytes, folder: Path) -> None:
    """Change the files in `folder` as the diff says. Raises `DiffError` if it does not fit, or leads out of it."""
    if len(diff) > MOST_READ:
        raise DiffError(f"the patch is larger than {MOST_READ:,} bytes")
    changes = list(_read(diff.split(b"\n")))
    if not changes and diff.strip():
        raise DiffError("the patch contains no change: it is no unified diff, as `git diff` writes it")
    try:
        contents = [(change, _changed(change, folder)) for change in changes]  # nothing is written if one does not fit
        for change, content in contents:
            _write(change, content, folder)
    except OSError as error:
        raise DiffError(f"the patch cannot be applied: {error.strerror or error}") from None


def applied_changes(diff: bytes, folder: Path) -> Iterator[str]:
    """Yield the paths of the files in `folder` that have already been changed as the diff says.

    Raises `DiffError` if the diff cannot be read.
    """
    for change in _read(diff.split(b"\n")):
        if change.new is None or not any(mark == b"+" for _, body in change.hunks for mark, _ in body):
            continue
        try:
            with open_file(folder, folder / _inside(change.new)) as file:
                lines = _LINES.findall(file.read())
        except (OSError, ValueError):
            continue
        sides = [[line for mark, line in body if mark != b"-"] for _, body in change.hunks]
        if all(any(lines[at : at + len(new)] == new for at in range(len(lines) - len(new) + 1)) for new in sides):
            yield change.new


def _read(lines: list[bytes]) -> Iterator[_FileChange]:
    """Yield the changes in the lines of a diff."""
    change: _FileChange | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            if change is not None:
                yield change
            change = _FileChange()
            match = re.fullmatch(rb"diff --git a/(.+) b/\1", line)  # the only names of an empty file or a new mode
            if match:
                change.old = change.new = _decode(match[1])
        elif change is not None and line.startswith(b"GIT binary patch"):
            change.content = _read_literal(lines[at:], change.new or change.old)
        elif change is not None and line.startswith(b"Binary files "):
            raise DiffError(f"the patch lacks the content of {change.new!r}; make it with `git diff --binary`")
        elif change is not None and line.startswith(b"new file mode "):
            change.old, change.mode = None, int(line.split()[-1], 8)
        elif change is not None and line.startswith(b"new mode "):
            change.mode = int(line.split()[-1], 8)
        elif change is not None and line.startswith(b"deleted file mode "):
            change.new = None
        elif change is not None and line.startswith(b"rename from "):
            change.old = _decode(line[len(b"rename from ") :])
        elif change is not None and line.startswith(b"rename to "):
            change.new = _decode(line[len(b"rename to ") :])
        elif line.startswith(b"--- ") and at < len(lines) and lines[at].startswith(b"+++ "):
            if change is None or change.hunks:
                if change is not None:
                    yield change
                change = _FileChange()
            change.old, change.new = _named(line[4:]), _named(lines[at][4:])
            at += 1
        elif match := _HUNK.match(line):
            if change is None:
                raise DiffError("the patch contains a change without a file name")
            left, right = (1 if count is None else int(count) for count in (match[2], match[4]))
            body: list[tuple[bytes, bytes]] = []
            while at < len(lines) and (left > 0 or right > 0 or lines[at].startswith(_NO_NEWLINE)):
                mark, text = lines[at][:1] or b" ", lines[at][1:]  # editors remove the space of an empty line
                at += 1
                if mark == _NO_NEWLINE and body:
                    body[-1] = (body[-1][0], body[-1][1].removesuffix(b"\n"))
                elif mark in _MARKS:
                    body.append((mark, text + b"\n"))
                    left -= mark != b"+"
                    right -= mark != b"-"
                else:
                    break
            if left or right:
                raise DiffError(f"the patch of {change.new or change.old!r} is cut off, or its line numbers are wrong")
            change.hunks.append((int(match[1]), body))
    if change is not None:
        yield change


def _read_literal(lines: list[bytes], name: str | None) -> bytes:
    """Return the new content of a binary file, which git compresses and writes in base 85."""
    broken = DiffError(f"the binary content of {name!r} in the patch is damaged")
    start = _LITERAL.fullmatch(lines[0]) if lines else None
    if start is None:
        what = "is the difference to an earlier binary file, which cannot be applied"
        raise DiffError(f"the patch of {name!r} {what}; write the whole file under a new name")
    size, packed = int(start[1]), bytearray()
    if size > MOST_READ:
        raise DiffError(f"the binary file {name!r} in the patch is larger than {MOST_READ:,} bytes")
    try:
        for line in lines[1:]:
            if not line.strip():
                break
            packed += base64.b85decode(line[1:].rstrip())[: _LENGTHS.index(line[:1]) + 1]
        stream = zlib.decompressobj()
        content = stream.decompress(packed, size + 1)
    except (ValueError, zlib.error):
        raise broken from None
    if len(content) != size or not stream.eof:
        raise broken
    return content


def _decode(name: bytes) -> str:
    """Return a file's name, which git writes in quotes if it has unusual characters."""
    name = name.rstrip(b"\t\r\n")
    if name[:1] == b'"' and name[-1:] == b'"':
        name = re.sub(
            rb"\\([0-7]{3}|.)",
            lambda match: (
                bytes([int(match[1], 8)]) if len(match[1]) == 3 else {b"n": b"\n", b"t": b"\t"}.get(match[1], match[1])
            ),
            name[1:-1],
        )
    return os.fsdecode(name)


def _named(name: bytes) -> str | None:
    """Return the path after `---` or `+++`, without its first folder (`a/`, `b/`). For /dev/null, return None."""
    decoded = _decode(name.split(b"\t")[0])
    if decoded == "/dev/null":
        return None
    return decoded.partition("/")[2] if decoded[:2] in ("a/", "b/") else decoded


def _inside(path: str) -> Path:
    """Return a relative path. Raises `DiffError` if it leads out of the folder."""
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise DiffError(f"the patch names a path outside the folder: {path!r}")
    return Path(path)


def _changed(change: _FileChange, folder: Path) -> bytes | None:
    """Return the new content of a file, or None if it is removed. Raises `DiffError` if the change does not fit."""
    if change.old is None and change.new is None:
        raise DiffError("the patch contains a change without a file name")
    content = b""
    if change.old is not None:
        try:
            with open_file(folder, folder / _inside(change.old)) as file:
                content = file.read()
        except (OSError, ValueError) as error:
            raise DiffError(f"the patch changes {change.old!r}, which cannot be read: {error}") from None
    elif os.path.lexists(folder / _inside(str(change.new))):
        raise DiffError(f"the patch creates {change.new!r}, which exists")
    if change.new is None:
        return None
    if change.content is not None:
        return change.content
    lines = _LINES.findall(content)
    shift = 0
    for start, body in change.hunks:
        old = [line for mark, line in body if mark != b"+"]
        new = [line for mark, line in body if mark != b"-"]
        where = _find(lines, old, (start - 1 if old else start) + shift)
        if where is None:
            raise DiffError(f"the patch does not fit {change.old or change.new!r} at line {start}")
        lines[where : where + len(old)] = new
        shift = where + len(new) - (start - 1 if old else start) - len(old)
    return b"".join(lines)


def _find(lines: list[bytes], old: list[bytes], expected: int) -> int | None:
    """Return where `old` stands in `lines`: at the expected place, or at the only other one."""
    if lines[expected : expected + len(old)] == old and expected <= len(lines):
        return expected
    if not old:
        return None
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    return places[0] if len(places) == 1 else None


def _write(change: _FileChange, content: bytes | None, folder: Path) -> None:
    """Write a changed file, and remove the old one if it was removed or renamed."""
    old_mode = None
    if change.old is not None:
        old = _inside(change.old)
        old_mode = (folder / old).lstat().st_mode & 0o777
        if change.new != change.old:
            with open_folder(folder, folder / old.parent) as parent:
                os.unlink(old.name, dir_fd=parent)
    if change.new is not None and content is not None:
        new = _inside(change.new)
        mode = old_mode or 0o644
        if change.mode is not None:
            if change.mode & 0o170000 not in (0, 0o100000):
                raise DiffError(f"the patch makes {change.new!r} a link, which cannot be applied")
            mode = 0o755 if change.mode & 0o100 else 0o644
        with open_folder(folder, folder / new.parent, make=True) as parent:
            replace_file(new.name, lambda file: file.write(content), dir_fd=parent, sync=False)
            os.chmod(new.name, mode, dir_fd=parent)
