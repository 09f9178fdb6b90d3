"""Only the exact source that the user has read and trusted runs.

Trust is given to a digest. The listing, the digest and the executed source are one reading of the file; only the
user can have written the file of digests; and two commands that store trust at once lose nothing.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sysconfig
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from servers import recording_server

from karenina import Benchmark
from karenina_benchmark import BenchmarkFileError
from karenina_core.data.trust import Trust, digest_of
from karenina_engine.user_files import TrustFileError, load_trust, store_trust, trust_path

if TYPE_CHECKING:
    from conftest import Environment

OTHER_USER = 12345


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder of trusted digests, for this process and for the command."""
    folder = tmp_path / "home" / "karenina"
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    monkeypatch.delenv("KARENINA_CONFIG_HOME", raising=False)
    return folder


def template(marker: Path) -> str:
    """Return a template that leaves a file behind if it runs."""
    return (
        "class Answer(BaseAnswer):\n"
        "    gene: str\n\n"
        "    def verify(self) -> bool:\n"
        f"        open({str(marker)!r}, 'w').close()\n"
        "        return True\n"
    )


def question(name: str, source: str) -> str:
    return json.dumps({"id": name, "question": f"Question {name}?", "raw_answer": "BCL2", "template": source}) + "\n"


def reply(body: Mapping[str, object]) -> str:
    return json.dumps({"gene": "BCL2"}) if "response_format" in body else "I think that it is BCL2."


def test_a_file_swapped_behind_the_prompt_is_not_trusted(site: Environment, tmp_path: Path) -> None:
    """Attack: wait until the harmless source is shown, replace the file, let the user say yes, and have it run."""
    harmless, hostile = tmp_path / "harmless", tmp_path / "hostile"
    file = site.write("genes.jsonl", question("one", template(harmless)))
    ours, theirs = pty.openpty()
    command = Path(sysconfig.get_path("scripts"), "karenina")
    trusting = subprocess.Popen([command, "trust", file], stdin=theirs, stdout=theirs, stderr=theirs)
    shown = b""
    while b"Have you read" not in shown:
        assert select.select([ours], [], [], 60)[0], shown
        shown += os.read(ours, 4096)
    site.write("genes.jsonl", question("one", template(hostile)))
    os.write(ours, b"y\n")
    assert trusting.wait(120) == 0

    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        site.karenina("run", file, "-a", model, "-j", model)
        assert not hostile.exists()
        site.write("genes.jsonl", question("one", template(harmless)))
        done = site.karenina("run", file, "-a", model, "-j", model)
    assert harmless.exists(), done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_trust_reads_its_file_once(site: Environment, tmp_path: Path) -> None:
    """Attack: a FIFO that gives a harmless source to whoever opens it first and another one afterwards."""
    fifo = tmp_path / "answer.py"
    os.mkfifo(fifo)
    harmless, hostile = template(tmp_path / "harmless"), template(tmp_path / "hostile")

    def write() -> None:
        for text in (harmless, hostile):
            with fifo.open("w") as writer:  # waits for a reader
                writer.write(text)
            time.sleep(3)  # until a busy machine has come to the end of the first

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    done = site.karenina("trust", fifo, "--yes", "--json")
    handle = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # lets the writer end
    writing.join(30)
    os.close(handle)
    assert json.loads(done.stdout)["stored"] == 1, done.stderr
    assert load_trust() == Trust(frozenset({digest_of(harmless)}))


def test_a_line_swapped_after_loading_is_not_used(site: Environment, tmp_path: Path) -> None:
    """Attack: change a question of a JSONL file, in place, after the file was loaded and checked.

    Lines are read again when their questions are needed, and the new line would never be checked.
    """
    text = question("one", template(tmp_path / "ran-1")) + question("two", template(tmp_path / "ran-2"))
    file = site.write("genes.jsonl", text)
    benchmark = Benchmark.load(file)
    file.write_text(text.replace("ran-2", "ran-3"))

    used = iter(benchmark)
    assert next(used).id == "one"
    with pytest.raises(BenchmarkFileError, match=r"line 2.*the line has changed"):
        next(used)


@pytest.mark.parametrize("change", [" ", "\t", "#", "\n\n", "\u200b"])
def test_one_more_character_is_another_source(change: str) -> None:
    """Attack: keep what the user sees and change what is hashed."""
    source = template(Path("x"))
    store_trust([digest_of(source)])
    assert load_trust().covers(source)
    assert not load_trust().covers(source + change)


@pytest.mark.parametrize("hiding", ["\x1b[8m", "\x1b[2K\r", "\x08" * 40, "\u202e", "\u2066", "\r"])
def test_control_characters_hide_nothing_from_the_reader(site: Environment, tmp_path: Path, hiding: str) -> None:
    """Attack: have the terminal erase, hide or reorder the line that does harm."""
    source = template(tmp_path / "x") + f"# harmless {hiding}\nimport os  # harmless {hiding}\n"
    shown = site.karenina("trust", site.write("answer.py", source)).stdout
    assert "import os" in shown
    assert hiding not in shown


def test_trust_stored_by_many_commands_at_once_is_all_kept(site: Environment, tmp_path: Path) -> None:
    """Attack: none; two terminals suffice. What one of them stored was lost."""
    files = [site.write(f"answer{n}.py", template(tmp_path / str(n))) for n in range(6)]
    with ThreadPoolExecutor(len(files)) as pool:
        ended = list(pool.map(lambda file: site.karenina("trust", file, "--yes"), files))
        many = [pool.submit(store_trust, [digest_of(str(n))]) for n in range(40)]
    assert [done.returncode for done in ended] == [0] * len(files), [done.stderr for done in ended]
    assert all(future.result() for future in many)
    stored = load_trust()
    assert all(stored.covers(file.read_text()) for file in files)
    assert all(stored.covers(str(n)) for n in range(40))


def test_digests_behind_a_link_are_neither_read_nor_written(site: Environment, home: Path, tmp_path: Path) -> None:
    """Attack: `trusted.json` is a link to a file of digests that its author goes on writing."""
    source = template(tmp_path / "ran")
    theirs = site.write("theirs.json", json.dumps({"version": 1, "trusted": {digest_of(source): {}}}))
    (home / "trusted.json").symlink_to(theirs)
    before = theirs.read_text()

    done = site.karenina("trust", site.write("answer.py", template(tmp_path / "other")), "--yes")
    assert done.returncode == 2, done.stderr
    assert "is a link" in done.stderr
    assert theirs.read_text() == before
    with pytest.raises(TrustFileError, match="is a link"):
        store_trust([digest_of("x")])
    assert theirs.read_text() == before
    assert (home / "trusted.json").is_symlink()


@pytest.mark.parametrize("place", ["trusted.json", "."])
def test_digests_that_everybody_can_write_are_refused(home: Path, place: str) -> None:
    """Attack: another user of the machine adds a digest to a file or folder that is open to all."""
    store_trust([digest_of("mine")])
    (home / place).chmod(0o777)
    for attempt in (load_trust, lambda: store_trust([digest_of("x")])):
        with pytest.raises(TrustFileError, match=r"is writable by every user.*chmod o-w"):
            attempt()
    (home / place).chmod(0o700)
    assert load_trust() == Trust(frozenset({digest_of("mine")}))


@pytest.mark.parametrize("place", ["trusted.json", "."])
def test_digests_of_another_user_are_refused(home: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: the folder of digests was made by another user, before this one used it."""
    store_trust([digest_of("theirs")])
    if os.geteuid() == 0:
        os.chown(home / place, OTHER_USER, -1)
    else:  # only root can give a file away: this process becomes another one instead
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    with pytest.raises(TrustFileError, match="belongs to another user"):
        load_trust()
    with pytest.raises(TrustFileError, match="belongs to another user"):
        store_trust([digest_of("x")])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_of_digests_is_refused_at_once(home: Path) -> None:
    """Attack: a FIFO in the place of the file; reading it waited for a writer."""
    os.mkfifo(home / "trusted.json")
    with pytest.raises(TrustFileError, match="is not a regular file"):
        load_trust()


def test_the_stored_file_is_for_its_owner_only() -> None:
    store_trust([digest_of("mine")], note="caf\udce9.yaml")
    assert trust_path().stat().st_mode & 0o077 == 0
    assert [one.name for one in trust_path().parent.glob("*.new")] == []
