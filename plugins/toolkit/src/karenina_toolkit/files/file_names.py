"""Checks of names from untrusted files: whether they are plain words, or paths that stay in a folder."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_plain_name(text: str) -> bool:
    """Return whether `text` is a word that cannot be a path: a letter or digit, then letters, digits and `._-`."""
    return _PLAIN_NAME.fullmatch(text) is not None


def stays_below(folder: Path, name: str) -> bool:
    """Return whether the path `name`, relative to `folder`, stays in the folder after all links are resolved."""
    try:
        return resolve_links(folder / name).is_relative_to(resolve_links(folder))
    except (OSError, ValueError):  # a symlink loop, a NUL byte
        return False


def resolve_links(path: Path) -> Path:
    """Return `path` with all links resolved; its end need not exist. Raises `OSError` for a symlink loop.

    `Path.resolve` raises `RuntimeError` for a loop before Python 3.13, and nothing since.
    """
    try:
        return Path(os.path.realpath(path, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        return Path(os.path.realpath(path))
