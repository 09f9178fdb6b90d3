"""Tests of the file of a journal: one process at a time, and errors with a cure."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType

import pytest
from full_disk import no_file_above
from journal_runs import CONFIG, ScriptedRuns, make_benchmark, summarize

from karenina_core import VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.models.ports import ErrorCategory, PortError, Usage
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.journal.file import JournalInUse
from karenina_engine.journal.journal import GATHERING, Journal, JournalError
from karenina_engine.journal.repair import repair
from karenina_engine.journal.view import JournalView
from karenina_engine.run.execution import collect_results
from karenina_engine.run.prepare import open_run
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession
from karenina_testing.virtual_time import run_in_virtual_time

HOLDER = """
import sys, time
from karenina_engine.journal.journal import Journal
with Journal.open(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_process_with(journal: Path) -> Iterator[subprocess.Popen[str]]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(journal)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()


def test_second_process_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    with another_process_with(journal) as other:
        with pytest.raises(JournalInUse, match=f"process {other.pid} is using the journal") as refused:
            Journal.open(journal)
        with JournalView(journal) as view:
            assert view.status().pid == other.pid
    assert refused.value.pid == other.pid


def test_a_process_that_was_killed_holds_the_journal_no_more(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    with another_process_with(journal):
        pass

    with JournalView(journal) as view:
        assert view.status().pid is None
    with Journal.open(journal):
        pass


def _beside(journal: Path) -> list[str]:
    return sorted(file.name for file in journal.parent.iterdir())


def test_run_and_readers_leave_one_file(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a", "b"), journal=journal)
    after_run = _beside(journal)
    with JournalView(journal) as view:
        while_read = (view.status().done, _beside(journal))
    ScriptedRuns().run(make_benchmark("a", "b"), journal=journal, replay=True)

    assert after_run == ["j.journal"]
    assert while_read == (4, ["j.journal"])
    assert _beside(journal) == ["j.journal"]


def test_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    with another_process_with(journal):
        pass
    left = _beside(journal)
    ScriptedRuns().run(make_benchmark("a"), journal=journal)

    assert left == ["j.journal", "j.journal-shm", "j.journal-wal", "j.journal.lock"]
    assert _beside(journal) == ["j.journal"]


def test_repaired_journal_is_one_file(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a", "b"), journal=journal)
    repair(journal, tmp_path / "copy.journal")
    with JournalView(tmp_path / "copy.journal") as view:
        assert view.status().done == 4

    assert _beside(journal) == ["copy.journal", "j.journal"]


def test_repair_warns_of_a_newer_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a"), journal=journal)
    _newer(journal)
    report = repair(journal)

    assert report.kept["results"] == 2
    assert report.kept_as is not None
    assert "has format 99, but this version of Karenina reads only up to 3" in caplog.text


def test_run_ends_while_a_process_reads_its_journal(tmp_path: Path) -> None:
    journal, runs = tmp_path / "j.journal", ScriptedRuns()
    runs.run(make_benchmark("a"), journal=journal)
    with closing(sqlite3.connect(journal, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM results").fetchone()
        runs.run(make_benchmark("a", "b"), journal=journal)
        reader.execute("COMMIT")
    with JournalView(journal) as view:
        assert view.status().done == 4


def test_two_runs_of_one_process_do_not_share_a_journal(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j.journal"), pytest.raises(JournalInUse, match=f"process {os.getpid()}"):
        ScriptedRuns().run(make_benchmark("a"), journal=tmp_path / "j.journal")


def _text(file: Path) -> None:
    file.write_text("not a journal, but the thesis of a year\n")


def _other_database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE notes (text)")


def _newer(file: Path) -> None:
    Journal.open(file).close()
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")


def _damaged(file: Path) -> None:
    Journal.open(file).close()
    file.write_bytes(file.read_bytes()[:1000] + b"\xff" * 4000)


ROW_ERRORS = {
    "a text": (_text, "is not a journal and was not changed"),
    "another database": (_other_database, "another program's database"),
    "a newer format": (_newer, "has format 99, but this version of Karenina reads only up to 3"),
    "a damaged file": (_damaged, "damaged.*--fresh"),
    "a folder": (Path.mkdir, "is a folder"),
}


@pytest.mark.parametrize("case", ROW_ERRORS)
def test_other_file_is_refused_before_any_call(tmp_path: Path, case: str) -> None:
    make, words_of_it = ROW_ERRORS[case]
    file, world = tmp_path / "x.journal", ScriptedRuns()
    make(file)
    before = None if file.is_dir() else file.read_bytes()

    with pytest.raises(JournalError, match=words_of_it):
        world.run(make_benchmark("a"), journal=file)
    assert world.calls == []
    assert before is None or file.read_bytes() == before


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be opened"):
        ScriptedRuns().run(make_benchmark("a"), journal=tmp_path / "file" / "j.journal")


def test_full_disk_stops_the_run_and_loses_no_stored_row(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(30)]
    journal, stopped, rest = tmp_path / "j.journal", ScriptedRuns(), ScriptedRuns()
    stopped.answers = rest.answers = lambda text: text + " x" * 1500
    with no_file_above(450_000), pytest.raises(JournalError, match="same command continues the run") as told:
        stopped.run(make_benchmark(*ids), journal=journal)
    with JournalView(journal) as view:
        stored = view.status().calls
    results = rest.run(make_benchmark(*ids), journal=journal)

    assert "disk" in str(told.value)
    assert stored > 0
    assert len(rest.calls) == 120 - stored
    expected = ScriptedRuns(answers=stopped.answers)
    assert summarize(results) == summarize(expected.run(make_benchmark(*ids)))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_disappears_during_the_run_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, replaced: bool
) -> None:
    journal, run = tmp_path / "j.journal", ScriptedRuns()

    def remove(_text: str) -> None:
        if len(run.calls) == 3:
            journal.unlink()
            if replaced:
                journal.write_bytes(b"")

    run.on_call = remove
    results = run.run(make_benchmark("a", "b"), journal=journal)

    assert summarize(results) == summarize(ScriptedRuns().run(make_benchmark("a", "b")))
    told = [record.getMessage() for record in caplog.records if "removed, renamed or replaced" in record.getMessage()]
    assert [str(journal) in message for message in told] == [True]


def test_a_journal_is_still_there_if_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    run = ScriptedRuns()
    run.on_call = lambda _text: monkeypatch.chdir(tmp_path / "other")
    run.run(make_benchmark("a", "b"), journal=Path("j.journal"))

    assert [record.getMessage() for record in caplog.records if "removed" in record.getMessage()] == []


def test_journal_of_a_process_killed_during_creation_can_be_used(tmp_path: Path) -> None:
    journal, undisturbed = tmp_path / "j.journal", ScriptedRuns()
    with closing(sqlite3.connect(journal, isolation_level=None)) as begun:
        begun.execute("PRAGMA journal_mode = WAL")
    assert journal.stat().st_size > 0

    assert summarize(ScriptedRuns().run(make_benchmark("a"), journal=journal)) == summarize(
        undisturbed.run(make_benchmark("a"))
    )


def test_cause_of_the_end_is_reported_if_closing_fails(tmp_path: Path) -> None:
    def run_that_ends_on_a_full_disk() -> None:
        with ExitStack() as full_disk, Journal.open(tmp_path / "j.journal"):
            full_disk.enter_context(no_file_above(0))
            raise ValueError("what ended it")

    with pytest.raises(ValueError, match="what ended it"):
        run_that_ends_on_a_full_disk()


@pytest.mark.parametrize("left", [1, 15, 16, 50, 71, 99, 100, 512, 4096, 20000])
def test_truncated_journal_is_reported_as_damaged_with_the_cure(tmp_path: Path, left: int) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a"), journal=journal)
    cut = journal.read_bytes()[:left]
    journal.write_bytes(cut)

    for opening in (JournalView, Journal.open):
        with pytest.raises(
            JournalError, match=r"damaged.*--fresh to start a new journal and keep this one under another"
        ):
            opening(journal)
    Journal.open(journal, fresh=True).close()
    assert (tmp_path / "j-1.journal").read_bytes() == cut


async def _seconds(journal: Journal, limits: ConcurrencyLimits, *under_way: int) -> float:
    """Return how long later rows wait for their commit, while so many calls are being answered."""
    loop = asyncio.get_running_loop()
    await journal.finish(0, ("q0", "a", "j", 1), b"f", "correct", "{}", again=False)
    began = loop.time()
    waiting = []
    for index, calls in enumerate(under_way, start=1):
        limits.held = calls
        waiting.append(journal.finish(index, (f"q{index}", "a", "j", 1), b"f", "correct", "{}", again=False))
    await asyncio.gather(*waiting)
    return loop.time() - began


@pytest.mark.parametrize(
    ("under_way", "waited"),
    [((5, 4, 3), GATHERING), ((0,), 0.0), ((2, 1, 0), 0.0)],
    ids=["others may come", "nobody else is waited for", "the last one has come"],
)
def test_rows_written_while_models_answer_are_committed_together(
    under_way: tuple[int, ...], waited: float, tmp_path: Path
) -> None:
    limits = ConcurrencyLimits(lambda _model: Bounds())
    with Journal.open(tmp_path / "j.journal", limits=limits) as journal:
        assert run_in_virtual_time(_seconds(journal, limits, *under_way)) == pytest.approx(waited)


def test_ctrl_c_just_when_a_transaction_has_begun_loses_nothing(tmp_path: Path) -> None:
    def interrupt(frame: FrameType, event: str, _argument: object) -> None:
        if event == "c_return" and frame.f_code.co_name == "transaction":  # BEGIN has been said
            sys.setprofile(None)
            raise KeyboardInterrupt

    async def work(journal: Journal) -> None:
        waiting = journal.finish(0, ("q", "a", "j", 1), b"f", "correct", "{}", again=False)
        sys.setprofile(interrupt)
        with pytest.raises(KeyboardInterrupt):
            journal.flush()
        journal.flush()
        asyncio.ensure_future(waiting).cancel()

    with Journal.open(tmp_path / "j.journal") as journal:
        asyncio.run(work(journal))
    with closing(sqlite3.connect(tmp_path / "j.journal")) as database:
        assert database.execute("SELECT question_id FROM results").fetchall() == [("q",)]


def test_instant_models_wait_for_no_commit(tmp_path: Path) -> None:
    async def seconds(run: RunSession) -> float:
        await collect_results(run)
        return asyncio.get_running_loop().time()

    request = RunRequest(make_benchmark(*"abcdefgh"), VerificationConfig(**CONFIG), journal=tmp_path / "j.journal")
    with plugin_room.use_plugins(ScriptedRuns().plugins()), open_run(request) as run:
        assert run_in_virtual_time(seconds(run)) == 0


def test_a_failed_attempt_is_in_the_journal_before_the_next_one(tmp_path: Path) -> None:
    journal, spent = tmp_path / "j.journal", list[int]()
    runs = ScriptedRuns()

    def fail_once(_text: str) -> None:
        with JournalView(journal) as view:
            spent.append(sum(line.spent.output_tokens for line in view.status().spent))
        if len(spent) == 1:
            raise PortError("empty", category=ErrorCategory.EMPTY, usage=Usage(10, 50, calls=1), retry_after=5.0)

    runs.on_call = fail_once
    config = VerificationConfig(**{**CONFIG, "answering_models": CONFIG["answering_models"][:1]})
    with (
        plugin_room.use_plugins(runs.plugins()),
        open_run(RunRequest(make_benchmark("a"), config, journal=journal)) as run,
    ):
        run_in_virtual_time(collect_results(run))

    assert spent[:2] == [0, 50]
