"""The command's standard streams, which may be closed or fail."""

from __future__ import annotations

import errno
import io
import os
import sys
import termios
from typing import IO, TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

FAILED = 70
BROKEN_PIPE = 141


class _Output(io.FileIO):
    """Standard output that records a failed write."""

    failure: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        """Write data. An `OSError` is stored in `failure` and raised."""
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


class _ErrorOutput(io.FileIO):
    """Standard error. Text that cannot be written is dropped, because there is nowhere else to report it."""

    def write(self, data: Buffer, /) -> int:
        """Write data, or drop it if writing fails. Only `BrokenPipeError` is raised."""
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # otherwise the flush at exit fails and changes the exit code
            raise
        except OSError:
            return memoryview(data).nbytes


_output: _Output | None = None


def prepare_streams() -> None:
    """Make the three standard streams usable, even if some are closed. `sys.stderr` is replaced, and `sys.stdout` if it
    is not a terminal, so that failed writes are handled. Characters that a stream's encoding lacks are written as
    escapes.

    If a stream stayed closed, the next file to be opened, such as the journal, would get its descriptor, and output
    would be written to it.
    """
    global _output
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free descriptor
    if sys.stdout is sys.__stdout__ and not os.isatty(1):  # a stream that a program has redirected is left alone
        _output = _Output(1, "w", closefd=False)
        sys.stdout = _text(_output, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_ErrorOutput(2, "w", closefd=False), sys.stderr, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_lost_terminal() -> None:
    """Drop what would be written to a terminal that has closed, so that the command can end in order."""
    for number in (1, 2):
        try:
            termios.tcgetattr(number)
        except termios.error as error:
            if error.args[0] in (errno.EIO, errno.ENXIO):  # for a file or pipe, it is another error
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def output_failure() -> OSError | None:
    """Return the error from writing to standard output, or None if there was none."""
    return None if _output is None else _output.failure


def flush_output() -> None:
    """Flush standard output, and exit with `exit_for` if this fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        exit_for(error)


def exit_for(error: OSError) -> NoReturn:
    """Exit because standard output cannot be written to. The exit code is 141 for a broken pipe. Any other error is
    reported on standard error, and the exit code is 70.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # otherwise the interpreter reports the error again when it flushes at exit
    if isinstance(error, BrokenPipeError):
        sys.exit(BROKEN_PIPE)
    sys.stderr.write(f"Error: the standard output cannot be written: {error.strerror or error}\n")
    sys.exit(FAILED)


def _text(raw: io.FileIO, like: IO[str] | None, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """Return a text stream that writes to `raw` in the encoding of `like`, by default UTF-8."""
    encoding = getattr(like, "encoding", None) or "utf-8"
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=line_buffering)
