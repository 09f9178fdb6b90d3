"""The law of fuzzing notices every forbidden effect, even if the code under test catches its error."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fuzzing.law import CODE, Broken, Forbidden, Law, TooLarge, TooSlow, signature


def _program(_folder: Path) -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _connection(_folder: Path) -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def _write(folder: Path) -> None:
    (folder.parent / "thesis.txt").write_text("")


def _removal(folder: Path) -> None:
    (folder.parent / "mine").unlink()


def _secret(folder: Path) -> None:
    (folder.parent / "outside" / "secret.csv").read_bytes()


def _code(_folder: Path) -> None:
    eval(CODE)


FORBIDDEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "program": (_program, "subprocess.Popen"),
    "connection": (_connection, "socket.connect"),
    "file written elsewhere": (_write, "opened for writing"),
    "file removed elsewhere": (_removal, "os.remove"),
    "file read outside": (_secret, "opened a file outside"),
    "code": (_code, "code of the input was run"),
}


@pytest.fixture
def law(tmp_path: Path) -> Law:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.csv").touch()
    (tmp_path / "mine").touch()
    return Law(tmp_path / "inside", tmp_path / "outside", seconds=0.5, megabytes=200)


@pytest.mark.parametrize("case", FORBIDDEN)
def test_what_an_input_must_not_cause_is_noticed(case: str, law: Law, tmp_path: Path) -> None:
    act, words = FORBIDDEN[case]
    with pytest.raises(Forbidden, match=words), law.holds(), suppress(BaseException):
        act(tmp_path / "inside")
    assert (tmp_path / "mine").exists()
    assert not (tmp_path / "thesis.txt").exists()


def _spin() -> None:
    while True:
        pass


def test_too_much_processor_time_is_noticed(law: Law) -> None:
    with pytest.raises(TooSlow), law.holds(), suppress(BaseException):
        _spin()


def test_too_much_memory_is_noticed(law: Law) -> None:
    law.megabytes = 50
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    size = before - pages * os.sysconf("SC_PAGE_SIZE") + 100 * 2**20  # what other tests had counts, too
    with pytest.raises(TooLarge), law.holds():
        assert b"x" * size


def test_what_stays_in_the_folder_is_allowed(law: Law, tmp_path: Path) -> None:
    with law.holds():
        (tmp_path / "inside" / "new").mkdir()
        (tmp_path / "inside" / "new" / "file").write_text("x")
        (tmp_path / "inside" / "new" / "file").rename(tmp_path / "inside" / "other")


def test_failures_are_told_apart_by_type_and_place() -> None:
    def failure(act: Callable[[], object]) -> str:
        try:
            act()
        except (Exception, Broken) as error:
            return signature(error)
        return ""

    first, second = failure(lambda: int("x")), failure(lambda: {}["x"])
    assert first.startswith("ValueError")
    assert second.startswith("KeyError")
