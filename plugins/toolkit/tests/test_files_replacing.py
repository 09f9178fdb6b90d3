"""A file is replaced in one step: there is the old one or the new one, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from karenina_toolkit.files import replace_file

OLD, NEW = b"old\n" * 10_000, b"new\n" * 20_000


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def write_new(file: BinaryIO) -> None:
    file.write(NEW)


def mode_of(file: Path) -> int:
    return file.stat().st_mode & 0o7777


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "data" / "genes.yaml"
    found.parent.mkdir()
    found.write_bytes(OLD)
    return found


def test_the_content_is_replaced(file: Path) -> None:
    replace_file(file, write_new)

    assert file.read_bytes() == NEW
    assert [*file.parent.iterdir()] == [file]


def test_a_file_in_the_working_folder_is_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    replace_file(file.name, write_new)

    assert file.read_bytes() == NEW


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    with umask(0o027):
        replace_file(tmp_path / "new", write_new)

    assert mode_of(tmp_path / "new") == 0o640


@pytest.mark.parametrize(("before", "after"), [(0o664, 0o664), (0o600, 0o600), (0o4755, 0o755)])
def test_a_replaced_file_keeps_its_permissions(file: Path, before: int, after: int) -> None:
    file.chmod(before)
    with umask(0o077):
        replace_file(file, write_new)

    assert mode_of(file) == after


def test_the_content_of_a_private_file_is_never_readable_by_others(file: Path) -> None:
    modes = []
    with umask(0):
        replace_file(file, lambda new: modes.append(os.fstat(new.fileno()).st_mode & 0o777), private=True)

    assert (modes, mode_of(file)) == ([0o600], 0o600)


def test_a_file_that_others_may_not_read_is_not_readable_while_written(file: Path) -> None:
    file.chmod(0o600)
    modes = []
    with umask(0):
        replace_file(file, lambda new: modes.append(os.fstat(new.fileno()).st_mode & 0o777))

    assert modes == [0o600]


def test_a_link_is_refused_and_stays(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(OSError, match="the path is a link and was not replaced") as found:
        replace_file(link, write_new)

    assert (found.value.errno, found.value.filename) == (errno.ELOOP, str(link))
    assert link.is_symlink()
    assert file.read_bytes() == OLD


@pytest.mark.parametrize("exists", [True, False])
def test_the_target_of_a_followed_link_is_replaced(file: Path, tmp_path: Path, exists: bool) -> None:
    if not exists:
        file.unlink()
    (tmp_path / "further").symlink_to("data/genes.yaml")
    link = tmp_path / "link"
    link.symlink_to("further")
    replace_file(link, write_new, follow=True)

    assert link.is_symlink()
    assert file.read_bytes() == NEW
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "further", "link"]


def test_a_link_that_appears_while_writing_is_not_replaced(file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").write_bytes(OLD)

    def swap(new: BinaryIO) -> None:
        file.unlink()
        file.symlink_to(tmp_path / "thesis")

    with pytest.raises(OSError, match="the path is a link"):
        replace_file(file, swap)
    assert (tmp_path / "thesis").read_bytes() == OLD


def test_a_file_in_an_open_folder_is_replaced_wherever_the_folder_goes(file: Path, tmp_path: Path) -> None:
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        file.parent.rename(tmp_path / "moved")
        replace_file(file.name, write_new, dir_fd=folder)
    finally:
        os.close(folder)

    assert (tmp_path / "moved" / file.name).read_bytes() == NEW


def test_other_hard_links_keep_the_old_content(file: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").hardlink_to(file)
    replace_file(file, write_new)

    assert (tmp_path / "copy").read_bytes() == OLD


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=lambda one: type(one).__name__)
def test_a_failing_writer_leaves_the_old_file_alone(file: Path, error: BaseException) -> None:
    def fail(new: BinaryIO) -> None:
        new.write(NEW)
        raise error

    with pytest.raises(type(error)) as found:
        replace_file(file, fail)

    assert found.value is error
    assert file.read_bytes() == OLD
    assert [*file.parent.iterdir()] == [file]


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing folder", "no name"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "missing/name" if kind == "missing folder" else tmp_path / "name"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError, match=r"folder|pipe") as found:
        replace_file(f"{path}/" if kind == "no name" else path, write_new)

    assert str(path) in str(found.value.filename)
    assert [*tmp_path.iterdir()] == ([] if kind in ("missing folder", "no name") else [path])


AS_ANOTHER = """
import os, sys
from karenina_toolkit.files import replace_file
os.chdir(sys.argv[1])  # a user may be in a folder without permission to enter those above
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    replace_file("genes.yaml", lambda file: file.write(b"new"))
except OSError as error:
    print(type(error).__name__, error)
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        found,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_folder_without_permission_is_named_as_the_cause(file: Path) -> None:
    file.chmod(0o666)
    file.parent.chmod(0o555)
    done = run(AS_ANOTHER, str(file.parent))
    file.parent.chmod(0o755)

    assert "PermissionError" in done.stdout, done.stderr
    assert "cannot create a file in the parent folder: Permission denied: 'genes.yaml'" in done.stdout


def test_a_read_only_file_is_not_replaced(file: Path) -> None:
    file.chmod(0o444)
    file.parent.chmod(0o777)
    done = run(AS_ANOTHER, str(file.parent))

    assert "PermissionError [Errno 13] Permission denied: 'genes.yaml'" in done.stdout, done.stderr
    assert file.read_bytes() == OLD


FULL = """
import resource, signal, sys
from karenina_toolkit.files import replace_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    replace_file(sys.argv[1], lambda file: file.write(b"new\\n" * 20_000))
except OSError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_names_it(file: Path) -> None:
    done = run(FULL, str(file))

    assert f"File too large: '{file}'" in done.stdout, done.stderr
    assert file.read_bytes() == OLD
    assert [*file.parent.iterdir()] == [file]


KILLED = """
import json, os, signal, sys
from pathlib import Path
import karenina_toolkit.files.replacing as replacing

file, exists, options, by_line = Path(sys.argv[1]), *json.loads(sys.argv[2])
OLD, NEW = b"old\\n" * 10_000, b"new\\n" * 20_000
count = 0

def reach():
    global count
    count += 1
    if count == step:
        os.kill(os.getpid(), signal.SIGKILL)

def trace(frame, event, argument):
    if frame.f_code.co_filename == replacing.__file__ or frame.f_code is write.__code__:
        reach()
        return trace

def watch(event, arguments):
    if event in ("open", "os.rename", "os.chmod", "os.remove"):
        reach()

def write(new):
    for _ in range(4):
        new.write(NEW[: len(NEW) // 4])
        new.flush()

def replace():
    sys.settrace(trace) if by_line else sys.addaudithook(watch)
    replacing.replace_file(file, write, **options)

step, found = 0, []
while True:
    step += 1
    file.unlink(missing_ok=True)
    if exists:
        file.write_bytes(OLD)
    child = os.fork()
    if not child:
        replace()
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        break
    content = file.read_bytes() if file.exists() else None
    found.append("new" if content == NEW else "old" if content == (OLD if exists else None) else "torn")
print(json.dumps(found))
"""


@pytest.mark.parametrize("by_line", [True, False], ids=["at any line", "before any call of the system"])
@pytest.mark.parametrize("options", [{}, {"private": True}, {"follow": True, "sync": False}], ids=str)
@pytest.mark.parametrize("exists", [True, False], ids=["an old file", "no file"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_file(
    tmp_path: Path, exists: bool, options: dict[str, bool], by_line: bool
) -> None:
    file = tmp_path / "genes.yaml"
    done = run(KILLED, str(file), json.dumps([exists, options, by_line]))
    found = json.loads(done.stdout)

    assert set(found) <= {"old", "new"}, done.stderr
    assert found == sorted(found, reverse=True), "first the old file, then the new one"
    assert len(found) > (30 if by_line else 1)
    assert ("new" in found) or not by_line
    assert len([*tmp_path.iterdir()]) > 1, "killed processes leave temporary files"
    replace_file(file, write_new)
    assert file.read_bytes() == NEW, "which do not matter"


def test_of_writers_at_once_the_last_one_wins_and_no_file_is_torn(file: Path) -> None:
    contents = {bytes([65 + number]) * 300_000 for number in range(4)}
    seen: set[bytes] = {OLD}
    stop = threading.Event()

    def work(content: bytes) -> None:
        for _ in range(25):
            replace_file(
                file, lambda new: [new.write(content[at : at + 7000]) for at in range(0, 300_000, 7000)], sync=False
            )

    def look() -> None:
        while not stop.is_set():
            seen.add(file.read_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    writers = [threading.Thread(target=work, args=(content,)) for content in contents]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    stop.set()
    watcher.join()

    assert seen <= {OLD, *contents}
    assert file.read_bytes() in contents
    assert [*file.parent.iterdir()] == [file]


def test_content_and_name_are_synced_unless_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def note(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    replace_file(file, write_new, sync=False)
    assert synced == []
    replace_file(file, write_new)
    assert synced == [False, True]


def test_names_of_the_greatest_length_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / ("ü" * 127)
    replace_file(file, write_new)

    assert file.read_bytes() == NEW
