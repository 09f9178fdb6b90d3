"""Text files, their encodings and their lines."""

from __future__ import annotations

import codecs
import io
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.printable import shorten

UTF8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
AUTO: Final = "auto"
"""The encoding name that requests recognition from the contents (see `recognize_encoding`)."""
_PIECE: Final = 1 << 16
_SAMPLE: Final = 4096
_CP1252: Final = "cp1252"
_UTF8_SEQUENCE: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_UPPER: Final = "\u00c0-\u00d6\u00d8-\u00de\u0152\u0160\u017d\u0178"
_LOWER: Final = "\u00df-\u00f6\u00f8-\u00ff\u0153\u0161\u017e"
_OUTSIDE: Final = (
    "\u20ac\u2122\u2026\u2022\u2030\u2039\u203a\u201a\u201c\u201d\u201e\u00a0-\u00a3\u00a7\u00a9-\u00ab\u00ae\u00b0-\u00b3"
    "\u00b5\u00ba-\u00bf\u00f7"
)
"""Characters that never occur between two letters."""
_INSIDE: Final = "\u2018\u2019\u2013\u2014\u00b7\u00d7"
_UNLIKELY: Final = lazy_pattern(
    rf"[^\x00-\x7f{_UPPER}{_LOWER}{_OUTSIDE}{_INSIDE}]|[a-z{_LOWER}][{_UPPER}]"
    rf"|(?<=[^\W\d_])[{_OUTSIDE}](?=[^\W\d_])|\u00a3(?=[^\W\d_])|[{_UPPER}{_LOWER}]{{3}}"
)
"""Character sequences that are rare in cp1252 text but frequent if other encodings are misread as cp1252."""
_MOST_ACCENTS: Final = 0.25
"""The maximum share of non-English letters in a cp1252 file."""
_FEW_ACCENTS: Final = 3
_SHOWN: Final = lazy_pattern(r"\S*[^\x00-\x7f]\S*")


def open_text(path: Path, *, any_size: bool = False) -> IO[bytes]:
    """Open a file or pipe within the size limit, and return it for reading bytes. Raises `FileError` if it cannot be
    opened or is too large. With `any_size`, only pipes are limited.
    """
    try:
        is_pipe = stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        is_pipe = False
    return io.BytesIO(bounded_files.read_bytes(path)) if is_pipe else bounded_files.open_file(path, any_size=any_size)


def find_encoding(start: bytes, path: Path, encoding: str | None = None) -> tuple[str, int]:
    """Return a file's encoding and the length of its byte-order mark. A mark in its first bytes, `start`, takes
    precedence over `encoding`, and the default is UTF-8. Raises `FileError` if there is no mark, and `encoding` is
    unknown, or None although the bytes look like UTF-16 or UTF-32.
    """
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name, len(mark)
    if encoding is None:
        zero = start[:4].find(0)
        if zero >= 0 and any(start[:4]):
            what = "found a zero byte, so the file is probably UTF-16 or UTF-32 without a byte-order mark"
            raise FileError(path, f"byte {zero}", what, "save the file as UTF-8")
        return UTF8, 0
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError, ValueError) as error:
        raise FileError(
            path, "", f"unknown encoding {encoding!r}", "use an encoding such as utf-8 or cp1252"
        ) from error
    return name, 0


def recognize_encoding(file: IO[bytes], path: Path) -> tuple[str, str]:
    """Recognize the encoding of an open, seekable file, and reset its position. Return the encoding with a note, which
    is empty unless it was guessed. Raises `FileError` if it is uncertain, because a wrong encoding would silently
    change the text.

    A byte-order mark takes precedence, then zero bytes (UTF-16 and UTF-32), then whether the whole file is valid UTF-8.
    Anything else is cp1252 if it reads like a language written in it.
    """
    start = _read(file, path, _SAMPLE)
    encoding = next((name for mark, name in _MARKS if start.startswith(mark)), None) or _find_wide(start)
    if encoding is not None:
        file.seek(0)
        marked = any(start.startswith(mark) for mark, _ in _MARKS)
        return encoding, "" if marked else f"{path.name} has no byte-order mark and was read as {encoding.upper()}"
    bad = _find_not_utf8(file, path)
    example = "" if bad is None else _example_of_cp1252(file, path)
    file.seek(0)
    if bad is None:
        return UTF8, ""
    if example:
        cure = "if that is wrong, set the encoding with --encoding"
        return (
            _CP1252,
            f"{path.name} is not UTF-8 and was read as cp1252 (for example, {shorten(repr(example), 60)}); {cure}",
        )
    what = "the text is not UTF-8, and its encoding could not be determined reliably"
    cure = (
        "set the encoding with --encoding (such as cp1250, cp1251, mac_roman, shift_jis or gb18030), or save the "
        "file as UTF-8"
    )
    raise FileError(path, f"byte {bad}", what, cure)


def _find_wide(start: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 encoding suggested by the positions of zero bytes, or None."""
    for name, width, place in (("utf-32-le", 4, 0), ("utf-32-be", 4, 3), ("utf-16-le", 2, 0), ("utf-16-be", 2, 1)):
        shares = [start[number::width].count(0) / max(len(start[number::width]), 1) for number in range(width)]
        if shares.pop(place) < 0.1 and min(shares) > (0.9 if width == 4 else 0.5):
            return name
    return None


def _find_not_utf8(file: IO[bytes], path: Path) -> int | None:
    """Return the position of the first byte that is not valid UTF-8, or None."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    file.seek(0)
    seen = 0
    while True:
        piece = _read(file, path, _PIECE)
        seen += len(piece)
        try:
            decoder.decode(piece, not piece)
        except UnicodeDecodeError as error:
            return seen - len(error.object) + error.start
        if not piece:
            return None


def _example_of_cp1252(file: IO[bytes], path: Path) -> str:
    """Return a word with a non-ASCII character as an example, or an empty string if the file does not read like
    cp1252.
    """
    file.seek(0)
    letters = accents = 0
    example = before = ""
    while piece := _read(file, path, _PIECE):
        piece += file.readline(_PIECE)  # to the end of the line, which ends a word
        try:
            text = before + str(piece, _CP1252)
        except UnicodeDecodeError:
            return ""
        if _UTF8_SEQUENCE.search(piece) or _UNLIKELY.search(text):
            return ""
        before = text[-1]
        letters += sum(map(str.isalpha, text))
        accents += sum(letter.isalpha() for letter in text if letter > "\x7f")
        example = example or next((match[0] for match in _SHOWN.finditer(text)), "")
    return example if accents <= max(letters * _MOST_ACCENTS, _FEW_ACCENTS) else ""


def decode(data: bytes, path: Path, encoding: str | None = None, where: str = "") -> str:
    """Return the text of bytes, without any byte-order mark. Raises `FileError` if they cannot be decoded. `encoding`
    is explained in `find_encoding`. `where` is the location of the bytes if they are only part of the file.
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
    """Yield the lines of an open file with their line endings, decoding it piece by piece. Raises `FileError` if a line
    has more than `longest` characters, bytes cannot be decoded, or the file is too large, which no file is with
    `any_size`.

    `encoding` is explained in `find_encoding`. `newline` has the same meaning as in `io.StringIO`: with `""`, lines
    also end at a carriage return.
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
                raise FileError(path, f"line {number}", what, "split the line, or shorten its longest string")
            if line[-1] == "\n" or (line[-1] == "\r" and not newline):
                yield "".join(waiting)
                waiting.clear()
                length, number = 0, number + 1
    if waiting:
        yield "".join(waiting)


def _iter_pieces(file: IO[bytes], path: Path, encoding: str | None, newline: str, most: int | None) -> Iterator[str]:
    """Yield the text of a file in pieces, without its byte-order mark. If `newline` is empty, a carriage return is
    never separated from its line feed. Raises `FileError` if bytes cannot be decoded, or if the file has more than
    `most` bytes (None: no limit).

    `encoding` is explained in `find_encoding`.
    """
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
            raise bounded_files.too_large_error(
                path, f"the file contains more than {bounded_files.format_size(most)}", most
            )
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
    """Return up to `count` bytes of a file. Raises `FileError` if reading fails."""
    try:
        return file.read(count) or b""  # some system files return None if they have no data
    except OSError as error:
        raise bounded_files.unreadable_error(path, error) from error


def encoding_error(
    path: Path, error: UnicodeError, name: str, asked: str | None, where: str = "", before: int = 0
) -> FileError:
    """Return the exception for bytes that cannot be decoded with the encoding `name`. It names `where` and the byte in
    the file, for which `before` is the number of bytes before those that `error` is about. `asked`, the encoding that
    the caller requested, or None, decides which fix it suggests.
    """
    place = f"byte {before + error.start}" if isinstance(error, UnicodeDecodeError) else ""
    cure = "save the file as UTF-8"
    if asked is not None and name != UTF8:
        cure = "specify the encoding the file was saved with, or save the file as UTF-8"
    what = f"the text is not valid {name.upper() if name.startswith('utf') else name}"
    return FileError(path, ", ".join(filter(None, (where, place))), what, cure)
