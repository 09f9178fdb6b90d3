"""Files that a command writes: complete, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from karenina_engine.results.result_file import check_output, prepare_output
from karenina_report.options import config_error


def write_whole(output: Path, begins: Sequence[bytes], write: Callable[[BinaryIO], None]) -> Path | None:
    """Write a file beside `output`, and give it this name when it is complete.

    An existing file is renamed if it begins with one of `begins`; its new path is returned. Raises `ConfigError` if it
    begins otherwise, and if the output cannot be written.
    """
    check_output(output, lines=begins)
    try:
        part = _write_beside(output, write)
        try:
            moved = prepare_output(output, lines=begins)
            part.chmod(output.stat().st_mode & 0o777)
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise config_error(f"the output {output} cannot be written: {error.strerror or error}") from error
    return moved


def _write_beside(output: Path, write: Callable[[BinaryIO], None]) -> Path:
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
