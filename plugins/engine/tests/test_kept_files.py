"""Files that stages and adapters keep with an item: beside the journal, in results, resumed runs and replays."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from journal_runs import CONFIG, RunKilled, ScriptedRuns, make_benchmark

from karenina_core import ArtifactKeys, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import KeptFile
from karenina_core.plugins import Plugins, use_plugins
from karenina_engine.offline.rescoring import rescore
from karenina_engine.results.kept_files import MOST_OF_ITEM, FileStore, KeptFiles, files_folder
from karenina_engine.results.result_set import read_results
from karenina_toolkit.kept_files import keep_file

PNG = b"\x89PNG\r\n\x1a\n and the rest"
Give = Callable[[VerificationContext], object]


@dataclass
class KeepingRuns(ScriptedRuns):
    """Runs with one stage more, which calls `give`, once for an answer, or for each judge."""

    give: Give = lambda _context: None
    scope: str = "item"

    def plugins(self) -> Plugins:
        give, chosen = self.give, self.scope

        class Keep(Stage):
            name = "Keep"
            requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
            scope = chosen  # type: ignore[assignment]

            def execute(self, context: VerificationContext) -> None:
                give(context)

        class Keeping:
            @hookimpl
            def karenina_extra_stages(self) -> Sequence[type[Stage]]:
                return [Keep]

        plugins = super().plugins()
        plugins.register(Keeping(), distribution="keeping")
        return plugins


def one_of(results: Any) -> VerificationResult:
    found: VerificationResult = next(iter(results))
    assert found.metadata.error is None
    return found


def plot(context: VerificationContext) -> None:
    keep_file("plot.png", PNG + context.question.id.encode())


def content_of(folder: Path, kept: KeptFile) -> bytes:
    assert kept.sha256 is not None
    return (folder / kept.sha256).read_bytes()


def test_a_file_of_a_stage_is_beside_the_journal_and_in_the_result(tmp_path: Path) -> None:
    (result, _) = KeepingRuns(give=plot).run(make_benchmark("a"), journal=tmp_path / "j.journal")

    (kept,) = result.metadata.files
    assert (kept.name, kept.media_type, kept.size) == ("plot.png", "image/png", len(PNG) + 1)
    assert content_of(tmp_path / "j.files", kept) == PNG + b"a"
    assert kept.sha256 == hashlib.sha256(PNG + b"a").hexdigest()


def test_folder_and_files_are_for_their_owner_only(tmp_path: Path) -> None:
    KeepingRuns(give=plot).run(make_benchmark("a"), journal=tmp_path / "j.journal")

    folder = tmp_path / "j.files"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()] == [0o600]


def test_every_judge_gets_the_files_of_the_answer_and_its_own(tmp_path: Path) -> None:
    run = KeepingRuns(give=plot, scope="answer", counts=lambda text: (keep_file("log.txt", b"2"), '{"words": 2}')[1])
    models = [{"id": one, "interface": "scripted", "model_name": one} for one in ("j", "k")]
    results = run.run(make_benchmark("a"), journal=tmp_path / "j.journal", config={"parsing_models": models})

    assert [[one.name for one in result.metadata.files] for result in results] == [["plot.png", "log.txt"]] * 4


def test_files_of_an_adapter_are_kept_with_its_reply(tmp_path: Path) -> None:
    def answers(text: str) -> str:
        keep_file("answer.log", text.encode())
        return "an answer"

    first, again = KeepingRuns(answers=answers), KeepingRuns()
    journal = tmp_path / "j.journal"
    one = one_of(first.run(make_benchmark("a"), journal=journal))
    replayed = one_of(again.run(make_benchmark("a"), journal=journal, replay=True))

    assert [kept.name for kept in one.metadata.files] == ["answer.log"]
    assert replayed.metadata.files == one.metadata.files
    assert again.calls == []


def test_a_stopped_run_keeps_its_files_when_it_resumes(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    stopped, rest = KeepingRuns(give=plot), KeepingRuns(give=plot)

    def on_call(text: str) -> None:
        if len(stopped.calls) == 6:
            raise RunKilled

    stopped.on_call = on_call
    with pytest.raises(RunKilled):
        stopped.run(make_benchmark("a", "b", "c"), journal=journal)
    before = {one.name for one in (tmp_path / "j.files").iterdir()} if (tmp_path / "j.files").exists() else set()
    results = rest.run(make_benchmark("a", "b", "c"), journal=journal)

    assert [len(result.metadata.files) for result in results] == [1] * 6
    assert before <= {one.name for one in (tmp_path / "j.files").iterdir()}
    assert all(KeptFiles(journal, journal).find(one.metadata.files[0]).problem is None for one in results)


KILLED = """
import os, sys
sys.path[:0] = {path!r}
from pathlib import Path
from test_kept_files import KeepingRuns
from journal_runs import make_benchmark
from karenina_toolkit.kept_files import keep_file

def give(context):
    keep_file("data", os.urandom(100) * 100)

ids = [f"q{{number}}" for number in range(2000)]
KeepingRuns(give=give).run(make_benchmark(*ids), journal=Path("j.journal"), output=Path("j.results.jsonl"))
"""


def test_a_killed_run_has_every_file_that_a_result_names(tmp_path: Path) -> None:
    program = KILLED.format(path=[path for path in sys.path if path])
    run = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    output = tmp_path / "j.results.jsonl"
    while run.poll() is None and (not output.exists() or output.stat().st_size < 100_000):
        time.sleep(0.01)
    run.kill()
    run.wait()

    results = list(read_results(output))
    folders = KeptFiles(output)
    assert 10 < len(results) < 4000
    assert [folders.find(kept).problem for one in results for kept in one.metadata.files] == [None] * len(results)


def test_a_run_without_files_has_no_folder(tmp_path: Path) -> None:
    KeepingRuns().run(make_benchmark("a"), journal=tmp_path / "j.journal")

    assert [one.name for one in tmp_path.iterdir()] == ["j.journal"]


def test_a_run_without_a_journal_keeps_files_beside_its_output(tmp_path: Path) -> None:
    KeepingRuns(give=plot).run(make_benchmark("a"), output=tmp_path / "x.results.jsonl")

    assert len(list((tmp_path / "x.files").iterdir())) == 1


def test_a_run_in_memory_says_that_it_keeps_no_file(caplog: pytest.LogCaptureFixture) -> None:
    (kept,) = one_of(KeepingRuns(give=plot).run(make_benchmark("a"))).metadata.files

    assert kept.sha256 is None
    assert "would be stored next to the journal or the result file, but the run has neither" in str(kept.left_out)
    assert "[a] the file 'plot.png' was left out" in caplog.text


@pytest.mark.parametrize("place", ["again.results.jsonl", "elsewhere/again.results.jsonl"])
def test_rescored_results_have_the_files_beside_them(tmp_path: Path, place: str) -> None:
    def answers(text: str) -> str:
        keep_file("answer.log", text.encode())
        return "an answer"

    runs, journal, output = KeepingRuns(give=plot, answers=answers), tmp_path / "j.journal", tmp_path / place
    benchmark = make_benchmark("a", "b")
    results = runs.run(benchmark, journal=journal)
    output.parent.mkdir(exist_ok=True)
    with use_plugins(runs.plugins()):
        rescore(journal, benchmark, VerificationConfig(**CONFIG), output=output)

    folders = KeptFiles(output)
    again = {one.item: one.metadata.files for one in read_results(output)}
    assert again == {one.item: one.metadata.files for one in results}
    assert {folders.find(kept).problem for files in again.values() for kept in files} == {None}


def test_rescoring_without_output_writes_no_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs, journal = KeepingRuns(), tmp_path / "j.journal"
    benchmark = make_benchmark("a")
    runs.run(benchmark, journal=journal)
    runs.give = plot
    with use_plugins(runs.plugins()):
        rescore(journal, benchmark, VerificationConfig(**CONFIG))

    assert [one.name for one in tmp_path.iterdir()] == ["j.journal"]
    assert "left out" not in caplog.text


# ---- bounds


def test_a_file_beyond_its_limit_is_left_out_unread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(5_000_000_000)
    run = KeepingRuns(give=lambda _: keep_file("huge.bin", huge))
    (kept,) = one_of(run.run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert (kept.sha256, kept.left_out) == (
        None,
        "the file size is 5,000 MB, but the limit is 20 MB (kept_file_bytes)",
    )
    assert "huge.bin" in caplog.text
    assert list((tmp_path / "j.files").iterdir() if (tmp_path / "j.files").exists() else ()) == []


def test_the_limit_of_a_run_leaves_out_what_exceeds_it(tmp_path: Path) -> None:
    run = KeepingRuns(give=lambda context: keep_file("x", context.question.id.encode() * 100))
    results = run.run(make_benchmark("a", "b", "c"), journal=tmp_path / "j.journal", config={"kept_files_bytes": 200})

    kept = {one.question_id: one.metadata.files[0] for one in results}
    assert sum(one.sha256 is not None for one in kept.values()) == 2
    assert sum("kept_files_bytes" in str(one.left_out) for one in kept.values()) == 1


def test_thousands_of_files_of_an_item_are_counted_not_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def many(_: object) -> None:
        for number in range(MOST_OF_ITEM + 5_000):
            keep_file(f"{number}.txt", b"%d" % (number % 200))

    files = one_of(KeepingRuns(give=many).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert len(files) == MOST_OF_ITEM + 1
    assert str(files[-1].left_out).startswith("5,000 more")
    assert caplog.text.count("and all later files were left out") == 2  # two answering models
    assert len(list((tmp_path / "j.files").iterdir())) == MOST_OF_ITEM


def test_a_run_has_at_most_a_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_engine.results.kept_files.MOST_OF_RUN", 3)
    store = FileStore(tmp_path / "x.files", 10, 10_000)
    kept = [store.add(str(number), b"%d" % number, "text/plain", None, "q") for number in range(5)]

    assert [one.sha256 is not None for one in kept] == [True, True, True, False, False]


# ---- names, links, types


def test_one_name_given_twice_is_two_files(tmp_path: Path) -> None:
    def twice(_: object) -> None:
        for content in (b"1", b"2", b"1"):
            keep_file("log.txt", content)

    files = one_of(KeepingRuns(give=twice).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert [one.name for one in files] == ["log.txt", "log-2.txt"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret, work = tmp_path / "secret", tmp_path / "work"
    secret.mkdir()
    (secret / "key").write_text("secret")
    work.mkdir()
    (work / "link").symlink_to(secret / "key")
    (work / "out").symlink_to(secret)

    def give(_: object) -> None:
        keep_file("a", work / "link")
        keep_file("b", work / "out" / "key", below=work)
        keep_file("c", work / ".." / "secret" / "key", below=work)
        keep_file("d", Path("link"), below=work)

    files = one_of(KeepingRuns(give=give).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert [one.sha256 for one in files] == [None] * 4
    assert list((tmp_path / "j.files").glob("*") if (tmp_path / "j.files").exists() else ()) == []


def test_a_pipe_and_a_folder_are_left_out_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def give(_: object) -> None:
        keep_file("pipe", tmp_path / "pipe")
        keep_file("folder", tmp_path)
        keep_file("absent", tmp_path / "absent")

    files = one_of(KeepingRuns(give=give).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert [one.sha256 for one in files] == [None] * 3
    assert all(one.left_out for one in files)


def test_a_path_below_a_workspace_is_copied(tmp_path: Path) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "plot").write_bytes(PNG)
    run = KeepingRuns(give=lambda _: keep_file("plot", tmp_path / "work" / "sub" / "plot", below=tmp_path / "work"))
    (kept,) = one_of(run.run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert (kept.media_type, content_of(tmp_path / "j.files", kept)) == ("image/png", PNG)


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "j.files").symlink_to(tmp_path / "elsewhere")
    (kept,) = one_of(KeepingRuns(give=plot).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert kept.left_out
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "j.files").mkdir()
    (tmp_path / "j.files" / hashlib.sha256(PNG + b"a").hexdigest()).symlink_to(victim)
    (kept,) = one_of(KeepingRuns(give=plot).run(make_benchmark("a"), journal=tmp_path / "j.journal")).metadata.files

    assert kept.left_out
    assert victim.read_text() == "mine"


# ---- reading


def stored(folder: Path, content: bytes = PNG) -> KeptFile:
    return FileStore(folder / "x.files", 1000, 10_000).add("x", content, "image/png", None, "q")


def test_a_stored_file_is_found_beside_results_of_any_name(tmp_path: Path) -> None:
    kept = stored(tmp_path)

    assert KeptFiles(tmp_path / "x.results.jsonl").find(kept).content == PNG
    assert KeptFiles(tmp_path / "renamed.jsonl").find(kept).content == PNG


def test_deleted_and_changed_files_are_named_as_such(tmp_path: Path) -> None:
    kept = stored(tmp_path)
    file = tmp_path / "x.files" / str(kept.sha256)

    file.write_bytes(PNG[:-1] + b"!")
    assert KeptFiles(tmp_path / "x.jsonl").find(kept).problem == "the content of the file has changed since the run"
    file.unlink()
    assert KeptFiles(tmp_path / "x.jsonl").find(kept).problem == "the file is not in the folders next to the results"


def test_a_file_that_was_damaged_is_written_again(tmp_path: Path) -> None:
    kept = stored(tmp_path)
    file = tmp_path / "x.files" / str(kept.sha256)
    file.write_bytes(b"damaged")

    stored(tmp_path)

    assert file.read_bytes() == PNG


@pytest.mark.parametrize("digest", ["../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_result_cannot_name_another_path(digest: str) -> None:
    with pytest.raises(ValueError, match="sha256"):
        KeptFile(name="x", media_type="text/plain", sha256=digest)


def test_a_huge_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.files").mkdir()
    with (tmp_path / "x.files" / ("a" * 64)).open("wb") as file:
        file.truncate(50_000_000_000)

    found = KeptFiles(tmp_path / "x.jsonl").find(
        KeptFile(name="x", media_type="image/png", size=50_000_000_000, sha256="a" * 64)
    )

    assert "which is too large to compare with the digest" in str(found.problem)


def test_a_link_in_the_store_is_not_read(tmp_path: Path) -> None:
    kept = stored(tmp_path)
    file = tmp_path / "x.files" / str(kept.sha256)
    file.rename(tmp_path / "content")
    file.symlink_to(tmp_path / "content")

    assert KeptFiles(tmp_path / "x.jsonl").find(kept).content == b""


# ---- several processes


def write_many(folder: Path, number: int) -> None:
    store = FileStore(folder, 100_000, 10**9)
    for content in range(40):
        assert store.add("same", b"%d" % content * 5000, "text/plain", None, str(number)).sha256


def test_processes_that_write_the_same_files_leave_each_whole(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=write_many, args=(tmp_path / "x.files", number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0] * 4
    found = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in (tmp_path / "x.files").iterdir()}
    assert len(found) == 40
    assert all(name == digest for name, digest in found.items())


@pytest.mark.parametrize(
    ("journal", "folder"), [("genes.journal", "genes.files"), ("genes", "genes.files"), ("a.b.journal", "a.b.files")]
)
def test_the_folder_has_the_name_of_the_journal(journal: str, folder: str) -> None:
    assert files_folder(Path("runs") / journal) == Path("runs") / folder
