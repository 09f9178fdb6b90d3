"""Read JSON, lines of JSON and archives of other tools, within the bounds of all files."""

from __future__ import annotations

import json
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
from karenina_toolkit import bounded_files
from karenina_toolkit.value_limits import find_problem_in_json

_BLANK: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
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
        return parse_json(bounded_files.read_bytes(path), path, "")


def read_lines(path: Path) -> Iterator[SourceRow]:
    """Yield the JSON objects of a file with one on each line; a line that is none has a problem."""
    with bounded(path), bounded_files.open_file(path) as file:
        for number, line in enumerate(bounded_files.iter_lines(file, path), 1):
            text = line.removeprefix(_BOM) if number == 1 else line
            if not text.strip(_BLANK):
                continue
            place = f"line {number}"
            try:
                values = parse_json(text, path, place)
            except CheckpointError as error:
                yield SourceRow(place, {}, error.what)
                continue
            if isinstance(values, Mapping):
                yield SourceRow(place, values)
            else:
                yield SourceRow(place, {}, "the line is not a JSON object")


def parse_json(data: bytes, path: Path, place: str) -> Any:
    """Return the value of JSON in UTF-8. NaN and the infinities are allowed. Raises `CheckpointError`."""
    try:
        text = data.decode("utf-8-sig")
        found = json.loads(text)
    except UnicodeDecodeError as error:
        raise CheckpointError(path, place, "the text is not UTF-8", "save it with the encoding UTF-8") from error
    except json.JSONDecodeError as error:
        where = place or f"line {error.lineno}, column {error.colno}"
        raise CheckpointError(path, where, f"the JSON is not valid: {error.msg}", "correct it there") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, place, f"the JSON cannot be read: {error}", "correct it there") from error
    trouble = find_problem_in_json(text, found, halves=False)
    if trouble is not None:
        raise CheckpointError(path, place, trouble.what, trouble.cure)
    return found


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive whose unpacked size is within the bounds of files. Raises `CheckpointError`."""
    with bounded(path), bounded_files.open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                limit = bounded_files.max_file_bytes()
                size = sum(entry.file_size for entry in archive.infolist())
                if size > limit:
                    unpacked, allowed = bounded_files.format_size(size), bounded_files.format_size(limit)
                    what = f"it has {unpacked} unpacked, and at most {allowed} are read"
                    raise bounded_files.too_large_error(path, what, limit)
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
