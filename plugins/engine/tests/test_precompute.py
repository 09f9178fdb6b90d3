"""Results from stored replies are computed in other processes, and are the same as without them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from journal_runs import CONFIG, ScriptedRuns, make_benchmark, read_result_lines, summarize

from karenina_cli.running.run_execution import stop_on_signals
from karenina_core import ArtifactKeys, Slot, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import AgentOptions, Message
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.run.execution import execute_session, run_blocking
from karenina_engine.run.prepare import open_run
from karenina_engine.run.process_pool import can_fork, cores
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession

pytestmark = [
    pytest.mark.forks,
    pytest.mark.skipif(not can_fork() or cores() < 2, reason="processes cannot be forked here"),
]

IDS = [f"q{number}" for number in range(260)]
ITEMS = 2 * len(IDS)
HERE = os.getpid()


class ProcessRecorder(Stage):
    """A stage that records whether an item ran in another process, and calls the function of the test there."""

    name = "ProcessRecorder"
    before = frozenset({Slot.FINALIZE_RESULT})
    does: Callable[[str], None] = staticmethod(lambda _id: None)

    def execute(self, context: VerificationContext) -> None:
        type(self).does(context.question.id)
        context.set_result_field("elsewhere", os.getpid() != HERE)


class Act(Stage):
    """A stage that calls an agent."""

    name = "Act"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    usage_key = "acting"

    async def execute(self, context: VerificationContext) -> None:
        await context.agent().run([Message.user(context.question.question)], AgentOptions())


class ActPlugin:
    """A plugin with the stage `Act`."""

    @hookimpl
    def karenina_extra_stages(self) -> Sequence[type[Stage]]:
        return [Act]


class RecorderPlugin:
    """A plugin with the stage `ProcessRecorder`."""

    @hookimpl
    def karenina_extra_stages(self) -> Sequence[type[Stage]]:
        return [ProcessRecorder]


class StageObserver:
    """A plugin that observes stages."""

    @hookimpl
    def karenina_stage_finished(self, record: object) -> None:
        """Do nothing."""


class ResultObserver:
    """A plugin that observes results."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, int]] = []

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        self.seen.append(result.item)


def plugins(world: ScriptedRuns, *more: object) -> Plugins:
    room = world.plugins()
    for plugin in (RecorderPlugin(), *more):
        room.register(plugin)
    return room


def resume(
    folder: Path, world: ScriptedRuns, *more: object, replay: bool = False, **config: Any
) -> tuple[RunSession, VerificationResultSet]:
    """Run all questions with the journal of the folder."""
    journal, output = folder / "j.journal", folder / "out.jsonl"
    benchmark, wanted = make_benchmark(*IDS), VerificationConfig(**{**CONFIG, **config})
    with (
        plugin_room.use_plugins(plugins(world, *more)),
        open_run(RunRequest(benchmark, wanted, output=output, journal=journal, replay=replay)) as run,
        stop_on_signals(run, print),
    ):
        run_blocking(lambda: execute_session(run, output=output))
    return run, VerificationResultSet.load(output)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the journal and the output of a finished run."""
    folder = tmp_path_factory.mktemp("whole")
    resume(folder, ScriptedRuns())
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder, with the results removed from the journal."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    forget(tmp_path, "results")
    return tmp_path


def forget(folder: Path, what: str) -> None:
    with sqlite3.connect(folder / "j.journal") as database:
        database.execute(f"DELETE FROM {what}")


def pop_elsewhere(results: VerificationResultSet) -> int:
    """Remove the records of `ProcessRecorder`; return the number of items that ran in another process."""
    return sum(bool(extension.pop("elsewhere", False)) for one in results for extension in one.extensions.values())


def facts(run: RunSession, results: VerificationResultSet) -> list[Any]:
    assert run.result_store is not None
    ledger = {name: value for name, value in run.ledger.to_dict().items() if name != "prices"}
    return [
        summarize(results),
        run.tally,
        ledger,
        run.result_store.kept,
        run.result_store.again,
        run.outcomes.summary(),
    ]


def test_other_processes_compute_the_same_results(folder: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(folder, other, dirs_exist_ok=True)
    pool_world, alone_world, seeing = ScriptedRuns(), ScriptedRuns(), ResultObserver()
    with_pool, found = resume(folder, pool_world, seeing)
    alone, expected = resume(other, alone_world, StageObserver())

    assert (pop_elsewhere(found), pop_elsewhere(expected)) == (ITEMS, 0)
    assert facts(with_pool, found) == facts(alone, expected)
    assert seeing.seen == [one.item for one in found]
    assert (pool_world.calls, alone_world.calls) == ([], [])


def test_stored_results_are_yielded_unchanged_and_counted(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    run, _ = resume(tmp_path, ScriptedRuns())

    assert run.result_store is not None
    assert (run.result_store.kept, run.tally.cached) == (ITEMS, 0)
    header, *lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert lines == (whole / "out.jsonl").read_bytes().splitlines()[1:]
    assert header.startswith(b'{"run":')


def test_computed_results_are_stored(folder: Path) -> None:
    _, first = resume(folder, ScriptedRuns())
    run, again = resume(folder, ScriptedRuns())

    assert run.result_store is not None
    assert run.result_store.kept == ITEMS
    assert again.results == first.results


def test_a_replay_writes_what_the_run_wrote(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    (tmp_path / "out.jsonl").unlink()
    _, found = resume(tmp_path, ScriptedRuns(), replay=True)
    then = VerificationResultSet.load(whole / "out.jsonl")

    assert (pop_elsewhere(found), pop_elsewhere(then)) == (ITEMS, 0)
    assert found.results == then.results


@pytest.mark.parametrize(
    ("lost", "asked"),
    [
        ("question_id = 'q7' AND stage = 'Say' AND model = 'm'", 1),
        ("question_id IN ('q7', 'q99', 'q259') AND stage = 'Count'", 6),
        ("question_id > 'q2'", 4 * len([id for id in IDS if id > "q2"])),
        ("question_id <> 'q7'", 4 * (len(IDS) - 1)),
    ],
    ids=["an answer", "judgements", "most", "nearly all"],
)
def test_only_missing_replies_are_requested(folder: Path, whole: Path, lost: str, asked: int) -> None:
    forget(folder, f"replies WHERE {lost}")
    world = ScriptedRuns()
    run, found = resume(folder, world)

    assert (len(world.calls), run.tally.made) == (asked, asked)
    assert run.tally.cached == 2 * ITEMS - asked
    pop_elsewhere(found)
    then = VerificationResultSet.load(whole / "out.jsonl")
    pop_elsewhere(then)
    assert summarize(found) == summarize(then)


def test_agents_are_not_called_in_other_processes(tmp_path: Path) -> None:
    resume(tmp_path, ScriptedRuns(), ActPlugin())
    forget(tmp_path, "results")
    world = ScriptedRuns()
    run, found = resume(tmp_path, world, ActPlugin())

    assert (pop_elsewhere(found), run.tally.made, run.tally.cached) == (0, 0, 3 * ITEMS)


def test_a_process_that_dies_costs_no_item(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(id: str) -> None:
        if id in ("q3", "q130") and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ProcessRecorder, "does", staticmethod(die))
    world = ScriptedRuns()
    run, found = resume(folder, world)

    assert [one.item for one in found] == [(id, model, "j", 1) for id in IDS for model in ("m", "n")]
    assert (world.calls, run.tally.cached) == ([], 2 * ITEMS)


def test_a_failure_in_another_process_fails_the_same_item(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(id: str) -> None:
        if id == "q3":
            raise ValueError("q3 is odd")

    monkeypatch.setattr(ProcessRecorder, "does", staticmethod(fail))
    _, found = resume(folder, ScriptedRuns())

    assert [one.question_id for one in found if one.outcome.value == "stage_error"] == ["q3", "q3"]


FOLDERS = [folder for folder in sys.path if folder.endswith("support")]
"""The folder of the tests' helpers."""
PROGRAM = """
import os, sys, time
sys.path[:0] = {path!r}
import test_precompute
from journal_runs import ScriptedRuns
from pathlib import Path

folder, here = Path({folder!r}), os.getpid()
test_precompute.HERE = here

def slowly(id):
    if os.getpid() != here:
        (folder / f"{{os.getpid()}}.pid").touch()
        time.sleep(0.005)

test_precompute.ProcessRecorder.does = staticmethod(slowly)
test_precompute.resume(folder, ScriptedRuns())
"""


def start_run(folder: Path) -> subprocess.Popen[str]:
    """Start the run in a process of its own, and wait for the first results."""
    (folder / "out.jsonl").unlink()
    program = PROGRAM.format(path=[str(Path(__file__).parent), *FOLDERS], folder=str(folder))
    command = [sys.executable, "-c", program]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 120
    while not ((folder / "out.jsonl").exists() and read_result_lines(folder / "out.jsonl")):
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.01)
    return running


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["killed", "Ctrl-C"])
def test_a_run_that_ends_early_ends_its_processes(folder: Path, whole: Path, how: str) -> None:
    running = start_run(folder)
    if how == "killed":
        running.kill()
    else:
        os.killpg(running.pid, signal.SIGINT)  # like a terminal: the other processes receive it too
    _, err = running.communicate(timeout=120)
    helpers = [int(file.stem) for file in folder.glob("*.pid")]
    end = time.monotonic() + 60
    while any(alive(pid) for pid in helpers) and time.monotonic() < end:
        time.sleep(0.01)
    written = len(read_result_lines(folder / "out.jsonl"))
    world = ScriptedRuns()
    run, found = resume(folder, world)

    assert running.returncode == (-signal.SIGKILL if how == "killed" else 0), err
    assert "Traceback" not in err
    assert helpers
    assert not [pid for pid in helpers if alive(pid)]
    assert world.calls == []
    assert run.result_store is not None
    assert written <= run.result_store.kept < ITEMS
    pop_elsewhere(found)
    then = VerificationResultSet.load(whole / "out.jsonl")
    pop_elsewhere(then)
    assert summarize(found) == summarize(then)


def test_a_process_with_threads_logs_that_it_uses_one_core(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "karenina")
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        over.set()
        thread.join()
    if sys.platform.startswith("linux"):
        assert "one core is used" in caplog.text
