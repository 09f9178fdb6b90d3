"""Output files that are written completely or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from karenina_engine.results.result_file import check_output, prepare_output
from karenina_report.options import config_error
from karenina_toolkit.files import replace_file


def write_whole(output: Path, begins: Sequence[bytes], write: Callable[[BinaryIO], None]) -> Path | None:
    """Write a temporary file beside `output`, and rename it to `output` when it is complete.

    `write` writes to the open file. An existing file is renamed if it starts with one of `begins`; its new path is
    returned. Raises `ConfigError` if it starts otherwise, or if the output cannot be written.
    """
    check_output(output, lines=begins)
    moved: Path | None = None

    def write_and_make_room(file: BinaryIO) -> None:
        nonlocal moved
        write(file)
        file.flush()  # a full disk is detected before an earlier file is renamed
        moved = prepare_output(output, lines=begins)

    try:
        replace_file(output, write_and_make_room)
    except OSError as error:
        raise config_error(f"the output {output} cannot be written: {error.strerror or error}") from error
    return moved
