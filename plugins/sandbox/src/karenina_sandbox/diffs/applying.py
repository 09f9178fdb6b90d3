"""Applying a unified diff to a folder.

Neither `git apply` nor `patch` is used: the diff may come from a stranger.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from karenina_sandbox.diffs.binary import DamagedContent, TooLarge, apply_delta
from karenina_sandbox.diffs.reading import LINK, MOST_READ, DiffError, FileChange, UnreadableDiff, read_diff
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.safe_paths import open_file, open_folder

_LINES: Final = re.compile(rb"[^\n]*\n|[^\n]+")
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


def apply_diff(diff: bytes, folder: Path) -> None:
    """Apply a unified diff to `folder`. Raises `DiffError`, before anything is changed, if a part of it does not match
    the files or a path is outside of the folder, and its subclass `UnreadableDiff` if it exceeds a limit of this module
    or only git may be able to apply it.
    """
    if len(diff) > MOST_READ:
        raise UnreadableDiff(f"the patch is larger than {MOST_READ:,} bytes")
    changes = list(read_diff(diff))
    if not changes and diff.strip():
        raise DiffError("the patch contains no changes because it is not a unified diff; create it with `git diff`")
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
    """Yield the paths of the files in `folder` that already contain the lines that the diff adds. Files that cannot be
    read are skipped. Raises `DiffError` if the diff cannot be read.
    """
    for change in read_diff(diff):
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


def _inside(path: str) -> Path:
    """Return a relative path. Raises `DiffError` if it leads out of the folder."""
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise DiffError(f"the patch names a path outside the folder: {path!r}")
    return Path(path)


def _changed(
    change: FileChange, folder: Path, gone: Collection[str], made: Mapping[str, tuple[bytes, int]]
) -> bytes | None:
    """Return the content of a file after a change, or None if it is removed. `gone` are the files that the diff removes
    or moves, and `made` those that it has made, which it may change again. Raises `DiffError` if the change does not
    fit, and `UnreadableDiff` if only git may be able to apply it.
    """
    name = change.old or change.new
    if name is None:
        raise DiffError("the patch contains a change without a file name")
    for mode in (change.mode, change.old_mode):
        if mode is not None and stat.S_IFMT(mode) not in (*_FILES, LINK):
            raise UnreadableDiff(
                f"the patch changes {name!r}, which is a submodule; list the changes to its files instead"
            )
    _inside(change.new or name)
    if change.old is None:
        content = b""
    elif change.old in made and not change.moved:
        content = made[change.old][0]
    else:
        content = _old_content(change, change.old, folder)
    if change.old is None and not _is_free(folder / _inside(name), folder, gone):
        raise DiffError(f"the patch creates {name!r}, which already exists")
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
            raise DiffError(f"the patch does not apply to the binary file {name!r}")
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
                raise DiffError(f"the patch does not apply to {name!r} at line {start}")
            body = _as_in_file(body, lines[where : where + len(old)])
        new_lines = [line for mark, line in body if mark != b"-"]
        lines[where : where + len(old)] = new_lines
        shift = where + len(new_lines) - (start - 1 if old else start) - len(old)
    return b"".join(lines)


def _old_content(change: FileChange, name: str, folder: Path) -> bytes:
    """Return the content of a file before the change, or the target if the change is of a link. Sets the change's
    `old_mode` if it moves a link. Raises `DiffError` if the file, and `UnreadableDiff` if the link, cannot be read.
    """
    place = folder / _inside(name)
    if change.moved and change.old_mode is None and place.is_symlink():
        change.old_mode = LINK
    if change.old_mode is not None and stat.S_IFMT(change.old_mode) == LINK:
        with open_folder(folder, place.parent) as parent:
            try:
                return os.readlink(os.fsencode(place.name), dir_fd=parent)
            except OSError:
                raise UnreadableDiff(
                    f"the patch changes the link {name!r}, but in workspaces each link is replaced by its target; "
                    "leave the link unchanged"
                ) from None
    try:
        with open_file(folder, place) as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise DiffError(f"the patch changes {name!r}, which cannot be read: {error}") from None


def _is_free(place: Path, folder: Path, gone: Collection[str]) -> bool:
    """Return whether nothing exists at `place`, or only files that the diff removes: those in `gone`, relative to
    `folder`.
    """
    if place.is_dir() and not place.is_symlink():
        files = [Path(above, name) for above, _, names in os.walk(place) for name in names]
        return all(file.relative_to(folder).as_posix() in gone for file in files)
    return not os.path.lexists(place) or place.relative_to(folder).as_posix() in gone


def _with_lf(line: bytes) -> bytes:
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def _as_in_file(body: list[tuple[bytes, bytes]], old: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the lines of a hunk, pairs of a mark and a line, with added lines ending like those of the file (CRLF or
    LF), and all others as in `old`, the lines that the hunk replaces.
    """
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
    """Return the index of the lines `old` in `lines`: the expected one, or else the only one, or None."""
    if lines[expected : expected + len(old)] == old and expected <= len(lines):
        return expected
    if not old:
        return None
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    return places[0] if len(places) == 1 else None


def _permissions(change: FileChange, folder: Path, made: Mapping[str, tuple[bytes, int]]) -> int:
    """Return the permissions of the file after a change: those that the diff states, or else those of the old file."""
    if change.mode is not None:
        return 0o755 if change.mode & 0o100 else 0o644
    if change.old is None:
        return 0o644
    if change.old in made and not change.moved:
        return made[change.old][1]
    return (folder / _inside(change.old)).lstat().st_mode & 0o777


def _remove(change: FileChange, folder: Path) -> None:
    """Remove the old file of a change if it is deleted or moved. Other changes do nothing."""
    if change.old is not None and change.new != change.old and not change.copied:
        old = _inside(change.old)
        with open_folder(folder, folder / old.parent) as parent:
            os.unlink(old.name, dir_fd=parent)


def _write(name: str, content: bytes, mode: int | None, folder: Path) -> None:
    """Write a new or changed file, or a link if `mode` is None. A folder with the same name is removed if it contains
    no files; otherwise, raises `OSError`.
    """
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
