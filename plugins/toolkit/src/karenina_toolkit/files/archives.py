"""Reading of untrusted zip archives that limits how much is unpacked.

`zipfile` only compares an entry with its stated size after unpacking it. By then, it may have unpacked up to 2 GB for
deflate, and any amount for LZMA or bzip2.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import IO, Final, cast

from karenina_core.catalog import install_command
from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.bounded_files import FileError

_ZSTANDARD: Final = 93
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_NAMES: Final = {12: "bzip2", 14: "LZMA", 95: "xz"}
_ENCRYPTED: Final = 1
_PIECE: Final = 1 << 16
_ENTRY: Final = b"PK\x01\x02"
_MIN_ENTRY_LIMIT: Final = 10_000
_BYTES_PER_ENTRY: Final = 500
"""The approximate memory needed for an entry, in bytes.

The maximum number of entries is the file size limit divided by this number. By default, this is 200,000.
"""
_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class Archive:
    """An open archive. `names` lists its entries in order."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, zstandard_extra: str) -> None:
        self._path = path
        self._archive = archive
        self._zstandard_extra = zstandard_extra
        self.names = tuple(archive.namelist())

    def __contains__(self, name: str) -> bool:
        """Return whether the archive has an entry with the given name."""
        return name in self._archive.NameToInfo

    def read(self, name: str) -> bytes:
        """Read an entry. Raises `KeyError` if the entry does not exist, and `FileError` if it cannot be unpacked."""
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the unpacked contents of an entry in pieces, up to its stated size. Raises `KeyError` if the entry does
        not exist, and `FileError`, possibly after some pieces, if it cannot be unpacked or does not have the stated
        size or checksum.
        """
        entry = self._archive.getinfo(name)
        if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
            method = _NAMES.get(entry.compress_type, f"method {entry.compress_type}")
            what = (
                "the entry is encrypted" if entry.flag_bits & _ENCRYPTED else f"the entry is compressed with {method}"
            )
            cure = "rewrite the archive without compression, or with deflate or Zstandard"
            raise FileError(self._path, name, f"{what}, which is not supported", cure)
        packed = copy(entry)
        packed.compress_type, packed.file_size, packed.CRC = zipfile.ZIP_STORED, entry.compress_size, cast("int", None)
        size = digest = 0
        try:
            with self._archive.open(packed) as raw:
                for piece in self._unpack(raw, entry.compress_type, name):
                    size, digest = size + len(piece), zlib.crc32(piece, digest)
                    if size > entry.file_size:
                        break
                    yield piece
        except FileError:
            raise
        except _ERRORS as error:
            raise FileError(
                self._path, name, f"the entry cannot be unpacked: {error}", "get a new copy of the file"
            ) from error
        if (size, digest) != (entry.file_size, entry.CRC):
            what = "the size or checksum of the unpacked entry differs from the one stated in the archive"
            raise FileError(self._path, name, what, "get a new copy of the file")

    def _unpack(self, raw: IO[bytes], method: int, name: str) -> Iterator[bytes]:
        """Unpack `raw`, yielding pieces of limited size. `method` is the archive's compression method: deflate or
        Zstandard. Any other value means that the contents are not compressed.
        """
        if method == zipfile.ZIP_DEFLATED:
            yield from _inflate(raw)
        elif method == _ZSTANDARD:
            yield from self._unpack_zstandard(raw, name)
        else:
            while piece := raw.read(_PIECE):
                yield piece

    def _unpack_zstandard(self, raw: IO[bytes], name: str) -> Iterator[bytes]:
        """Unpack Zstandard data, yielding pieces. Raises `FileError` if the zstandard library is not installed, and
        `BadZipFile` if the data is damaged.
        """
        try:
            import zstandard
        except ImportError as error:
            what = "the entry is compressed with Zstandard, which requires the zstandard library"
            cure = f"install it with: {install_command(self._zstandard_extra)}"
            raise FileError(self._path, name, what, cure) from error
        try:
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as reader:
                while piece := reader.read(_PIECE):
                    yield piece
        except (zstandard.ZstdError, MemoryError) as error:
            raise zipfile.BadZipFile(f"the Zstandard data is damaged: {error}") from error


def _inflate(raw: IO[bytes]) -> Iterator[bytes]:
    """Unpack deflate data, yielding pieces. Raises `EOFError` if the data ends too early."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflater.eof and (packed := raw.read(_PIECE)):
        while packed:
            yield inflater.decompress(packed, _PIECE)
            packed = inflater.unconsumed_tail
    yield inflater.flush()  # the rest of the last block: a few kilobytes
    if not inflater.eof:
        raise EOFError("the compressed data ends prematurely")


@contextmanager
def open_archive(path: Path, file: IO[bytes], *, zstandard_extra: str, kind: str = "archive") -> Iterator[Archive]:
    """Open the zip archive in `file`, and yield it. Raises `FileError` if it is damaged, has too many entries, would be
    too large after unpacking, or has two entries with the same name. Messages call the archive `kind`, and name
    `zstandard_extra` as the package to install for Zstandard.

    Entries may be stored, or compressed with deflate or Zstandard.
    """
    limit = max(_MIN_ENTRY_LIMIT, bounded_files.max_file_bytes() // _BYTES_PER_ENTRY)
    if _count_entries(file) > limit:
        cure = bounded_files.size_limit_cure(bounded_files.max_file_bytes())
        raise FileError(path, "", f"the archive has more than {limit:,} entries", cure)
    try:
        archive = zipfile.ZipFile(file)
    except _ERRORS as error:
        raise FileError(path, "", f"the {kind} is damaged: {error}", "get a new copy of the file") from error
    with archive:
        bounded_files.check_unpacked_size(path, sum(entry.file_size for entry in archive.infolist()))
        seen: set[str] = set()
        for name in archive.namelist():
            if name in seen:
                raise FileError(
                    path, "", f"the archive has more than one entry named {name!r:.200}", "get a new copy of the file"
                )
            seen.add(name)
        yield Archive(path, archive, zstandard_extra)


def _count_entries(file: IO[bytes]) -> int:
    """Return an upper bound on the number of entries by counting their signatures, before `zipfile` reads them."""
    count, end = 0, b""
    file.seek(0)
    while piece := file.read(_PIECE):
        piece = end + piece
        count += piece.count(_ENTRY)
        end = piece[-len(_ENTRY) + 1 :]
    return count
