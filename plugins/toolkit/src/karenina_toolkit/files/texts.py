"""Text files: their encoding, decoded by pieces, and their lines."""

from __future__ import annotations

import codecs
import io
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from karenina_toolkit import bounded_files
from karenina_toolkit.bounded_files import FileError

UTF8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PIECE: Final = 1 << 16


def open_text(path: Path, *, any_size: bool = False) -> IO[bytes]:
    """Open a file, or the content of a pipe, within the bounds of files. Raises `FileError`."""
    try:
        is_pipe = stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        is_pipe = False
    return io.BytesIO(bounded_files.read_bytes(path)) if is_pipe else bounded_files.open_file(path, any_size=any_size)


def find_encoding(start: bytes, path: Path, encoding: str | None = None) -> tuple[str, int]:
    """Return the encoding of a file by its first bytes, and the length of its byte-order mark.

    A byte-order mark decides, even against `encoding`; without both it is UTF-8. Raises `FileError` for an unknown
    `encoding`, and for UTF-16 or UTF-32 that nothing names.
    """
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name, len(mark)
    if encoding is None:
        zero = start[:4].find(0)
        if zero >= 0 and any(start[:4]):
            what = "there is a zero byte: it is probably UTF-16 or UTF-32 without a byte-order mark"
            raise FileError(path, f"byte {zero}", what, "save it with the encoding UTF-8")
        return UTF8, 0
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError, ValueError) as error:
        raise FileError(path, "", f"there is no encoding {encoding!r}", "write one such as utf-8 or cp1252") from error
    return name, 0


def decode(data: bytes, path: Path, encoding: str | None = None, where: str = "") -> str:
    """Return bytes as text, without a byte-order mark. Raises `FileError` with the first byte that is not text.

    `where` is the place of the bytes in the file, if they are a part of it.
    """
    name, start = find_encoding(data[:4], path, encoding)
    try:
        return str(data[start:], name)
    except UnicodeError as error:
        raise encoding_error(path, error, name, encoding, where, start) from error


def iter_lines(
    file: IO[bytes],
    path: Path,
    encoding: str | None = None,
    *,
    newline: str = "\n",
    any_size: bool = False,
    longest: int = bounded_files.LONGEST_LINE,
) -> Iterator[str]:
    """Yield the lines of an open file, decoded by pieces, with their ends. Raises `FileError`.

    `newline` is that of `io.StringIO`: with `""`, lines also end at a carriage return. A line has at most `longest`
    characters.
    """
    most = bounded_files.max_file_bytes()
    longest = longest if any_size else min(longest, most)
    waiting: list[str] = []
    length, number = 0, 1
    for piece in _iter_pieces(file, path, encoding, newline, None if any_size else most):
        for line in io.StringIO(piece, newline=newline):
            if not waiting and line[-1] == "\n" and len(line) <= longest:
                yield line
                number += 1
                continue
            waiting.append(line)
            length += len(line)
            if length > longest:
                what = f"the line is longer than {bounded_files.format_size(longest)}"
                raise FileError(path, f"line {number}", what, "split it, or shorten its longest text")
            if line[-1] == "\n" or (line[-1] == "\r" and not newline):
                yield "".join(waiting)
                waiting.clear()
                length, number = 0, number + 1
    if waiting:
        yield "".join(waiting)


def _iter_pieces(file: IO[bytes], path: Path, encoding: str | None, newline: str, most: int | None) -> Iterator[str]:
    start = _read(file, path, 4)
    name, seen = find_encoding(start, path, encoding)
    piece = start[seen:]
    decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(name)()
    ends = io.IncrementalNewlineDecoder(None, translate=False) if not newline else None  # a CR waits for its LF
    at_end = False
    while not at_end:
        more = _read(file, path, _PIECE)
        at_end, piece = not more, piece + more
        seen += len(piece)
        if most is not None and seen > most:  # the file grew since it was opened
            raise bounded_files.too_large_error(path, f"it contains more than {bounded_files.format_size(most)}", most)
        try:
            text = decoder.decode(piece, at_end)
        except UnicodeError as error:
            before = seen - len(error.object) if isinstance(error, UnicodeDecodeError) else 0
            raise encoding_error(path, error, name, encoding, "", before) from error
        piece = b""
        text = ends.decode(text, at_end) if ends is not None else text
        if text:
            yield text


def _read(file: IO[bytes], path: Path, count: int) -> bytes:
    try:
        return file.read(count) or b""  # some system files return None if they have no data
    except OSError as error:
        raise bounded_files.unreadable_error(path, error) from error


def encoding_error(
    path: Path, error: UnicodeError, name: str, asked: str | None, where: str = "", before: int = 0
) -> FileError:
    """Return the error of bytes that are not text, of which `before` bytes were not given to the decoder."""
    place = f"byte {before + error.start}" if isinstance(error, UnicodeDecodeError) else ""
    cure = "save it with the encoding UTF-8"
    if asked is not None and name != UTF8:
        cure = "give the encoding that it was saved with, or save it with the encoding UTF-8"
    what = f"the text is not {name.upper() if name.startswith('utf') else name}"
    return FileError(path, ", ".join(filter(None, (where, place))), what, cure)
