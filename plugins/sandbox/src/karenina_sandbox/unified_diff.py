"""Applying a unified diff to a folder, as `git diff` and `diff -ru` write it.

Neither `git apply` nor `patch` is used: the diff may come from a stranger.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karenina_core.errors import KareninaError
from karenina_sandbox.binary_diff import DamagedContent, TooLarge, apply_delta, read_content
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.safe_paths import open_file, open_folder

MOST_READ: Final = 50_000_000
"""The maximum size of a diff in bytes."""
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LINES: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_MARKS: Final = (b" ", b"+", b"-")
_NO_NEWLINE: Final = b"\\"
_CRLF: Final = re.compile(rb"^(?:diff --git |\+\+\+ )[^\n]*\r$", re.MULTILINE)
_HEADER: Final = re.compile(rb"^(?:diff --git |\+\+\+ )", re.MULTILINE)
_ESCAPES: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_LINK: Final = 0o120000
_FILES: Final = (0, 0o100000)
_DOES_NOT_FIT: Final = (
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENAMETOOLONG,
    errno.ENOTEMPTY,
)
"""The error numbers which mean that something else is in the place of a file."""


class DiffError(KareninaError, ValueError):
    """Raised if a diff does not fit the files, or is none."""


class UnreadableDiff(DiffError):
    """Raised for a diff that git may be able to apply, but this module is not."""


@dataclass(slots=True)
class _FileChange:
    """The change of one file. `old` and `new` are None if the file does not exist before or after it.

    If it is `copied`, the old file stays. `mode` is the new mode, `old_mode` the old one, if the diff states them.
    `content` is the new content of a binary file, or None for a text. If `is_delta`, it states what differs.
    """

    old: str | None = None
    new: str | None = None
    mode: int | None = None
    old_mode: int | None = None
    copied: bool = False
    named: str | None = None
    """The name in `diff --git`, if it is the same before and after."""
    has_prefixes: bool = True
    """Whether the names begin with `a/` and `b/`."""
    moved: bool = False
    """Whether there are lines `rename` or `copy`, which have no prefixes."""
    hunks: list[tuple[int, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    content: bytes | None = None
    is_delta: bool = False

    @property
    def is_link(self) -> bool:
        """Whether the new file is a link."""
        return stat.S_IFMT(self.mode if self.mode is not None else self.old_mode or 0) == _LINK


def apply_diff(diff: bytes, folder: Path) -> None:
    """Change the files in `folder` as the diff says. Raises `DiffError` if it does not fit, or leads out of it.

    Raises `UnreadableDiff` if that is a limit of this module.
    """
    if len(diff) > MOST_READ:
        raise UnreadableDiff(f"the patch is larger than {MOST_READ:,} bytes")
    changes = list(_read(_lines(diff)))
    if not changes and diff.strip():
        raise DiffError("the patch contains no change: it is no unified diff, as `git diff` writes it")
    gone = {one.old for one in changes if one.old is not None and one.old != one.new and not one.copied}
    made: dict[str, tuple[bytes, int]] = {}  # nothing is written if a change does not fit
    links = set()
    try:
        for change in changes:
            content = _changed(change, folder, gone, made)
            if change.new is not None and content is not None:
                made[change.new] = (content, _permissions(change, folder, made))
                if change.is_link:
                    links.add(change.new)
        for change in changes:
            _remove(change, folder)
        for name, (content, mode) in made.items():
            _write(name, content, None if name in links else mode, folder)
    except OSError as error:
        kind = DiffError if error.errno in _DOES_NOT_FIT else UnreadableDiff
        raise kind(f"the patch cannot be applied: {error.strerror or error}") from None


def applied_changes(diff: bytes, folder: Path) -> Iterator[str]:
    """Yield the paths of the files in `folder` that have already been changed as the diff says.

    Raises `DiffError` if the diff cannot be read.
    """
    for change in _read(_lines(diff)):
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


def _lines(diff: bytes) -> list[bytes]:
    """Return the lines of a diff. If all of them have got a carriage return on their way, it is removed."""
    first = _HEADER.search(diff)
    if first is not None and _CRLF.match(diff, first.start()):
        diff = diff.replace(b"\r\n", b"\n")
    return diff.split(b"\n")


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
            _read_names(change, line.removeprefix(b"diff --git ").rstrip())
        elif line.startswith((b"diff --cc ", b"diff --combined ")):
            raise UnreadableDiff("the patch is the combined diff of a merge; make it with `git diff COMMIT`")
        elif change is not None and not change.hunks and _read_header(change, line, lines, at):
            pass
        elif line.startswith(b"--- ") and at < len(lines) and lines[at].startswith(b"+++ "):
            if change is None or change.hunks:
                if change is not None:
                    yield change
                change = _FileChange()
            if not change.moved:
                change.old, change.new = _named(change, line[4:], lines[at][4:])
            at += 1
        elif match := _HUNK.match(line):
            if change is None:
                raise DiffError("the patch contains a change without a file name")
            left, right = (1 if count is None else int(count) for count in (match[2], match[4]))
            body: list[tuple[bytes, bytes]] = []
            while at < len(lines) and (left > 0 or right > 0 or lines[at].startswith(_NO_NEWLINE)):
                mark, text = lines[at][:1] or b" ", lines[at][1:]
                if lines[at] == b"\r":  # editors remove the space of an empty line
                    mark, text = b" ", b"\r"
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


def _read_header(change: _FileChange, line: bytes, lines: list[bytes], at: int) -> bool:
    """Read a line between `diff --git` and the first hunk. Return whether it is one of those."""
    name = change.new or change.old
    if line.startswith(b"GIT binary patch"):
        try:
            change.content, change.is_delta = read_content(lines[at:], MOST_READ)
        except DamagedContent as error:
            kind = UnreadableDiff if isinstance(error, TooLarge) else DiffError
            raise kind(f"the binary content of {name!r} in the patch {error}") from None
    elif line.startswith(b"Binary files "):
        if change.new is not None:
            raise UnreadableDiff(f"the patch lacks the content of {name!r}; make it with `git diff --binary`")
    elif line.startswith(b"new file mode "):
        change.old, change.mode = None, _mode(line)
    elif line.startswith(b"new mode "):
        change.mode = _mode(line)
    elif line.startswith(b"deleted file mode "):
        change.new, change.old_mode = None, _mode(line)
    elif line.startswith(b"index ") and len(line.split()) == 3:
        change.old_mode = _mode(line)
    elif line.startswith((b"rename from ", b"copy from ")):
        change.old, change.moved = _decode(line.partition(b" from ")[2]), True
        change.copied = line.startswith(b"copy")
    elif line.startswith((b"rename to ", b"copy to ")):
        change.new, change.moved = _decode(line.partition(b" to ")[2]), True
    else:
        return False
    return True


def _mode(line: bytes) -> int:
    """Return the mode at the end of a line. Raises `DiffError` if there is none."""
    try:
        return int(line.split()[-1], 8)
    except ValueError:
        raise DiffError(f"the patch has a line without a mode: {ascii(line)[2:80]}") from None


def _read_names(change: _FileChange, names: bytes) -> None:
    """Read the names after `diff --git`, which are equal but for their prefixes unless the file is moved.

    There are no others of an empty file, or if only the mode changes.
    """
    middle = len(names) // 2
    old, new = _decode(names[:middle]), _decode(names[middle + 1 :])
    if len(names) % 2 and names[middle : middle + 1] == b" ":
        if old == new:
            change.old = change.new = change.named = old
            change.has_prefixes = False
        elif (name := _without_prefix(old)) == _without_prefix(new):
            change.old = change.new = change.named = name


def _decode(name: bytes) -> str:
    """Return a file's name, which git writes in quotes if it has unusual characters."""
    name = name.rstrip(b"\t\r\n")
    if name[:1] == b'"' and name[-1:] == b'"':
        name = re.sub(
            rb"\\([0-3][0-7]{2}|.)",
            lambda match: bytes([int(match[1], 8)]) if len(match[1]) == 3 else _ESCAPES.get(match[1], match[1]),
            name[1:-1],
        )
    return os.fsdecode(name)


def _named(change: _FileChange, old: bytes, new: bytes) -> tuple[str | None, str | None]:
    """Return the paths after `---` and `+++` without their prefixes, and None for /dev/null.

    Git may also name what it compares (`i/`, `w/`, `c/`, `o/`), and `diff -r` two folders of any name.
    """
    before, after = (_decode(name.split(b"\t")[0]) for name in (old, new))
    if "/dev/null" in (before, after):
        name = change.named or _without_usual_prefix(after if before == "/dev/null" else before)
        return (None if before == "/dev/null" else name, None if after == "/dev/null" else name)
    if before == after and not change.has_prefixes:
        return before, after
    if before != after and _without_prefix(before) == _without_prefix(after) is not None:
        return _without_prefix(before), _without_prefix(after)
    return _without_usual_prefix(before), _without_usual_prefix(after)


def _without_prefix(name: str) -> str | None:
    """Return a path without its first folder, or None if it has none."""
    return name.partition("/")[2] or None


def _without_usual_prefix(name: str) -> str:
    return name[2:] if name[:2] in ("a/", "b/") else name


def _inside(path: str) -> Path:
    """Return a relative path. Raises `DiffError` if it leads out of the folder."""
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise DiffError(f"the patch names a path outside the folder: {path!r}")
    return Path(path)


def _changed(
    change: _FileChange, folder: Path, gone: Collection[str], made: Mapping[str, tuple[bytes, int]]
) -> bytes | None:
    """Return the new content of a file, or None if it is removed. Raises `DiffError` if the change does not fit.

    `gone` are the files that the diff removes or moves. `made` are those that it has made, which it may change again.
    """
    name = change.old or change.new
    if name is None:
        raise DiffError("the patch contains a change without a file name")
    for mode in (change.mode, change.old_mode):
        if mode is not None and stat.S_IFMT(mode) not in (*_FILES, _LINK):
            raise UnreadableDiff(f"the patch changes {name!r}, which is a submodule; name its files in the patch")
    _inside(change.new or name)
    if change.old is None:
        content = b""
    elif change.old in made and not change.moved:
        content = made[change.old][0]
    else:
        content = _old_content(change, change.old, folder)
    if change.old is None and not _is_free(folder / _inside(name), folder, gone):
        raise DiffError(f"the patch creates {name!r}, which exists")
    if change.new is None:
        return None
    if change.content is not None:
        if not change.is_delta:
            return change.content
        try:
            new = apply_delta(change.content, content, MOST_READ)
        except DamagedContent as error:
            kind = UnreadableDiff if isinstance(error, TooLarge) else DiffError
            raise kind(f"the binary content of {name!r} in the patch {error}") from None
        if new is None:
            raise DiffError(f"the patch does not fit the binary file {name!r}")
        return new
    lines = _LINES.findall(content)
    shift = 0
    for start, body in change.hunks:
        old = [line for mark, line in body if mark != b"+"]
        expected = (start - 1 if old else start) + shift
        where = _find(lines, old, expected)
        if where is None:
            where = _find([_with_lf(line) for line in lines], [_with_lf(line) for line in old], expected)
            if where is None:
                raise DiffError(f"the patch does not fit {name!r} at line {start}")
            body = _as_in_file(body, lines[where : where + len(old)])
        new_lines = [line for mark, line in body if mark != b"-"]
        lines[where : where + len(old)] = new_lines
        shift = where + len(new_lines) - (start - 1 if old else start) - len(old)
    return b"".join(lines)


def _old_content(change: _FileChange, name: str, folder: Path) -> bytes:
    """Return the content of a file, or the target of a link, before the change."""
    place = folder / _inside(name)
    if change.moved and change.old_mode is None and place.is_symlink():
        change.old_mode = _LINK
    if change.old_mode is not None and stat.S_IFMT(change.old_mode) == _LINK:
        with open_folder(folder, place.parent) as parent:
            try:
                return os.readlink(os.fsencode(place.name), dir_fd=parent)
            except OSError:
                raise UnreadableDiff(
                    f"the patch changes the link {name!r}, but workspaces contain the target of a link in its place; "
                    "leave the link as it is"
                ) from None
    try:
        with open_file(folder, place) as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise DiffError(f"the patch changes {name!r}, which cannot be read: {error}") from None


def _is_free(place: Path, folder: Path, gone: Collection[str]) -> bool:
    """Return whether there is nothing in a place, or only what the diff removes."""
    if place.is_dir() and not place.is_symlink():
        files = [Path(above, name) for above, _, names in os.walk(place) for name in names]
        return all(file.relative_to(folder).as_posix() in gone for file in files)
    return not os.path.lexists(place) or place.relative_to(folder).as_posix() in gone


def _with_lf(line: bytes) -> bytes:
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def _as_in_file(body: list[tuple[bytes, bytes]], old: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the lines of a hunk with the line ends of the file, of which `old` are the lines that it replaces."""
    end = b"\r\n" if sum(line.endswith(b"\r\n") for line in old) * 2 > len(old) else b"\n"
    rest = iter(old)
    return [
        (
            mark,
            (_with_lf(line)[:-1] + end if line.endswith(b"\n") else line) if mark == b"+" else next(rest),
        )
        for mark, line in body
    ]


def _find(lines: list[bytes], old: list[bytes], expected: int) -> int | None:
    """Return where `old` stands in `lines`: at the expected place, or at the only other one."""
    if lines[expected : expected + len(old)] == old and expected <= len(lines):
        return expected
    if not old:
        return None
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    return places[0] if len(places) == 1 else None


def _permissions(change: _FileChange, folder: Path, made: Mapping[str, tuple[bytes, int]]) -> int:
    """Return the permissions of the new file."""
    if change.mode is not None:
        return 0o755 if change.mode & 0o100 else 0o644
    if change.old is None:
        return 0o644
    if change.old in made and not change.moved:
        return made[change.old][1]
    return (folder / _inside(change.old)).lstat().st_mode & 0o777


def _remove(change: _FileChange, folder: Path) -> None:
    """Remove a file that is deleted or moved."""
    if change.old is not None and change.new != change.old and not change.copied:
        old = _inside(change.old)
        with open_folder(folder, folder / old.parent) as parent:
            os.unlink(old.name, dir_fd=parent)


def _write(name: str, content: bytes, mode: int | None, folder: Path) -> None:
    """Write a new or changed file, or a link without `mode`. It may replace a folder of which all has been removed."""
    new = _inside(name)
    with open_folder(folder, folder / new.parent, make=True) as parent:
        with suppress(NotADirectoryError, FileNotFoundError):
            for _, folders, _, descriptor in os.fwalk(new.name, topdown=False, dir_fd=parent):
                for below in folders:
                    os.rmdir(below, dir_fd=descriptor)
            os.rmdir(new.name, dir_fd=parent)
        if mode is None:
            with suppress(FileNotFoundError):
                os.unlink(new.name, dir_fd=parent)
            os.symlink(content, os.fsencode(new.name), dir_fd=parent)
            return
        replace_file(new.name, lambda file: file.write(content), dir_fd=parent, sync=False)
        os.chmod(new.name, mode, dir_fd=parent)
