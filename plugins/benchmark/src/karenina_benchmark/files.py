"""Load and save benchmarks in the formats that are installed; read and replace files."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.formats import format_of, formats, known_suffixes
from karenina_core import plugins
from karenina_core.errors import KareninaError
from karenina_toolkit import files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from karenina_benchmark.benchmark import Benchmark
    from karenina_benchmark.formats import CheckPaths, Format
    from karenina_core.plugins import Offer

logger = logging.getLogger("karenina")


def load(path: Path, check_paths: CheckPaths) -> Benchmark:
    """Read a benchmark in any format that is installed. Raises `CheckpointError`, and what `check_paths` raises.

    Plugins are loaded first: they may bring formats, kinds of traits and primitives that the file uses.
    """
    installed = plugins.current()
    suffix = path.suffix.lower()
    if any(suffix in one.value.suffixes for one in formats(installed)):
        return _read(format_of(installed, path, suffix), path, check_paths)
    try:
        return _read(format_of(installed, path, _told_by_content(path)), path, check_paths)
    except CheckpointError as error:
        endings = known_suffixes(formats(installed))
        cure = f"{error.cure}; or is it of another form? Endings that are known: {endings}"
        raise CheckpointError(error.file, error.where, error.what, cure) from error


def _read(offer: Offer[Format], path: Path, check_paths: CheckPaths) -> Benchmark:
    try:
        benchmark = offer.value.read(path, check_paths)
    except (KareninaError, ValueError):
        raise
    except Exception as error:
        raise _failed(path, offer, error) from error
    benchmark.path = path
    benchmark.stated_root = benchmark.workspace_root
    return benchmark


def save(benchmark: Benchmark, path: Path) -> None:
    """Write a benchmark in the format that the suffix of `path` names. Raises `CheckpointError`."""
    offer = format_of(plugins.current(), path, path.suffix.lower(), writes=True)
    assert offer.value.write is not None, "formats without are left out"
    replace(path, offer.value.write(benchmark, path))


def _told_by_content(path: Path) -> str:
    """Return the suffix for a file that has an unknown one: a checkpoint begins with a brace."""
    return ".jsonld" if read_text(path).lstrip().startswith("{") else ".yaml"


def _failed(path: Path, offer: Offer[Format], error: Exception) -> CheckpointError:
    logger.debug("%s cannot be read", path, exc_info=error)
    return CheckpointError(
        path,
        "",
        f"reading {offer.value.name} failed in {offer.distribution} {offer.version}: {plugins.described(error)}",
        f"report it to the authors of {offer.distribution}",
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


def replace(path: Path, texts: Iterable[str | bytes]) -> None:
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
