"""Checks of names of files: whether they are plain words, stay in a folder, or name one file twice."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
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


def describe_repeated(files: Iterable[Path]) -> str | None:
    """Return that a file is given twice, also under another name or through a link; None if none is."""
    seen: dict[Path, Path] = {}
    for file in files:
        try:
            real = resolve_links(file)
        except OSError:  # reading it reports the loop
            continue
        if real in seen:
            return f"{file} is given twice" if seen[real] == file else f"{file} is the same file as {seen[real]}"
        seen[real] = file
    return None
