"""Names from files of others: whether they are plain words, or paths that stay in a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_plain_name(text: str) -> bool:
    """Return whether `text` is a word that cannot be a path: a letter or digit, then letters, digits and `._-`."""
    return _PLAIN_NAME.fullmatch(text) is not None


def stays_below(folder: Path, name: str) -> bool:
    """Return whether a path, relative to `folder`, stays in it with all links resolved."""
    try:
        return (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL byte
        return False
