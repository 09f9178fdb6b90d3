"""The installed command without the time of its imports: forks of a process that has imported its modules.

Most of the processor time of a short command goes into imports. Here each command is a process of its own too, with the
folder, environment and streams that were given, and does what the installed script does; only its modules are there
already. With `script=True` the script is started: for tests of the process itself, for packages that may take the place
of imported ones, and once or more for each promise.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import random
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

COMMAND = Path(sysconfig.get_path("scripts"), "karenina")
NOT_IMPORTED = ("karenina_ray", "karenina_embedding")
"""Plugins whose libraries start threads when they are imported; a process with threads cannot be forked."""
IMPORTED_LATE = ("filelock", "genai_prices", "openpyxl", "regex", "sqlite3", "stevedore.extension", "uvloop", "yaml")
"""Libraries that functions of ours import when they need them."""
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


# ---- in the process of the tests

_lock = threading.Lock()
_server: socket.socket | None = None


def _connection() -> socket.socket:
    """Return the connection to the process that forks; start it first if need be."""
    global _server
    with _lock:
        if _server is None:
            _server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                environment = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
                command = [sys.executable, __file__, str(theirs.fileno())]
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        return _server


def _fork(request: bytes, words: list[str], files: tuple[IO[bytes], IO[bytes]], timeout: float) -> tuple[int, int]:
    """Have a command run; return its wait status and its kilobytes of memory at most."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, Path(os.devnull).open("rb") as nothing:
        server = _connection()
        with _lock:
            socket.send_fds(server, [request], [file.fileno() for file in (nothing, *files, theirs)])
        theirs.close()
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


def serve(connection: socket.socket) -> None:
    """Fork for each command, until no process of the tests is left."""
    _import_all()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads cannot be forked"
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, 2 * MOST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            connection.close()
            _serve_request(request, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _import_all() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else numpy, which openpyxl imports, starts threads
    for name in IMPORTED_LATE:
        import_module(name)
    for package in pkgutil.iter_modules():
        if package.name.startswith("karenina_") and package.name not in NOT_IMPORTED:
            for module in pkgutil.walk_packages(import_module(package.name).__path__, f"{package.name}."):
                if not module.name.endswith("__main__") and ".testing" not in module.name:
                    import_module(module.name)


def _serve_request(request: bytes, descriptors: list[int]) -> None:
    """Fork once more, for the command, and report its number and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    *streams, answer = descriptors
    pid = os.fork()
    if pid == 0:
        _run_command(request, streams)
    for stream in streams:
        os.close(stream)
    os.write(answer, b"%d" % pid)
    _, status, used = os.wait4(pid, 0)
    os.write(answer, b"%d %d" % (status, used.ru_maxrss))
    os._exit(0)


def _run_command(request: bytes, streams: list[int]) -> NoReturn:
    """Be the command."""
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
