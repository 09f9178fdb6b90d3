"""Which form a file of a benchmark has, and how files are read and replaced."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from karenina_core import files, plugins
from karenina_core.benchmark.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from karenina_core.benchmark.benchmark import Benchmark

logger = logging.getLogger("karenina")

CheckPaths = Callable[["Path", Sequence[str]], bool | None]
"""Called with a benchmark's file and the files that it wants to be read, before any of them is opened.

It raises if they may not be read; False leaves those out that lead out of the folder.
"""

CHECKPOINT_ENDINGS = (".jsonld", ".json")
READABLE_ENDINGS = (".yaml", ".yml")
LINES_ENDINGS = (".jsonl", ".ndjson")


def load(path: Path, check_paths: CheckPaths) -> Benchmark:
    """Read a benchmark of any form. Raises `CheckpointError`, and what `check_paths` raises.

    Plugins are loaded first: they may bring kinds of traits and primitives that the file uses.
    """
    plugins.current()
    ending = path.suffix.lower()
    if ending in LINES_ENDINGS:
        from karenina_core.benchmark.lines import read_lines

        benchmark, ids = read_lines(path)
        unread = [f"`unread` of question {id}" for id in ids]
    else:
        benchmark = _whole(path, ending, check_paths)
        unread = [f"{name} (question {one.id})" for one in benchmark for name in one.unread]
    benchmark.path = path
    _warn_of_unread([*benchmark.unread, *unread], path)
    benchmark.stated_root = benchmark.workspace_root
    return benchmark


def _whole(path: Path, ending: str, check_paths: CheckPaths) -> Benchmark:
    text = read_text(path)
    if not text.strip():
        raise CheckpointError(path, "", "the file is empty", "save a benchmark to it, or write one by hand as YAML")
    if ending in CHECKPOINT_ENDINGS or (ending not in READABLE_ENDINGS and text.lstrip().startswith("{")):
        from karenina_core.benchmark.checkpoint import read_checkpoint

        return read_checkpoint(text, path)
    from karenina_core.benchmark.readable import read_readable

    return read_readable(text, path, check_paths)


def _warn_of_unread(found: Sequence[str], path: Path) -> None:
    """Say what a file holds that this version does not know: it is kept, and it has no effect."""
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        logger.warning("%s: not known, kept, and without effect: %s%s", path, ", ".join(found[:5]), more)


def save(benchmark: Benchmark, path: Path) -> None:
    """Write a benchmark in the form that the ending of `path` names. Raises `CheckpointError`."""
    ending = path.suffix.lower()
    if ending in CHECKPOINT_ENDINGS:
        from karenina_core.benchmark.checkpoint import checkpoint_text

        replace(path, [checkpoint_text(benchmark, path)])
    elif ending in READABLE_ENDINGS:
        from karenina_core.benchmark.readable import readable_text

        replace(path, [readable_text(benchmark, path)])
    elif ending in LINES_ENDINGS:
        from karenina_core.benchmark.lines import lines_of

        replace(path, lines_of(benchmark, path))
    else:
        raise CheckpointError(
            path,
            "",
            f"the ending {ending!r} does not say which form to write",
            f"use {', '.join(CHECKPOINT_ENDINGS)} for a checkpoint, {', '.join(READABLE_ENDINGS)} for YAML, or "
            f"{LINES_ENDINGS[0]} for a question a line",
        )


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte-order mark. Raises `CheckpointError`."""
    try:
        return files.read_text(path)
    except files.FileError as error:
        raise of_file(error) from error


def of_file(error: files.FileError) -> CheckpointError:
    """Return the error of a file that cannot be read as the one of a benchmark."""
    return CheckpointError(error.path, error.where, error.what, error.cure)


def replace(path: Path, texts: Iterable[str]) -> None:
    """Replace a file by `texts` in one step: a reader sees the old file or the new one, also after a crash.

    A link is followed, and the mode of an existing file is kept. Raises `CheckpointError`.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with beside.open("xb") as file:
            for text in texts:
                file.write(_encoded(text, path))
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
