"""Read JSON, lines of JSON and archives of other tools, within the bounds of all files."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, cast

from karenina_benchmark.errors import CheckpointError
from karenina_importing.source_row import SourceRow
from karenina_toolkit import bounded_files, files

_ZSTANDARD: Final = 93
"""The method of entries of archives that are compressed with Zstandard, as those of Inspect."""
_ENCRYPTED: Final = 1


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Convert the errors of reading `path` to `CheckpointError`."""
    try:
        yield
    except bounded_files.FileError as error:
        raise CheckpointError(error.path, error.where, error.what, error.cure) from error
    except OSError as error:
        raise CheckpointError(path, "", f"it cannot be read: {error.strerror or error}", "check the file") from error


def read_json(path: Path) -> Any:
    """Return the JSON value of a file. Raises `CheckpointError`."""
    with bounded(path):
        return files.read_json(path, surrogates=True)


def read_lines(path: Path) -> Iterator[SourceRow]:
    """Yield the JSON objects of a file with one on each line; a line that is none has a problem."""
    with bounded(path), files.read_records(path, suffix=".jsonl", surrogates=True, keep_problems=True) as records:
        for record in records:
            if record.problem is not None:
                yield SourceRow(record.where, {}, record.problem.what)
            elif isinstance(record.value, Mapping):
                yield SourceRow(record.where, record.value)
            else:
                yield SourceRow(record.where, {}, "the line is not a JSON object")


def parse_json(data: bytes, path: Path, place: str) -> Any:
    """Return the value of JSON in UTF-8. NaN and the infinities are allowed. Raises `CheckpointError`."""
    with bounded(path):
        return files.parse_json(data, path, place, surrogates=True)


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive whose unpacked size is within the bounds of files. Raises `CheckpointError`."""
    with bounded(path), bounded_files.open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                files.check_unpacked_size(path, sum(entry.file_size for entry in archive.infolist()))
                yield archive
        except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeDecodeError, OverflowError) as error:
            raise CheckpointError(path, "", f"the archive is damaged: {error}", "get the file again") from error


def read_entry(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    """Return the JSON value of a file in an archive. Raises `CheckpointError`."""
    try:
        data = _unpack(archive, archive.getinfo(name), path)
    except NotImplementedError as error:
        cure = "convert the log to JSON with the tool that wrote it (`inspect log convert --to json`)"
        raise CheckpointError(path, name, f"it is compressed in an unknown way: {error}", cure) from error
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(path, name, f"it cannot be unpacked: {error}", "get the file again") from error
    return parse_json(data, path, name)


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> bytes:
    """Return the content of a file in an archive, of no more than the stated size. Raises errors of `zipfile`."""
    try:
        return archive.read(entry)
    except NotImplementedError:
        if entry.compress_type != _ZSTANDARD or entry.flag_bits & _ENCRYPTED:
            raise
    packed = copy(entry)
    packed.compress_type, packed.file_size, packed.CRC = zipfile.ZIP_STORED, entry.compress_size, cast("int", None)
    data = _decompress(archive.read(packed), entry.file_size, path, entry.filename)
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise zipfile.BadZipFile("it has another content than the archive states")
    return data


def _decompress(data: bytes, size: int, path: Path, name: str) -> bytes:
    """Return Zstandard frames unpacked, up to a byte over `size`. From Python 3.14 on, `zipfile` unpacks them."""
    try:
        import zstandard
    except ImportError as error:
        what = "it is compressed with Zstandard, which needs the library zstandard"
        cure = 'install it: pip install "karenina-importing[zstd]"'
        raise CheckpointError(path, name, what, cure) from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            return reader.read(size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise zipfile.BadZipFile(f"the Zstandard data is damaged: {error}") from error
