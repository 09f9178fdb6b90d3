"""Comparing two folders, or both layers of an overlay, and applying a patch to a folder."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karenina_sandbox.capture.trees import DEEPEST, PERMISSIONS, TreeWriter, is_opaque, kind_of, opened, opened_file
from karenina_sandbox.patch import Patch, PatchEntry

MOST_KEPT: Final = 10_000_000
"""The default size up to which a changed file's bytes are kept."""
MOST_READ: Final = 2_000_000_000
"""The maximum size of a changed file. Larger ones are left out of the patch."""
LEFT_OUT: Final = frozenset(
    {
        ".git",
        ".hg",
        ".hypothesis",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        "__pycache__",
        "node_modules",
    }
)
"""The names of files and folders that are no part of a patch."""
_MOST_DIFFED: Final = 500_000
"""The maximum size of a file, before and after, of which a diff is made."""
_MOST_PAIRS: Final = 4_000_000
"""The maximum product of the numbers of differing lines. With more, all of them are shown as replaced."""
_CHUNK: Final = 2**20


def compare_folders(source: Path, changed: Path, *, most_kept: int = MOST_KEPT) -> Patch:
    """Return the patch that turns the folder `source` into `changed`. Links are compared, never followed. Entries named
    in `LEFT_OUT` are ignored, and contents above `most_kept` bytes left out, so that the patch cannot be applied.
    Raises `OSError` if one of the folders cannot be read.
    """
    return _compare(source, changed, most_kept, layered=False)


def compare_layers(source: Path, upper: Path, *, most_kept: int = MOST_KEPT) -> Patch:
    """Return what the upper layer of an overlay on `source` changes: the same patch as for two folders."""
    return _compare(source, upper, most_kept, layered=True)


def apply_patch(patch: Patch, folder: Path) -> None:
    """Create, replace and delete files in `folder` as `patch` states. Links in the way are replaced, not followed.
    Raises `ValueError` if a path leads out of the folder, or if contents were not kept. Earlier changes then remain.
    """
    with TreeWriter(folder) as writer:
        for entry in patch.entries:
            if entry.kind == "deleted":
                writer.remove(entry.path)
            elif entry.kind == "directory":
                writer.directory(entry.path, entry.mode)
            elif entry.content is None:
                raise ValueError(f"the content of {entry.path!r} was not kept")
            elif entry.kind == "link":
                writer.link(entry.path, entry.content)
            else:
                writer.file(entry.path, entry.content, entry.mode)


def _compare(source: Path, changed: Path, most_kept: int, *, layered: bool) -> Patch:
    """Return the patch from `source` to `changed` or, if `layered`, from the lower to the upper layer of an overlay.
    Contents of more than `most_kept` bytes are left out.
    """
    comparison = _Comparison(most_kept)
    with opened(source) as before, opened(changed) as after:
        comparison.folder(before, after, "", layered=layered)
    entries = tuple(sorted(comparison.entries, key=lambda entry: entry.path))
    return Patch(entries, tuple(sorted(comparison.left_out)))


@dataclass(slots=True)
class _Comparison:
    """A comparison in progress."""

    most_kept: int
    entries: list[PatchEntry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def folder(self, before: int | None, after: int, prefix: str, *, layered: bool) -> None:
        """Add the differences between two open folders to `entries`. Without `before`, everything in `after` is new. If
        `layered`, what is missing in `after` is unchanged, unless `after` hides the folder below.
        """
        layered = layered and not is_opaque(after)
        old, new = _list(before), _list(after)
        for name, status in new.items():
            if kind_of(status) != "deleted":
                self._entry(name, status, old.get(name), before, after, prefix, layered=layered)
        for name, status in old.items():
            gone = kind_of(new[name]) == "deleted" if name in new else not layered
            if gone and kind_of(status) != "special":
                self.entries.append(PatchEntry(prefix + name, "deleted"))

    def _entry(
        self,
        name: str,
        status: os.stat_result,
        old: os.stat_result | None,
        before: int | None,
        after: int,
        prefix: str,
        *,
        layered: bool,
    ) -> None:
        """Add an entry of the open folder `after` to `entries` if it differs from the one before the change (`old`, in
        the open folder `before`), or to `left_out` if it cannot be kept. `layered` is as in `folder`.
        """
        path, kind, mode = prefix + name, kind_of(status), status.st_mode & PERMISSIONS
        was = None if old is None else kind_of(old)
        if kind == "directory":
            if was != "directory" or (old is not None and old.st_mode & PERMISSIONS != mode):
                self.entries.append(PatchEntry(path, "directory", mode))
            if path.count("/") + 1 >= DEEPEST:
                self.left_out.append(f"{path}: what it contains is nested in more than {DEEPEST} folders")
                return
            with opened(name, folder=after) as below, _opened_if(was == "directory", name, before) as above:
                self.folder(above, below, f"{path}/", layered=layered)
        elif kind == "link":
            self._link(path, name, after, before if was == "link" else None)
        elif kind == "file":
            self._file(path, name, status, after, old if was == "file" else None, before)
        elif was != "special":
            self.left_out.append(f"{path}: is neither a file, a folder nor a link")
            if was is not None:
                self.entries.append(PatchEntry(path, "deleted"))

    def _link(self, path: str, name: str, after: int, before: int | None) -> None:
        target = os.readlink(os.fsencode(name), dir_fd=after)
        if before is None or os.readlink(os.fsencode(name), dir_fd=before) != target:
            digest = hashlib.sha256(target).hexdigest()
            self.entries.append(PatchEntry(path, "link", PERMISSIONS, digest, len(target), target))

    def _file(
        self,
        path: str,
        name: str,
        status: os.stat_result,
        after: int,
        old: os.stat_result | None,
        before: int | None,
    ) -> None:
        """Add the file `name` in the open folder `after` to `entries` if its contents or mode differ from those before
        the change (`old`, in the open folder `before`). A file that is too large to be read is left out, and counts as
        deleted.
        """
        if status.st_size > MOST_READ:
            self.left_out.append(f"{path}: is larger than {MOST_READ} bytes")
            if old is not None:
                self.entries.append(PatchEntry(path, "deleted"))
            return
        mode = status.st_mode & PERMISSIONS
        digest, content = _digest(name, after, self.most_kept)
        former = b""
        if old is not None and before is not None:
            same_size = old.st_size == status.st_size
            if same_size or old.st_size <= _MOST_DIFFED:
                former_digest, kept = _digest(name, before, _MOST_DIFFED)
                if former_digest == digest and old.st_mode & PERMISSIONS == mode:
                    return
                former = kept or b""
        readable = content is not None and (old is None or old.st_size <= _MOST_DIFFED)
        diff = _diff(path, former, content) if readable and content is not None else None
        self.entries.append(PatchEntry(path, "file", mode, digest, status.st_size, content, diff))


@contextmanager
def _opened_if(condition: bool, name: str, folder: int | None) -> Iterator[int | None]:
    """Open the folder `name` in the open folder `folder` and yield its descriptor. Yields None if `condition` is false
    or `folder` is None.
    """
    if condition and folder is not None:
        with opened(name, folder=folder) as below:
            yield below
    else:
        yield None


def _list(folder: int | None) -> dict[str, os.stat_result]:
    """Return the status of each entry of an open folder by name, except those in `LEFT_OUT`, or nothing for None."""
    if folder is None:
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat(follow_symlinks=False) for entry in entries if entry.name not in LEFT_OUT}


def _digest(name: str, folder: int, most_kept: int) -> tuple[str, bytes | None]:
    """Return the SHA-256 of a file in an open folder, and its content, which is None if it has more than `most_kept`
    bytes.
    """
    digest, kept, size = hashlib.sha256(), bytearray(), 0
    with opened_file(name, folder) as descriptor, open(descriptor, "rb", closefd=False) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if size <= most_kept:
                kept += chunk
    return digest.hexdigest(), bytes(kept) if size <= most_kept else None


def _diff(path: str, before: bytes, after: bytes) -> str | None:
    """Return the unified diff of two versions of a file, or None if one of them is not UTF-8 text, or too long."""
    if b"\0" in before + after or max(len(before), len(after)) > _MOST_DIFFED:
        return None
    try:
        old, new = _lines(before.decode()), _lines(after.decode())
    except UnicodeDecodeError:
        return None
    shown = ascii(path)[1:-1] if not path.isprintable() else path
    if len(old) * len(new) > _MOST_PAIRS:
        lines = _replace_middle(old, new, shown)
    else:
        lines = list(difflib.unified_diff(old, new, f"a/{shown}", f"b/{shown}"))
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Return the lines of a text, which end at line feeds only."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


def _replace_middle(old: list[str], new: list[str], path: str) -> list[str]:
    """Return the lines of a unified diff with one hunk, which replaces all lines between the first and the last that
    differ. Returns no lines if nothing differs.

    Unlike `difflib`, it takes linear time.
    """
    first = _count_equal(old, new)
    last = _count_equal(old[first:][::-1], new[first:][::-1])
    gone, come = old[first : len(old) - last], new[first : len(new) - last]
    if not gone and not come:
        return []
    ranges = f"@@ -{_range(first, len(gone))} +{_range(first, len(come))} @@\n"
    return [
        f"--- a/{path}\n",
        f"+++ b/{path}\n",
        ranges,
        *(f"-{line}" for line in gone),
        *(f"+{line}" for line in come),
    ]


def _count_equal(one: list[str], other: list[str]) -> int:
    """Return how many lines are equal from the start on."""
    pairs = zip(one, other, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _range(first: int, count: int) -> str:
    """Return a range of lines as unified diffs write it."""
    return f"{first if count == 0 else first + 1},{count}"
