"""Runs on Ray bring what runs in one process bring, with the same calls, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from ray_runs import KEY, benchmark, config, run, serving, told

from karenina_core import Outcome
from karenina_core import plugins as plugin_room
from karenina_core.plugins import Plugins
from karenina_engine.execution import collect_results
from karenina_engine.journal.journal import Journal
from karenina_engine.journal.request import RunRequest
from karenina_engine.scheduling.prepare import prepare_session
from karenina_ray.scheduler import ExecutorError

TOWN = str(Path(__file__).parent / "town")

pytestmark = pytest.mark.usefixtures("ray")


def test_four_workers_of_which_one_is_killed_bring_what_one_process_brings(ray: Path, tmp_path: Path) -> None:
    questions = benchmark(60)
    with serving() as server:
        expected = run(server, "asyncio", questions, tmp_path / "asyncio.journal")
        needed = server.calls
    with serving(latency=0.1) as server:
        server.processes = 4
        killed: list[int] = []

        def kill(pid: int) -> None:
            if not killed and len(server.heard) > 80:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        server.on_call = kill
        found = run(server, "ray", questions, tmp_path / "ray.journal", max_concurrency=16)

    assert told(found) == told(expected)
    again = server.calls - needed
    assert set(server.calls) == set(needed)
    # The killed one had 4 of the 16 places; as many replies may not yet have reached the journal.
    assert 0 < again.total() <= 8
    assert set(again) <= {text for pid, text in server.heard if pid == killed[0]}
    assert max(server.calls.values()) == 2


def test_no_secret_stands_in_the_files_of_ray(ray: Path) -> None:
    with serving() as server:
        run(server, "ray", benchmark(2), ray_workers=1)

    assert server.keys == {KEY}
    assert [file for file in ray.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()] == []


def test_a_call_that_two_workers_need_is_made_by_one(tmp_path: Path) -> None:
    questions = benchmark(0, *["the same house"] * 24)
    with serving(latency=0.3) as server:
        found = run(server, "ray", questions, tmp_path / "journal", ray_workers=2, max_concurrency=4)

    assert len(found) == 48
    assert set(server.calls.values()) == {1}


def test_an_answer_that_kills_its_workers_ends_as_an_error_and_the_others_go_on(tmp_path: Path) -> None:
    with serving() as server:
        found = run(server, "ray", benchmark(12, "a cup of poison"), tmp_path / "journal", ray_workers=2)

    dead = [one for one in found if one.outcome is not Outcome.SCORED and "poison" in one.metadata.question_text]
    assert [one.outcome for one in dead] == [Outcome.STAGE_ERROR] * 2
    assert "Ray workers died while they worked on this answer" in dead[0].why()
    assert set(server.calls.values()) == {1}
    assert len(server.calls) == 36


def test_a_run_that_is_stopped_goes_on_in_one_process_without_a_call_made_twice(tmp_path: Path) -> None:
    questions = benchmark(40)
    with serving(latency=0.1) as server:
        chosen = config(server, "ray", ray_workers=2, max_concurrency=8)
        with Journal.open(tmp_path / "journal") as journal:
            stopped = prepare_session(RunRequest(questions, chosen), journal=journal)
            part = asyncio.run(
                collect_results(
                    stopped, on_result=lambda _result: stopped.stop("enough", grace=5) if not stopped.stopped else None
                )
            )
        rest = run(server, "asyncio", questions, tmp_path / "journal")

    assert 0 < len(part) < 80
    assert len(rest) == 80
    assert set(server.calls.values()) == {1}


def test_the_ledger_of_the_run_has_the_calls_of_all_workers(tmp_path: Path) -> None:
    questions = benchmark(6)
    lines: list[list[tuple[object, ...]]] = []
    with serving() as server:
        for executor in ("asyncio", "ray"):
            with Journal.open(tmp_path / executor) as journal:
                prepared = prepare_session(
                    RunRequest(questions, config(server, executor, ray_workers=2)), journal=journal
                )
                asyncio.run(collect_results(prepared))
            lines.append([(*one.names, one.spent.calls, one.spent.input_tokens) for one in prepared.ledger.lines])
            assert (prepared.tally.made, prepared.tally.used.calls) == (18, 18)

    assert sorted(lines[0]) == sorted(lines[1])
    assert len(lines[0]) == 3


def test_what_the_journal_has_asks_no_worker(tmp_path: Path) -> None:
    questions = benchmark(3)
    with serving() as server:
        first = run(server, "ray", questions, tmp_path / "journal", ray_workers=1)
        calls = len(server.heard)
        second = run(server, "ray", questions, tmp_path / "journal", ray_workers=1)

    assert list(second) == list(first)
    assert len(server.heard) == calls


def test_all_workers_together_keep_to_the_places_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    with serving(latency=0.1) as server:
        run(server, "ray", benchmark(12), model_concurrency={"mayor": 2, "baker": 2, "smith": 2}, max_concurrency=3)

    assert server.most <= 3
    assert "2 Ray workers instead of 4" in caplog.text


def test_a_run_for_whose_workers_there_is_no_room_gives_up_and_says_what_is_missing() -> None:
    import ray as connected

    @connected.remote(num_cpus=4)
    class Greedy:
        def here(self) -> bool:
            return True

    greedy = Greedy.remote()
    assert connected.get(greedy.here.remote())
    try:
        with (
            serving() as server,
            pytest.raises(ExecutorError, match=r"no worker was ready after 0.5 s \(ray_patience\)"),
        ):
            run(server, "ray", benchmark(2), ray_patience=0.5)
    finally:
        connected.kill(greedy)
    assert server.heard == []


def test_a_worker_with_another_version_of_a_plugin_is_told_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "site"
    shutil.copytree(TOWN, copy)
    monkeypatch.setattr(sys, "path", [str(copy), *(folder for folder in sys.path if folder != TOWN)])
    with serving() as server, plugin_room.use_plugins(Plugins.discover()):
        prepared = prepare_session(RunRequest(benchmark(2), config(server, "ray", ray_workers=1)))
        (copy / "ray_town-1.0.dist-info").rename(copy / "ray_town-1.1.dist-info")
        (copy / "ray_town-1.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: ray-town\nVersion: 1.1\n")
        with pytest.raises(ExecutorError, match=r"other plugins than this process: .* of ray-town 1\.[01] is") as told:
            asyncio.run(collect_results(prepared))
    assert "install the same versions everywhere" in str(told.value)
    assert server.heard == []
