"""The installed command without the time of its start: forks of a process that has imported its modules.

Most of the processor time of a short command goes into imports, and most of the rest into finding the plugins. Here
each command is a process of its own too, with the folder, environment and streams that were given, and does what the
installed script does; only its modules, the models of pydantic and the patterns are there already. Where its
environment installs no other plugins and selects none, it is a fork of a second process, which has also found the
plugins and built their commands.

With `script=True` the script is started: for tests of the process itself, for packages that may take the place of
imported ones, and once or more for each promise. `scripts` is for what looks for the command on its path.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import pkgutil
import random
import resource
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

COMMAND = Path(sysconfig.get_path("scripts"), "karenina")
NOT_IMPORTED = ("karenina_ray", "karenina_embedding")
"""Plugins whose libraries start threads when they are imported; a process with threads cannot be forked."""
IMPORTED_LATE = (
    *("anyio._backends._asyncio", "encodings.utf_8_sig", "filelock", "genai_prices", "openpyxl", "regex"),
    *("rich._emoji_codes", "rich.logging", "sqlite3", "stevedore.extension", "tomllib", "typer._adapters", "uvloop"),
    "yaml",
)
"""Modules that functions import when they need them."""
FORKS = sys.platform == "linux"
MOST_BYTES = 150_000
"""Bytes of arguments and environment that one message can hold."""


class CompletedCommand(subprocess.CompletedProcess[str]):
    """How a command ended, and the megabytes of memory that it used at most."""

    megabytes = 0.0


def run(
    arguments: Sequence[str | Path],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    memory: int | None = None,
    script: bool = False,
    program: str = "",
) -> CompletedCommand:
    """Run `karenina` with these arguments, in this folder and environment, in so many bytes of address space at most.

    `script` starts the installed script instead of a fork; `program` is the code of a Python program that runs instead
    of the command. Raises `subprocess.TimeoutExpired`.
    """
    words = [*([sys.executable, "-c", program] if program else [str(COMMAND)]), *map(str, arguments)]
    request = json.dumps([words, os.fspath(folder), dict(environment), memory, program]).encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        if script or not FORKS or len(request) > MOST_BYTES:
            status, kilobytes = _start(words, folder, environment, memory, (out, errors), timeout)
        else:
            status, kilobytes = _fork(request, words, (out, errors), timeout)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    ended = CompletedCommand(words, os.waitstatus_to_exitcode(status), *texts)
    ended.megabytes = kilobytes / 1024
    return ended


class StartedCommand:
    """A command that runs in a fork, for tests that kill it."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection
        self._waiting = threading.Lock()

    def wait(self, timeout: float) -> int:
        """Return the exit code, negative for a signal, when the command has ended. Raises `TimeoutError`."""
        with self._waiting:
            if self.returncode is None:
                self._connection.settimeout(timeout)
                ended = self._connection.recv(40)
                self._connection.close()
                self.returncode = os.waitstatus_to_exitcode(int(ended.split()[0]))
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        with suppress(BlockingIOError):
            self.wait(0)
        return self.returncode


def start(
    arguments: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str], errors: IO[bytes]
) -> StartedCommand | subprocess.Popen[bytes]:
    """Start `karenina` with these arguments, in this folder and environment; write its standard error to a file."""
    words = [str(COMMAND), *map(str, arguments)]
    request = json.dumps([words, os.fspath(folder), dict(environment), None, ""]).encode()
    if not FORKS or len(request) > MOST_BYTES:
        return subprocess.Popen(
            words, cwd=folder, env=dict(environment), stdout=subprocess.DEVNULL, stderr=errors, stdin=subprocess.DEVNULL
        )
    _connect()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with Path(os.devnull).open("r+b") as nothing:
        connection.connect(_ADDRESS)
        socket.send_fds(connection, [request], [nothing.fileno(), nothing.fileno(), errors.fileno()])
        return StartedCommand(int(connection.recv(20)), connection)


def _start(
    words: list[str],
    folder: Path,
    environment: Mapping[str, str],
    memory: int | None,
    files: tuple[IO[bytes], IO[bytes]],
    timeout: float,
) -> tuple[int, int]:
    """Start the script; return its wait status and its kilobytes of memory at most.

    The system's own count (`ru_maxrss`) would include the memory of the process that starts it, which may be larger.
    """
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=files[0],
        stderr=files[1],
        preexec_fn=None if memory is None else lambda: _limit(memory),
    )
    began = time.monotonic()
    killer = threading.Timer(timeout, process.kill)
    killer.start()
    kilobytes = 0
    while True:
        kilobytes = max(kilobytes, _peak_memory(process.pid))
        ended, status = os.waitpid(process.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    killer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if time.monotonic() - began > timeout:
        raise subprocess.TimeoutExpired(words, timeout)
    return status, kilobytes


def _peak_memory(pid: int) -> int:
    """Return the kilobytes of memory that a running process has used at most; 0 if the system does not report them."""
    try:
        lines = Path("/proc", str(pid), "status").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def pytest(
    arguments: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str], timeout: float
) -> CompletedCommand:
    """Run pytest with these arguments; the contracts of commands run forks in it too."""
    program = _PYTEST.format(command=str(scripts() / COMMAND.name))
    options = [*(f"-pno:{name}" for name in NO_PLUGINS), "-Wignore::pytest.PytestAssertRewriteWarning", *arguments]
    return run(options, folder=folder, environment=environment, timeout=timeout, program=program)


NO_PLUGINS = ("cacheprovider", "hypothesispytest", "langsmith_plugin")
"""Plugins of pytest that are not used; importing the last two takes seconds."""
_PYTEST = """
import sys

import pytest

for name in [name for name in sys.modules if name.partition(".")[0] == "karenina_testing"]:
    del sys.modules[name]  # so that pytest explains its assertions


class Forks:
    def pytest_sessionstart(self):
        from karenina_testing.contracts import command

        command._find_command = lambda: {command!r}


sys.exit(pytest.main(sys.argv[1:], plugins=[Forks()]))
"""


# ---- in the process of the tests

_lock = threading.Lock()
_server: socket.socket | None = None
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{random.SystemRandom().getrandbits(64):x}"
"""One run of tests: its processes share the process that forks, because its imports take seconds."""
_ADDRESS = f"\0karenina-tests-{_RUN}"
_STAY = b"stay"
_PROGRAM = """#!{python} -IS
import json
import os
import resource
import signal
import socket
import sys

words = [{command!r}, *sys.argv[1:]]
memory, _ = resource.getrlimit(resource.RLIMIT_AS)
memory = None if memory == resource.RLIM_INFINITY else memory
request = json.dumps([words, os.getcwd(), dict(os.environ), memory, ""]).encode()
if "PYTHONVERBOSE" in os.environ or len(request) > {most}:
    os.execv(words[0], words)
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({address!r})
socket.send_fds(connection, [request], [0, 1, 2])
pid = int(connection.recv(20))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = os.waitstatus_to_exitcode(int(connection.recv(40).split()[0]))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def scripts() -> Path:
    """Return a folder with a program `karenina` that has the command run in a fork, for a path of programs."""
    if not FORKS:
        return COMMAND.parent
    _connect()
    folder = tempfile.TemporaryDirectory(prefix="karenina-tests-scripts-")
    atexit.register(folder.cleanup)
    program = Path(folder.name, COMMAND.name)
    text = _PROGRAM.format(python=sys.executable, command=str(COMMAND), most=MOST_BYTES, address=_ADDRESS)
    program.write_text(text, "utf-8")
    program.chmod(0o755)
    return program.parent


def _connect() -> None:
    """Connect to the process that forks, which ends after its last connection; start it if no test has done so.

    Raises `RuntimeError` if it cannot start.
    """
    global _server
    started: subprocess.Popen[bytes] | None = None
    with _lock:
        while _server is None:
            if started is not None and started.wait() != 0:
                raise RuntimeError("the process that forks commands could not start; its error is printed above")
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with Path(__file__).open("rb") as file:  # one process of the tests starts it
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    connection.connect(_ADDRESS)
                except ConnectionRefusedError:
                    started = _start_server()
                    connection.connect(_ADDRESS)
            with suppress(ConnectionError):
                connection.send(_STAY)
                if connection.recv(len(_STAY)) == _STAY:  # else it was about to end
                    _server = connection


def _start_server() -> subprocess.Popen[bytes]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(_ADDRESS)
        listening.listen()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
        # A fork copies the table of pages, which is short if they are large.
        environment |= {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
        command = [sys.executable, __file__, str(listening.fileno())]
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[listening.fileno()])


def _fork(request: bytes, words: list[str], files: tuple[IO[bytes], IO[bytes]], timeout: float) -> tuple[int, int]:
    """Have a command run; return its wait status and its kilobytes of memory at most."""
    _connect()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ours, Path(os.devnull).open("rb") as nothing:
        ours.connect(_ADDRESS)
        socket.send_fds(ours, [request], [file.fileno() for file in (nothing, *files)])
        pid = ours.recv(20)
        ours.settimeout(timeout)
        try:
            ended = ours.recv(40)
        except TimeoutError:
            os.kill(int(pid), signal.SIGKILL)
            raise subprocess.TimeoutExpired(words, timeout) from None
    assert ended, "the process that forks commands has ended"
    status, kilobytes = map(int, ended.split())
    return status, kilobytes


# ---- in the process that forks


def serve(listening: socket.socket) -> None:
    """Fork for each command of the tests, and of the program in `scripts`, until no test is left."""
    _import_all()
    _prepare_first_uses()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepared, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _freeze()
    if os.fork() == 0:
        for one in (prepared, listening):
            one.close()
        _find_plugins()
        _freeze()
        _fork_for_each(theirs)
    else:
        theirs.close()
        _fork_for_each(listening, prepared)


def _freeze() -> None:
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()


def _fork_for_each(requests: socket.socket, prepared: socket.socket | None = None) -> None:
    """Fork for each command.

    With `prepared`, which gets what needs no other plugins, commands have connections of their own, until the last that
    stays has ended; without, all commands come from the process with `prepared`.
    """
    ready = selectors.DefaultSelector()
    ready.register(requests, selectors.EVENT_READ)
    staying: set[socket.socket] = set()
    while True:
        for key, _ in ready.select():
            if isinstance(key.fileobj, int):
                ready.unregister(key.fileobj)
                os.close(key.fileobj)
                _report_end(*key.data)
                continue
            if key.fileobj in staying:
                ready.unregister(key.fileobj)
                staying.remove(key.fileobj)  # type: ignore[arg-type]
                if not staying:
                    return
                continue
            source = requests if prepared is None else requests.accept()[0]
            request, descriptors, _, _ = socket.recv_fds(source, 2 * MOST_BYTES, 4)
            if prepared is None and not request:
                return
            if request == _STAY:
                staying.add(source)
                ready.register(source, selectors.EVENT_READ)
                _tell(source.fileno(), _STAY)
                continue
            if prepared is not None:
                descriptors.append(source.detach())
            if len(descriptors) == 4 and prepared is not None and _needs_no_other_plugins(request):
                socket.send_fds(prepared, [request], descriptors)
            elif len(descriptors) == 4:
                pid = os.fork()
                if pid == 0:
                    _run_command(request, descriptors[:3])
                answer = descriptors.pop()
                ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, answer))
                _tell(answer, b"%d" % pid)
            for descriptor in descriptors:
                os.close(descriptor)


def _report_end(pid: int, answer: int) -> None:
    """Report how a command ended."""
    _, status, used = os.wait4(pid, 0)
    _tell(answer, b"%d %d" % (status, used.ru_maxrss))
    os.close(answer)


def _tell(answer: int, message: bytes) -> None:
    with suppress(OSError):  # who asked may have ended
        os.write(answer, message)


def _needs_no_other_plugins(request: bytes) -> bool:
    """Return whether a command has the plugins of this environment: its own path adds no distribution."""
    environment = json.loads(request)[2]
    folders = [Path(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    others = any(True for folder in folders for _ in folder.glob("*.*-info"))
    return not (others or "KARENINA_PLUGINS" in environment)


def _import_all() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else numpy, which openpyxl imports, starts threads
    for name in IMPORTED_LATE:
        import_module(name)
    for name in import_module("_pytest.config").default_plugins:
        import_module(f"_pytest.{name}")
    for package in pkgutil.iter_modules():
        if package.name.startswith("karenina_") and package.name not in NOT_IMPORTED:
            for module in pkgutil.walk_packages(import_module(package.name).__path__, f"{package.name}."):
                if not module.name.endswith("__main__") and ".testing" not in module.name:
                    import_module(module.name)


def _prepare_first_uses() -> None:
    """Build the models, compile the patterns, and read the prices that wait for their first use."""
    from genai_prices.data_snapshot import get_snapshot
    from pydantic import BaseModel

    from karenina_toolkit.fences import break_special_tokens
    from karenina_toolkit.lazy_patterns import lazy_pattern

    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.__module__.startswith("karenina") and not model.__pydantic_complete__:
            model.model_rebuild()
    kind = type(lazy_pattern(""))
    for found in [one for one in gc.get_objects() if type(one) is kind]:
        found.match("")
    break_special_tokens("")
    with suppress(LookupError):  # the pattern of each provider is compared
        get_snapshot().find_provider(None, None, "no provider")


def _find_plugins() -> None:
    """Find the installed plugins, and build the command with theirs, and the options of each, for all forks."""
    from karenina_cli import app
    from karenina_core.namespaces import third_parties
    from karenina_core.plugins import active_plugins

    active_plugins()
    third_parties()
    group: Any = app.build_command()
    for name, command in group.commands.items():
        command.make_context(name, [], resilient_parsing=True)
    app.build_command = lambda: group  # building it takes a quarter of the time of a short run


def _run_command(request: bytes, streams: list[int]) -> NoReturn:
    """Be the command, in a session of its own, so that a test can kill all that it started."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words, folder, environment, memory, program = json.loads(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1000)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if memory is not None:
        _limit(memory)
    random.seed()
    sys.path[:1] = [
        "" if program else str(COMMAND.parent),
        *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    code: object = None
    try:
        if program:
            sys.argv = words[2:]
            exec(program, {"__name__": "__main__"})
        else:
            sys.argv = words
            from karenina_cli import main

            main()
    except SystemExit as end:
        code = end.code
    _exit(code)


def _exit(code: object) -> NoReturn:
    """End as Python does, but leave the modules: to take them down copies the memory that the processes share."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)  # noqa: T201
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
