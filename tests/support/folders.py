"""Folders with files, as a test lists them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Return the folder, with these files (path below it: text) written into it; missing folders are created."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def nest_folders(folder: Path, depth: int) -> None:
    """Create folders in folders below a folder, deeper than a path can name."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
