"""Workspace folders: found inside their root, copied so that nothing leads out of it, and removed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from karenina_core.errors import KareninaError

DEEPEST: Final = 100
"""Folders in folders that a copy goes down to."""
MOST_LINKED: Final = 200
"""Links to folders that one copy follows."""
LONGEST_BASE: Final = 80
"""Characters of a folder's own name that its copies keep."""

_MADE_HERE = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+(_rep\d+)?_[0-9a-f]{8}(_trace_.*\.txt)?$")

LeftOut = Callable[[Path, str], None]
"""Told of what is not copied, and why."""


class WorkspaceError(KareninaError, ValueError):
    """A workspace that cannot be had. The message says which, why, and what to do."""


def existing_root(root: Path | None) -> Path:
    """The workspace root with its links resolved. Raises `WorkspaceError`."""
    if root is None:
        raise WorkspaceError(
            "there is no workspace root: set workspace_root in the configuration, or benchmark.workspace_root"
        )
    try:
        found = root.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise WorkspaceError(f"the workspace root {root} cannot be used: {error}") from None
    if not found.is_dir():
        raise WorkspaceError(f"the workspace root {root} is no folder: make it, or set workspace_root to another")
    return found


def folder_in(root: Path, path: str) -> Path:
    """The folder that `path` names below `root`, links resolved. Raises `WorkspaceError`.

    `..`, absolute paths, the root itself, and links that lead out of the root are refused.
    """
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or ".." in wanted.parts or "\0" in path:
        raise WorkspaceError(f"workspace_path {path!r} is refused: give a path relative to the root, without '..'")
    try:
        found = (root / wanted).resolve()
        exists = found.is_dir()
    except (OSError, RuntimeError) as error:
        raise WorkspaceError(f"workspace_path {path!r} cannot be used: {error}") from None
    if not found.is_relative_to(root):
        raise WorkspaceError(f"workspace_path {path!r} is refused: it is a link that leaves the workspace root {root}")
    if found == root:
        raise WorkspaceError(f"workspace_path {path!r} is the workspace root itself: name a folder in it")
    if not exists:
        raise WorkspaceError(
            f"there is no folder {path!r} in the workspace root {root}: make it, or mend the question's workspace_path"
        )
    return found


def fresh_name(base: str, kind: Literal["run", "judge"], replicate: int | None) -> str:
    """A name that no other run, process, replicate or judge uses: `{base}_{kind}_{time}_pid{pid}[_rep{n}]_{random}`."""
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    repetition = f"_rep{replicate}" if replicate is not None else ""
    own = _MADE_HERE.sub("", base)[:LONGEST_BASE]
    return f"{own}_{kind}_{time}_pid{os.getpid()}{repetition}_{secrets.token_hex(4)}"


def is_made_here(name: str) -> bool:
    """Whether a file or folder of that name was made by a run, and belongs to no workspace that a copy is made of."""
    return _MADE_HERE.search(name) is not None


def slug(text: str) -> str:
    """`text` as the name of a folder: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:LONGEST_BASE] or "question"


def copy_folder(source: Path, target: Path, root: Path, left_out: LeftOut | None = None) -> None:
    """Copy `source` to `target`, which must not exist. What links point at is copied in their place.

    So nothing in the copy leads to the original. Links that leave `root` or lead in a circle, and what is neither file
    nor folder, are handed to `left_out` and not copied; without it they raise `WorkspaceError`. Links that lead nowhere
    stay as they are, and workspaces that runs have made inside `source` are left out.
    """
    try:
        _Copying(root, left_out or _refuse).folder(source, target, (source.resolve(),))
    except OSError as error:
        raise WorkspaceError(f"the workspace {source} cannot be copied: {error}") from None


def check_links(folder: Path, root: Path) -> None:
    """Raise `WorkspaceError` for the first link below `folder` that leaves `root`."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(parent, name)
            why = _wrong_link(place, root, ()) if place.is_symlink() else None
            if why is not None:
                _refuse(place, why)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it; one that is not there is no error. Raises `OSError`."""
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except RecursionError:  # of folders in folders beyond all use
        _remove_deep(folder)


def _remove_deep(folder: Path) -> None:
    pending, found = [str(folder)], []
    while pending:
        found.append(pending.pop())
        with os.scandir(found[-1]) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    Path(entry.path).unlink()
    for empty in reversed(found):
        Path(empty).rmdir()


class _Copying:
    """One copy of a folder, bounded: a few links to folders that link on could else fill any disk."""

    def __init__(self, root: Path, left_out: LeftOut) -> None:
        self._root = root
        self._left_out = left_out
        self._followed = 0

    def folder(self, source: Path, target: Path, inside: tuple[Path, ...]) -> None:
        """Copy `source`, which stands in the folders `inside`, to `target`."""
        target.mkdir()
        with os.scandir(source) as entries:
            for entry in entries:
                if not is_made_here(entry.name):
                    self._entry(Path(entry.path), target / entry.name, inside, linked=entry.is_symlink())
        # The copy must be one that can be worked in and removed, whatever the original allows.
        target.chmod(stat.S_IMODE(source.stat().st_mode) | stat.S_IRWXU)

    def _entry(self, place: Path, copied: Path, inside: tuple[Path, ...], *, linked: bool) -> None:
        real = place
        if linked:
            why = _wrong_link(place, self._root, inside)
            if why is not None:
                self._left_out(place, why)
                return
            real = place.resolve()
            if not real.exists():
                copied.symlink_to(place.readlink())
                return
        if real.is_dir():
            if len(inside) > DEEPEST:
                self._left_out(place, f"stands in more than {DEEPEST} folders")
                return
            self._followed += linked
            if linked and self._followed > MOST_LINKED:
                self._left_out(place, f"is a link beyond the {MOST_LINKED} links to folders that are followed")
                return
            try:
                os.scandir(real).close()
            except PermissionError:
                self._left_out(place, "cannot be opened")
                return
            self.folder(real, copied, (*inside, real.resolve()))
        elif real.is_file():
            try:
                shutil.copy2(real, copied)
            except PermissionError:
                self._left_out(place, "cannot be read")
        else:
            self._left_out(place, "is neither a file nor a folder")


def _wrong_link(link: Path, root: Path, inside: tuple[Path, ...]) -> str | None:
    """Why a link cannot be followed from within the folders `inside`; None where it can."""
    try:
        target = link.resolve()
    except RuntimeError:
        return "is a link that leads in a circle"
    if not target.is_relative_to(root):
        return "leaves the workspace root"
    # Caught at the link: one folder later it would be an original of the user's that seems to be in the way.
    if any(folder.is_relative_to(target) for folder in inside):
        return "is a link that leads back to a folder that it is in"
    return None


def _refuse(place: Path, why: str) -> None:
    raise WorkspaceError(f"{place} {why} and cannot be copied: remove it, or replace it by an ordinary file or folder")
