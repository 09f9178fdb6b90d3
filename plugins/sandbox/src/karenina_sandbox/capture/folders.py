"""Comparing two folders, and applying a patch to one."""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from karenina_sandbox.patch import Patch, PatchEntry

MOST_KEPT: Final = 10_000_000
"""The default size up to which a changed file's bytes are kept."""
LEFT_OUT: Final = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"})
"""The names of files and folders that are no part of a patch."""


def compare_folders(source: Path, changed: Path, *, most_kept: int = MOST_KEPT) -> Patch:
    """Return what differs in `changed` from `source`. Nothing in either is opened through a link."""
    before, after = _list(source), _list(changed)
    entries = [_entry(changed, source, path, most_kept) for path in sorted(after) if _differs(source, changed, path)]
    gone = {path for path in before if path not in after}
    entries += [PatchEntry(path, "deleted") for path in sorted(gone) if os.path.dirname(path) not in gone]
    return Patch(tuple(sorted(entries, key=lambda one: one.path)))


def apply_patch(patch: Patch, folder: Path) -> None:
    """Change the files in `folder` as `patch` says. Raises `ValueError` if it would write outside the folder."""
    for one in patch.entries:
        target = folder / one.path
        if os.path.isabs(one.path) or ".." in one.path.split("/"):
            raise ValueError(f"the path {one.path!r} is outside the folder")
        parents = [folder / part for part in Path(one.path).parents]
        if any(parent.is_symlink() for parent in parents):
            raise ValueError(f"the path {one.path!r} leads through a link")
        if target.is_symlink() or (target.exists() and (one.kind != "directory" or not target.is_dir())):
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
        if one.kind == "deleted":
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if one.kind == "directory":
            target.mkdir(exist_ok=True)
        elif one.content is None:
            raise ValueError(f"the content of {one.path!r} was not kept")
        elif one.kind == "link":
            target.symlink_to(os.fsdecode(one.content))
            continue
        else:
            target.write_bytes(one.content)
        target.chmod(one.mode)


def _list(folder: Path) -> set[str]:
    found = set()
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        found |= {
            os.path.relpath(os.path.join(parent, name), folder) for name in (*folders, *files) if name not in LEFT_OUT
        }
    return found


def _differs(source: Path, changed: Path, path: str) -> bool:
    one, other = source / path, changed / path
    if not os.path.lexists(one):
        return True
    a, b = one.lstat(), other.lstat()
    if a.st_mode != b.st_mode:
        return True
    if stat.S_ISLNK(b.st_mode):
        return os.readlink(one) != os.readlink(other)
    return stat.S_ISREG(b.st_mode) and (a.st_size != b.st_size or one.read_bytes() != other.read_bytes())


def _entry(folder: Path, source: Path, path: str, most_kept: int) -> PatchEntry:
    place = folder / path
    status = place.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return PatchEntry(path, "directory", mode)
    kind: str = "link" if stat.S_ISLNK(status.st_mode) else "file"
    content = os.fsencode(os.readlink(place)) if kind == "link" else place.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    kept = content if len(content) <= most_kept else None
    if kind == "link":
        return PatchEntry(path, "link", 0o777, digest, len(content), kept)
    old = source / path
    before = old.read_bytes() if old.is_file() and not old.is_symlink() else b""
    try:
        lines = difflib.unified_diff(
            before.decode().splitlines(keepends=True),
            content.decode().splitlines(keepends=True),
            f"a/{path}",
            f"b/{path}",
        )
        diff = "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
    except UnicodeDecodeError:
        diff = None
    return PatchEntry(path, "file", mode, digest, len(content), kept, diff)
