"""Reading of untrusted files within a size limit, without waiting for devices.

The limit is 100 MB per file. Change it with the argument `max_bytes` or the environment variable
`KARENINA_MAX_FILE_BYTES`.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from karenina_core.errors import ConfigError, KareninaError
from karenina_toolkit.files.safe_paths import open_folder, resolve_links

if TYPE_CHECKING:
    from io import BufferedReader

MAX_BYTES: Final = 100_000_000
"""The default size limit for files, in bytes."""
VARIABLE: Final = "KARENINA_MAX_FILE_BYTES"
"""The environment variable that sets another size limit."""
LONGEST_LINE: Final = 64_000_000
"""The maximum number of bytes in a line when reading line by line."""
_PIECE: Final = 1 << 20
_PATIENCE: Final = 30.0
"""The number of seconds without data after which reading from a pipe fails."""
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)

_POINTER: Final = b"version https://git-lfs.github.com/spec/"
"""How a file begins that stands for one in Git LFS."""
_LONGEST_POINTER: Final = 1024

# Without O_NONBLOCK, opening a pipe waits for a writer; for a regular file it has no effect.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_allowed: ContextVar[int | None] = ContextVar("karenina_max_bytes", default=None)
_folder: ContextVar[Path | None] = ContextVar("karenina_folder", default=None)


class FileError(KareninaError, ValueError):
    """Raised if a file cannot be read.

    `where` is the location in the file (empty for the whole file), `what` is the problem, and `cure` is the suggested
    fix.
    """

    def __init__(self, path: str | Path, where: str, what: str, cure: str) -> None:
        super().__init__(f"{path}{f', {where}' if where else ''}: {what}; {cure}")
        self.path = Path(path)
        self.where = where
        self.what = what
        self.cure = cure


@contextmanager
def limit_file_size(max_bytes: int | None) -> Iterator[None]:
    """Limit files to `max_bytes` inside the `with` block. None keeps the current limit. Raises `ValueError` if
    `max_bytes` is less than 1.
    """
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(f"max_bytes must be a positive number of bytes, not {max_bytes}")
    before = _allowed.set(_allowed.get() if max_bytes is None else max_bytes)
    try:
        yield
    finally:
        _allowed.reset(before)


@contextmanager
def open_only_below(folder: Path | None) -> Iterator[None]:
    """Make this module's functions refuse to open files outside `folder` inside the `with` block, even if a path is
    replaced by a link after it was checked. If `folder` is None, all files are allowed.
    """
    before = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(before)


def max_file_bytes() -> int:
    """Return the current size limit for files, in bytes: that of `limit_file_size`, otherwise of the environment
    variable `VARIABLE`, otherwise `MAX_BYTES`. Raises `ConfigError` if the variable is not a positive number of bytes.
    """
    allowed = _allowed.get()
    if allowed is not None:
        return allowed
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return MAX_BYTES
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
        raise ConfigError(
            [
                f"the environment variable {VARIABLE} must be a positive number of bytes, such as {MAX_BYTES}; "
                "correct or unset it"
            ]
        )
    return int(text)


def read_text(path: Path, *, max_bytes: int | None = None) -> str:
    """Read a UTF-8 file, without any byte-order mark. `max_bytes` replaces the current limit. Raises `FileError` if the
    file cannot be read, is too large, or is not UTF-8.
    """
    return decode_text(read_bytes(path, max_bytes=max_bytes), path)


def read_bytes(path: Path, *, max_bytes: int | None = None) -> bytes:
    """Return the contents of a file or pipe. Raises `FileError` if it cannot be read, is a Git LFS pointer or has
    more than `max_bytes` (by default, the current limit), or if a pipe is empty or sends nothing for 30 seconds.

    Pipes make arguments such as `-c <(command)` possible.
    """
    with limit_file_size(max_bytes):
        most = max_file_bytes()
        try:
            with _open(path) as file:
                if _kind(file) is None:
                    _check_not_pointer(file, path)
                    _check_size(file, path, most)
                    data = file.read(most + 1) or b""  # some system files return None if they have no data
                elif stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                    data = _read_pipe(file, path, most)
                else:
                    raise _not_a_file(path, file)
        except OSError as error:
            raise unreadable_error(path, error) from error
        if len(data) > most:
            raise too_large_error(path, f"the file contains more than {format_size(most)}", most)
        return data


def open_file(path: Path, *, any_size: bool = False) -> IO[bytes]:
    """Open a file to read parts of it, and return it. Raises `FileError` if it cannot be opened, is not a regular file
    or is a Git LFS pointer, or is too large. Set `any_size` to disable the size limit.
    """
    try:
        file = _open(path)
        try:
            if _kind(file) is not None:
                raise _not_a_file(path, file)
            _check_not_pointer(file, path)
            if not any_size:
                _check_size(file, path, max_file_bytes())
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise unreadable_error(path, error) from error
    return file


def is_pointer(file: BufferedReader) -> bool:
    """Return whether an open file is a Git LFS pointer, which stands for a file that was not downloaded."""
    return os.fstat(file.fileno()).st_size < _LONGEST_POINTER and file.peek(len(_POINTER)).startswith(_POINTER)


def iter_lines(file: IO[bytes], path: Path, *, any_size: bool = False) -> Iterator[bytes]:
    """Yield the lines of an open file with their line endings. Raises `FileError` if a line is longer than
    `LONGEST_LINE`, or if the file exceeds the size limit and `any_size` is false.

    A file may exceed the limit because it has grown since it was opened.
    """
    most, number, seen = max_file_bytes(), 0, 0
    longest = LONGEST_LINE if any_size else min(LONGEST_LINE, most)
    while True:
        try:
            line = file.readline(longest + 1) or b""
        except OSError as error:
            raise unreadable_error(path, error) from error
        if not line:
            return
        number, seen = number + 1, seen + len(line)
        if len(line) > longest:
            what = f"the line is longer than {format_size(longest)}"
            raise FileError(path, f"line {number}", what, "split the line, or shorten its longest string")
        if seen > most and not any_size:  # the file grew since it was opened
            raise too_large_error(path, f"the file contains more than {format_size(most)}", most)
        yield line


def decode_text(data: bytes, path: Path) -> str:
    """Return the text of UTF-8 data, without any byte-order mark. Raises `FileError` if `data` is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(path, f"byte {error.start}", "the text is not UTF-8", "save the file as UTF-8") from error


def unreadable_error(path: Path, error: OSError) -> FileError:
    """Return the exception for a file that cannot be opened or read because of `error`, with a fix."""
    if isinstance(error, FileNotFoundError):
        return FileError(path, "", "the file does not exist", "check the path")
    return FileError(
        path, "", f"the file cannot be read: {error.strerror or error}", "check the path and its permissions"
    )


def too_large_error(path: Path, what: str, most: int) -> FileError:
    """Return the exception for a file larger than `most` bytes. `what` describes the problem and includes the size."""
    return FileError(path, "", what, size_limit_cure(most))


def size_limit_cure(most: int) -> str:
    """Return a suggestion for raising a size limit of `most` bytes."""
    return (
        f"if you trust the file, set the environment variable {VARIABLE} (in Python, `max_bytes`) to more than {most}"
    )


def _open(path: Path) -> BufferedReader:
    """Open a file for reading bytes, without waiting for a device, and return it. Raises `OSError` if it cannot be
    opened, or is outside the folder that `open_only_below` allows.
    """
    folder = _folder.get()
    handle = os.open(path, _FLAGS) if folder is None else _open_below(folder, path)
    try:
        return os.fdopen(handle, "rb")
    except BaseException:  # `path` is a folder
        os.close(handle)
        raise


def _open_below(folder: Path, path: Path) -> int:
    """Open `path`, which must be inside `folder`, and return the file descriptor. Raises `OSError` if it is outside."""
    root, file = resolve_links(folder), resolve_links(path)
    if not file.is_relative_to(root):
        raise OSError(errno.EXDEV, f"the path is outside {folder}")
    if os.open not in os.supports_dir_fd:  # Windows, where only administrators make links
        return os.open(file, _FLAGS)
    with open_folder(root, file.parent) as parent:
        return os.open(file.name, _FLAGS | os.O_NOFOLLOW, dir_fd=parent)


def _kind(file: IO[bytes]) -> str | None:
    """Return the type of an open file in words, or None for a regular file."""
    mode = os.fstat(file.fileno()).st_mode
    return next((name for is_one, name in _KINDS if is_one(mode)), None)


def _not_a_file(path: Path, file: IO[bytes]) -> FileError:
    return FileError(
        path, "", f"the path is {_kind(file)}, not a file", "write the contents to a file and use that file"
    )


def _check_not_pointer(file: BufferedReader, path: Path) -> None:
    """Raise `FileError` if a file is a Git LFS pointer, because its content was not downloaded."""
    if is_pointer(file):
        raise FileError(path, "", "the file is a Git LFS pointer, not the actual content", "run `git lfs pull`")


def _check_size(file: IO[bytes], path: Path, most: int) -> None:
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise too_large_error(path, f"the file size is {format_size(size)}, but the limit is {format_size(most)}", most)


def _read_pipe(file: IO[bytes], path: Path, most: int) -> bytes:
    """Return the contents of a pipe, up to slightly more than `most` bytes. Raises `FileError` if the pipe is empty or
    sends nothing for 30 seconds.
    """
    handle, data = file.fileno(), bytearray()
    cure = "write the contents to a file and use that file"
    while len(data) <= most:
        try:
            piece = os.read(handle, _PIECE)
        except BlockingIOError:  # there is a writer, and nothing to read yet
            poll = select.poll()
            poll.register(handle, select.POLLIN | select.POLLHUP)
            if not poll.poll(_PATIENCE * 1000):
                raise FileError(path, "", f"the pipe sent no data for {_PATIENCE:g} seconds", cure) from None
            continue
        if not piece:
            break
        data += piece
    if not data:
        raise FileError(path, "", "the pipe ended without sending any data", cure)
    return bytes(data)


def format_size(count: int) -> str:
    """Format a number of bytes, such as `999,999 bytes`, `1.5 MB` or `2,500 MB`."""
    return f"{count / 1e6:,.1f} MB".replace(".0 MB", " MB") if count >= 1_000_000 else f"{count:,} bytes"


def check_unpacked_size(path: Path, size: int) -> None:
    """Raise `FileError` if a file's unpacked size, in bytes, exceeds the limit."""
    limit = max_file_bytes()
    if size > limit:
        unpacked, allowed = format_size(size), format_size(limit)
        what = f"the unpacked size is {unpacked}, but the limit is {allowed}"
        raise too_large_error(path, what, limit)
