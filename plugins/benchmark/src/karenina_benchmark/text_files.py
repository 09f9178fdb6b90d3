"""Read and replace files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from karenina_benchmark.errors import CheckpointError
from karenina_toolkit import bounded_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte-order mark. Raises `CheckpointError`."""
    try:
        return bounded_files.read_text(path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error


def to_checkpoint_error(error: bounded_files.FileError) -> CheckpointError:
    """Return the error of a file that cannot be read as the one of a benchmark."""
    return CheckpointError(error.path, error.where, error.what, error.cure)


def replace_file(path: Path, texts: Iterable[str | bytes]) -> None:
    """Replace a file by `texts` in one step: a reader sees the old file or the new one, also after a crash.

    A link is followed, and the mode of an existing file is kept. Raises `CheckpointError`.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with beside.open("xb") as file:
            for text in texts:
                file.write(text if isinstance(text, bytes) else _encoded(text, path))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise CheckpointError(
            path, "", f"it cannot be written: {error.strerror}", "check that the folder exists and is yours to write"
        ) from error


def _encoded(text: str, path: Path) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        what = f"a text holds half of a character: {text[max(0, error.start - 20) : error.end]!r}"
        raise CheckpointError(path, "", what, "remove it") from error
