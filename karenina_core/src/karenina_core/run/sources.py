"""The folders that questions name for agents to work in: what lies there decides what is found out."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from karenina_core.benchmark import Question
    from karenina_core.config import VerificationConfig

_COPY: Final = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+")
"""In the names of copies that runs make, which may lie in the folder of another question."""


def source_folder(config: VerificationConfig, question: Question) -> Path | None:
    """The folder that the question names, where agents get copies of it; None where there is none or no root.

    Where they change the folder itself (`workspace_copy` is off), no later run finds it as the first did, and None is
    returned as well.
    """
    if question.workspace_path is None or not config.has("workspace_root") or not config.setting("workspace_copy"):
        return None
    root = config.setting("workspace_root")
    return Path(root) / question.workspace_path if root is not None else None


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files below `folder`, with what cannot be read left out."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _COPY.search(name) is None)
        for name in sorted([*files, *folders]):
            path = Path(place, name)
            digest.update(f"{path.relative_to(folder).as_posix()!a} ".encode())
            if path.is_symlink():
                digest.update(f"-> {str(path.readlink())!a} ".encode())
            if path.is_file():
                digest.update(_content(path))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""
