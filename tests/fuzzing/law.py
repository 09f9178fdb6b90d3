"""The law for every input: the allowed effects, time and memory of reading it."""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

EXECUTED: Final = "karenina.fuzzing.executed"
"""The audit event that code of an input raises if it runs."""

CODE: Final = f"__import__('sys').audit('{EXECUTED}')"
"""An expression that shows that it was run."""

_PROGRAMS: Final = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile", "pty.spawn"),
    *("subprocess.Popen", "pickle.find_class", "webbrowser.open"),
)
_CHANGES: Final = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.symlink", "os.link", "os.chmod"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile"),
)
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class Broken(BaseException):
    """The law was broken. No code under test catches it by accident: it is no `Exception`."""


class TooSlow(Broken):
    """An input took more processor time than it may."""


class TooLarge(Broken):
    """An input took more memory than it may."""


class Forbidden(Broken):
    """Something happened that no input may cause: a program, a connection, a file outside of the folder."""


class Law:
    """The limits of one input. `with law.holds(): ...` raises `Broken` if it exceeds them.

    `folder` is the only place where files may be written; nothing may be opened in `outside`. `programs` are
    commands that the test itself starts, and `servers` says whether connections to this machine are its own.
    """

    def __init__(
        self,
        folder: Path,
        outside: Path,
        *,
        seconds: float = 2.0,
        megabytes: float = 300.0,
        servers: bool = False,
        programs: Callable[[Any], bool] = lambda _arguments: False,
    ) -> None:
        self.folder = os.path.realpath(folder)
        self.outside = os.path.realpath(outside)
        self.seconds = seconds
        self.megabytes = megabytes
        self.servers = servers
        self.programs = programs

    @contextmanager
    def holds(self) -> Iterator[None]:
        """Watch the block."""
        global _watching
        _install()
        seen: list[Broken] = []
        before = _peak()
        late = signal.signal(signal.SIGVTALRM, _too_slow)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds, self.seconds)  # again, where it was caught
        _watching = (self, seen)
        try:
            yield
        finally:
            _watching = None
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, late)
        if seen:
            raise seen[0]
        if _peak() - before > self.megabytes:
            raise TooLarge(f"{_peak() - before:.0f} MB more than before")

    def forbids(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        """Why the law forbids an audit event, or None."""
        if event == EXECUTED:
            return "code of the input was run"
        if event in _PROGRAMS and not self.programs(arguments):
            return f"{event}{arguments!r:.200}"
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
            return self._reached(event, arguments)
        if event == "open":
            return self._opened(*arguments)
        if event == "sqlite3.connect" or event in _CHANGES:
            return self._changed(event, arguments)
        return None

    def _reached(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        address = arguments[1] if event == "socket.connect" else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(host, bytes):
            host = host.decode("utf-8", "replace")
        if self.servers and host in _LOOPBACK:
            return None
        return f"{event} {address!r:.200}"

    def _opened(self, path: object, mode: object, flags: object) -> str | None:
        if not isinstance(path, str | bytes | os.PathLike):
            return None  # a descriptor that is open already
        place = os.path.realpath(os.fsdecode(path))
        if place.startswith(self.outside + os.sep):
            return f"opened a file outside of the folder: {place}"
        asked = flags if isinstance(flags, int) else 0
        writes = bool(asked & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        writes = writes or (isinstance(mode, str) and any(letter in mode for letter in "wax+"))
        if writes and not self._own(place):
            return f"opened for writing: {place}"
        return None

    def _changed(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        for path in arguments[:2] if event in ("os.rename", "shutil.move") else arguments[:1]:
            if isinstance(path, str | bytes | os.PathLike) and os.fspath(path) != ":memory:":
                name = os.fsdecode(path).removeprefix("file://").partition("?")[0]
                if not self._own(os.path.realpath(name)):
                    return f"{event} {name}"
        return None

    def _own(self, place: str) -> bool:
        return f"{place}{os.sep}".startswith(self.folder + os.sep) or place == os.devnull or "__pycache__" in place


_watching: tuple[Law, list[Broken]] | None = None
_installed = False


def _install() -> None:
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching is None:
        return
    law, seen = _watching
    why = law.forbids(event, arguments)
    if why is not None:
        seen.append(Forbidden(why))
        raise seen[-1]


def _too_slow(_number: int, frame: FrameType | None) -> None:
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"
    late = TooSlow(f"more than its share of processor time, at {where}")
    if _watching is not None:
        _watching[1].append(late)
    raise late


def _peak() -> float:
    """Return the most memory that this process ever had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


def signature(error: BaseException) -> str:
    """Return the signature of a failure: its type and the innermost line of Karenina in its traceback."""
    if isinstance(error, BaseExceptionGroup):
        return signature(error.exceptions[0])
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "karenina_" in frame.filename and "fuzzing" not in frame.filename]
    inner = (ours or frames)[-1] if frames else None
    where = f"{_short(inner.filename)}:{inner.name}" if inner is not None else "?"
    what = f" {error}" if isinstance(error, Forbidden | AssertionError) else ""
    deepest = frames[-1].name if frames and ours and frames[-1] is not ours[-1] else ""
    return f"{type(error).__name__} in {where}{f' ({deepest})' if deepest else ''}{what:.120}"


def _short(filename: str) -> str:
    for root in (sysconfig.get_path("purelib"), str(Path(__file__).parents[2])):
        filename = filename.removeprefix(root + os.sep)
    return filename
