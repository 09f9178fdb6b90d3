"""Removal of the workspaces that runs create, including those of killed runs.

A later run only removes folders with a name that a run creates, below its own workspace root.
"""

from __future__ import annotations

from pathlib import Path

from karenina_toolkit.files import created_folders
from karenina_toolkit.files.workspace_copy import CLEANUP_LIST, is_created_name


def remove_orphans(root: Path) -> None:
    """Remove the workspaces below `root` that killed runs left behind. `root` must be resolved."""

    def is_own(path: Path) -> bool:
        return is_created_name(path.name) and path.parent.resolve().is_relative_to(root)

    created_folders.remove_orphans(CLEANUP_LIST.kind, is_own)
