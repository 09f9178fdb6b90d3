"""Workspace paths: folders below the workspace root, and folder names that no two runs share."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from karenina_core.errors import KareninaError
from karenina_toolkit.files.safe_paths import resolve_links

LONGEST_BASE: Final = 80
"""Maximum number of characters from a folder's name in the names of its copies."""

_CREATED_NAME = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+(_rep\d+)?_[0-9a-f]{8}(_trace_.*\.txt)?$")


class WorkspaceError(KareninaError, ValueError):
    """Raised when a workspace is unavailable or not allowed. The message says which one, why, and how to fix it."""


def resolve_root(root: Path | None) -> Path:
    """Return the workspace root.

    Raises `WorkspaceError` if it is None, not a folder, or if any part of its path is a link. Links in the configured
    root were resolved when the run started; a link found now was created later, perhaps by an attacker.
    """
    if root is None:
        raise WorkspaceError(
            "no workspace root is set: set workspace_root in the configuration, or benchmark.workspace_root"
        )
    try:
        found = resolve_links(root)
        exists = found.is_dir()
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"the workspace root {root} cannot be used: {error}") from None
    if found != root.absolute():
        raise WorkspaceError(f"the workspace root {root} leads to {found}: set workspace_root to that folder itself")
    if not exists:
        raise WorkspaceError(f"the workspace root {root} is not a folder: create it, or set workspace_root to another")
    return found


def resolve_folder(root: Path, path: str) -> Path:
    """Return the folder at `path` below `root`, with links resolved.

    Raises `WorkspaceError` if it is not a folder, and for `..`, absolute paths, the root itself, and links out of the
    root.
    """
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or ".." in wanted.parts or "\0" in path:
        raise WorkspaceError(f"workspace_path {path!r} is refused: give a path relative to the root, without '..'")
    try:
        found = resolve_links(root / wanted)
        exists = found.is_dir()
    except OSError as error:
        raise WorkspaceError(f"workspace_path {path!r} cannot be used: {error}") from None
    if not found.is_relative_to(root):
        raise WorkspaceError(f"workspace_path {path!r} is refused: it is a link out of the workspace root {root}")
    if found == root:
        raise WorkspaceError(f"workspace_path {path!r} is the workspace root itself: give a folder inside it")
    if not exists:
        raise WorkspaceError(
            f"there is no folder {path!r} in the workspace root {root}: create it, or correct workspace_path"
        )
    return found


def unique_name(base: str, kind: Literal["run", "judge"], replicate: int | None) -> str:
    """Return a name that no other run uses: `{base}_{kind}_{time}_pid{pid}[_rep{n}]_{random}`.

    If `base` is itself such a name, only its own base is used; long bases are cut.
    """
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    repetition = f"_rep{replicate}" if replicate is not None else ""
    own = _CREATED_NAME.sub("", base)[:LONGEST_BASE]
    return f"{own}_{kind}_{time}_pid{os.getpid()}{repetition}_{secrets.token_hex(4)}"


def is_created_name(name: str) -> bool:
    """Return whether `name` is one that a run gave to a file or folder; workspace copies leave these out."""
    return _CREATED_NAME.search(name) is not None


def make_slug(text: str) -> str:
    """Return `text` as a folder name of ASCII letters, digits, dots, dashes and underscores.

    Long texts are cut; if nothing is left, the name is `question`.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:LONGEST_BASE] or "question"


def printable_path(place: Path) -> str:
    """Return `place` for a message, escaped if it contains unprintable characters such as line breaks."""
    return str(place) if str(place).isprintable() else ascii(str(place))
