"""Read text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_benchmark.errors import CheckpointError
from karenina_toolkit.files import bounded_files

if TYPE_CHECKING:
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
