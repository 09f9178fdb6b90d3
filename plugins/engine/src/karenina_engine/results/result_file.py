"""The file that a run writes its results to. Nothing that stands there already is lost."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from karenina_core.errors import ConfigError
from karenina_engine.results.header import is_header

if TYPE_CHECKING:
    from io import FileIO
    from types import TracebackType

RESULT_LINES: Final = (b'{"run":', b'{"metadata":')
"""How the lines of results begin."""
OBJECT_LINES: Final = (b"{",)
"""How the lines of anything begin that is exported."""
_LOOKED_AT: Final = 4096
_BUFFER: Final = 1 << 20
"""Bytes of results that are held at once, while they are written and while they are put in order."""
_READ_TOGETHER: Final = 128
"""Lines that are put in order at a time: more than are out of it, since so many items are under way."""


def default_output(benchmark: Path) -> Path:
    """Where the results of a benchmark go unless the user says: `<name>.results.jsonl` in the working directory."""
    return Path(f"{benchmark.stem}.results.jsonl")


def default_journal(output: Path) -> Path:
    """Where the journal of a run stands unless the user says: beside its results, `<name>.journal`."""
    return output.with_name(output.name.removesuffix(".jsonl").removesuffix(".results") + ".journal")


def check_output(path: Path, *, lines: Sequence[bytes] = RESULT_LINES) -> None:
    """Check that results can be written to `path`, and move nothing. Raises `ConfigError`.

    So it does for a file that is no earlier output, whose first line begins with one of `lines`: it may be the
    benchmark itself, or another file that was named by mistake.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError([f"the output {path} cannot be written: {error.strerror or error}"]) from error
    if stat.S_ISDIR(mode):
        raise ConfigError([f"the output {path} is a folder: name a file in it"])
    if not stat.S_ISREG(mode):
        raise ConfigError(
            [
                f"the output {path} is {_kind(mode)}: results are read again and put in order, so name a regular file "
                "(--json prints them)"
            ]
        )
    try:
        with path.open("rb") as file:
            line, end, _ = file.read(_LOOKED_AT).partition(b"\n")
    except OSError as error:
        raise ConfigError([f"the output {path} cannot be read: {error.strerror or error}"]) from error
    if line and not line.startswith(tuple(lines)) and (end or not is_header(line)):
        raise ConfigError([f"the output {path} holds something else than results, and is left as it is: name another"])


def prepare_output(
    path: Path, *, ours: Callable[[Path], bool] | None = None, lines: Sequence[bytes] = RESULT_LINES
) -> Path | None:
    """Make `path` a new, empty file, and return where an earlier file of that name was moved to, if there was one.

    An earlier file with anything in it is renamed to the first free `name-1.jsonl`, `name-2.jsonl`, ...; so the newest
    results always have the name that was asked for, and the same command can be given again. If `ours` says of the
    renamed file that all it holds will be written once more, it is removed. What a link points to is never touched: the
    link is renamed. The folder is made if it is missing. Raises `ConfigError` if the file could not be written, and as
    `check_output`.
    """
    check_output(path, lines=lines)
    moved, mode = None, None
    try:
        if os.path.lexists(path) and (path.is_symlink() or path.stat().st_size > 0):
            moved = free_name(path)
            path.rename(moved)
            found = moved.lstat()
            if ours is not None and stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and ours(moved):
                mode = stat.S_IMODE(found.st_mode)
                moved.unlink()
                moved = None
        handle = _open_empty(path)
        try:
            if mode is not None:
                os.fchmod(handle, mode)
        finally:
            os.close(handle)
    except OSError as error:
        raise ConfigError([f"the output {path} cannot be written: {error.strerror or error}"]) from error
    return moved


def free_name(path: Path) -> Path:
    """Return the first free one of `name-1.jsonl`, `name-2.jsonl`, ... beside `path`."""
    stem, suffix = (path.name, "") if not path.suffix else (path.name.removesuffix(path.suffix), path.suffix)
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{stem}-{number}{suffix}")):
        number += 1
    return candidate


@contextmanager
def open_line_writer(path: Path) -> Iterator[Callable[[Iterable[str]], None]]:
    """Open a file that `prepare_output` made; yield a function that writes lines to it. Raises `ConfigError`."""

    def refused(error: OSError) -> ConfigError:
        return ConfigError([f"the output {path} cannot be written: {error.strerror or error}"])

    def add(lines: Iterable[str]) -> None:
        for line in lines:
            try:
                file.write(line + "\n")
            except OSError as error:
                raise refused(error) from error

    try:
        file = os.fdopen(_open_empty(path), "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise refused(error) from error
    try:
        yield add
    finally:
        try:
            file.close()
        except OSError as error:
            raise refused(error) from error


def _open_empty(path: Path) -> int:
    """Open a new or empty file. Nothing is cut off, and no link is followed. Raises `OSError`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    found = os.fstat(handle)
    if not found.st_size and (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
        return handle
    os.close(handle)
    raise FileExistsError(errno.EEXIST, "another program has written to it meanwhile")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe (FIFO)"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


class ResultFile:
    """A file of results while it is written: each line as its item ends, and at the end all in the matrix's order.

    So what a run has found out can be read while it lasts, and two runs that find out the same write the same file.
    Lines that come in one turn of the event loop are written together, before the loop waits for anything: a process
    that is killed loses those alone, and none where a journal holds them. It remembers two numbers a line. Used as a
    context, in an event loop; leaving it writes what is left, closes the file, and leaves the order as it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = os.fdopen(_open_empty(path), "wb", buffering=_BUFFER)
        self._places = array("q")
        self._starts = array("q", [0])
        self._flushing: asyncio.Handle | None = None
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._file.close()

    def write(self, place: int, line: str) -> None:
        """Add the line of the item at this place of the matrix.

        Raises `OSError` where it, or a line before it, cannot be written.
        """
        if self._failure is not None:
            raise self._failure
        data = line.encode() + b"\n"
        self._file.write(data)
        self._places.append(place)
        self._starts.append(self._starts[-1] + len(data))
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        try:
            self._file.flush()
        except OSError as error:  # the event loop could do nothing about it; what was not written is still held
            self._failure = error

    def put_in_order(self) -> None:
        """Put the lines into the order of their places. The file is replaced as a whole, or stays as it is.

        Raises `OSError`.
        """
        self._file.flush()
        order = sorted(range(len(self._places)), key=self._places.__getitem__)
        if all(line == at for at, line in enumerate(order)):
            return
        self._check_still_there()
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "wb", buffering=_BUFFER) as out, self._path.open("rb", buffering=0) as lines:
                for at in range(0, len(order), _READ_TOGETHER):
                    out.writelines(self._read(lines, order[at : at + _READ_TOGETHER]))
            Path(name).chmod(self._path.stat().st_mode & 0o777)
            self._check_still_there()
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _check_still_there(self) -> None:
        """Raise `OSError` if the name belongs to another file now, which must not be replaced."""
        if not os.path.samestat(os.fstat(self._file.fileno()), self._path.lstat()):
            raise OSError(f"{self._path} was replaced by something else while the run wrote it, and is left as it is")

    def _read(self, file: FileIO, wanted: Sequence[int]) -> Iterator[bytes | memoryview]:
        """These lines, as they follow one another in `wanted`: with one look at the file where they are near enough."""
        starts = self._starts
        first, last = starts[min(wanted)], starts[max(wanted) + 1]
        if last - first > _BUFFER:
            for line in wanted:
                yield self._piece(file, starts[line], starts[line + 1])
            return
        piece = memoryview(self._piece(file, first, last))
        for line in wanted:
            yield piece[starts[line] - first : starts[line + 1] - first]

    def _piece(self, file: FileIO, first: int, last: int) -> bytes:
        file.seek(first)
        piece = file.read(last - first)
        if len(piece) < last - first:
            raise OSError(f"{self._path} was changed by something else while the run wrote it: it lacks lines")
        return piece
