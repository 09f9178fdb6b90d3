"""Read text files, and replace files in one step."""

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
    """Convert an error of reading a file to the error of a benchmark's file."""
    return CheckpointError(error.path, error.where, error.what, error.cure)


def replace_file(path: Path, texts: Iterable[str | bytes]) -> None:
    """Replace the content of a file with `texts` in one step: readers see the old file or the new one, even after a
    crash.

    A symbolic link is followed, and the mode of an existing file is kept. Raises `CheckpointError`.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with temporary.open("xb") as file:
            for text in texts:
                file.write(text if isinstance(text, bytes) else _encode(text, path))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise CheckpointError(
            path,
            "",
            f"the file cannot be written: {error.strerror}",
            "check that the folder exists and that you may write to it",
        ) from error


def _encode(text: str, path: Path) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        what = f"a text holds half of a character (a lone surrogate): {text[max(0, error.start - 20) : error.end]!r}"
        raise CheckpointError(path, "", what, "remove it") from error
