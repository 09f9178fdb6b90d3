"""Tests of runs on Ray: the results and calls of a run in one process, also if workers die."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ray_runs import KEY, benchmark, comparable, config, run, serving

from karenina_benchmark import Benchmark
from karenina_core import Outcome
from karenina_core import plugins as plugin_room
from karenina_core.data.result import VerificationResult
from karenina_core.data.rubrics import MetricRubricTrait, Rubric
from karenina_core.errors import RunError
from karenina_core.plugins import Plugins
from karenina_engine.journal.journal import Journal
from karenina_engine.results.kept_files import FileStore, KeptFiles
from karenina_engine.run.execution import collect_results
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_ray import serialization
from karenina_ray.worker_scheduler import ExecutorError
from karenina_toolkit.files.bounded_files import limit_file_size

FAKE_PLUGIN = str(Path(__file__).parent / "fake_plugin")

WORDS = """
class Answer(BaseAnswer):
    words: int = VerifiedField(description="The number of words", ground_truth=3, verify_with=NumericExact())
"""
EXPRESSION = """
class Answer(BaseAnswer):
    words: str = VerifiedField(description="The number", ground_truth="6/2", verify_with=MathEqual())
"""
GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="TP53", verify_with=SameTerm(table="genes.csv"))
"""

ONE_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)

pytestmark = pytest.mark.usefixtures("ray")


def test_killed_worker_changes_no_result(ray: Path, tmp_path: Path) -> None:
    questions = benchmark(60)
    with serving() as server:
        expected = run(server, "asyncio", questions, tmp_path / "asyncio.journal")
        needed = server.calls
    with serving(latency=0.1) as server:
        server.processes = 2
        killed: list[int] = []

        def kill(pid: int) -> None:
            if not killed and len(server.received) > 80:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        server.on_call = kill
        found = run(server, "ray", questions, tmp_path / "ray.journal", ray_workers=2, max_concurrency=16)

    assert comparable(found) == comparable(expected)
    again = server.calls - needed
    assert set(server.calls) == set(needed)
    of_killed = {text for pid, text in server.received if pid == killed[0]}
    assert set(again) <= of_killed, "no other call is made again"
    assert max(server.calls.values()) == 2
    read = {text.partition(" reads: It is ")[2] for text in of_killed}
    assert again, "the last call of the killed worker had no reply"
    assert not set(again) & read, "an answer is in the journal before a judge reads it"


def test_workers_keep_the_files_of_items(ray: Path, tmp_path: Path) -> None:
    questions = benchmark(0, *(f"keep {number}" for number in range(40)))
    with serving() as server:
        expected = run(server, "asyncio", questions, tmp_path / "asyncio.journal")
        found = run(server, "ray", questions, tmp_path / "ray.journal", ray_workers=2)
        calls = len(server.received)
        replayed = questions.run_verification(config(server, "asyncio"), journal=tmp_path / "ray.journal", replay=True)
        assert len(server.received) == calls

    assert comparable(found) == comparable(expected)
    assert comparable(replayed) == comparable(expected)
    names = {kept.sha256 for one in found for kept in one.metadata.files}
    assert {one.name for one in (tmp_path / "ray.files").iterdir()} == names
    assert len(names) == 41
    folders = KeptFiles(tmp_path / "ray.journal", tmp_path / "ray.journal")
    assert {folders.find(kept).problem for one in found for kept in one.metadata.files} == {None}


def test_a_worker_elsewhere_says_that_it_keeps_no_file(tmp_path: Path) -> None:
    sent = serialization.encode_files(FileStore(tmp_path / "x.files", 100, 1000))
    kept = serialization.decode_files({**sent, "host": "another"}).add("x", b"1", "text/plain", None, "q")

    assert "the files of the run are on another" in str(kept.left_out)
    assert serialization.decode_files(sent).add("x", b"1", "text/plain", None, "q").sha256


def test_ray_files_hold_no_secret(ray: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "karenina")
    with serving() as server:
        run(server, "ray", benchmark(2), ray_workers=1)

    on_items = [record for record in caplog.records if record.getMessage().startswith("[")]
    assert on_items
    assert all(str(record.msg).startswith("[") for record in on_items), "the command drops these, as in one process"
    assert server.keys == {KEY}
    assert [file for file in ray.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()] == []


def test_call_that_two_workers_need_is_made_once(tmp_path: Path) -> None:
    questions = benchmark(0, *["the same question"] * 24)
    with serving(latency=0.3) as server:
        found = run(server, "ray", questions, tmp_path / "journal", ray_workers=2, max_concurrency=4)

    assert len(found) == 48
    assert set(server.calls.values()) == {1}


def test_answer_that_kills_workers_becomes_an_error(tmp_path: Path) -> None:
    with serving() as server:
        found = run(server, "ray", benchmark(12, "a cup of poison"), tmp_path / "journal", ray_workers=2)

    dead = [one for one in found if one.outcome is not Outcome.SCORED and "poison" in one.metadata.question_text]
    assert [one.outcome for one in dead] == [Outcome.STAGE_ERROR] * 2
    assert "Ray workers died while working on this answer" in dead[0].why()
    assert len(server.calls) == 36
    assert server.calls.total() <= 36 + 8, "only calls in flight are repeated"


def test_stopped_run_continues_in_one_process_without_repeated_calls(tmp_path: Path) -> None:
    questions = benchmark(40)
    with serving(latency=0.1) as server:
        chosen = config(server, "ray", ray_workers=2, max_concurrency=8)
        with Journal.open(tmp_path / "journal") as journal:
            stopped = prepare_session(RunRequest(questions, chosen), journal=journal)

            def stop(_result: VerificationResult) -> None:
                if not stopped.stopped:
                    stopped.stop("enough", grace=120)

            part = asyncio.run(collect_results(stopped, on_result=stop))
        rest = run(server, "asyncio", questions, tmp_path / "journal")

    assert 0 < len(part) < 80
    assert len(rest) == 80
    assert set(server.calls.values()) == {1}


def test_recorded_answers_are_divided_among_all_workers() -> None:
    with serving(latency=0.5) as server:
        server.processes = 2
        found = run(server, "ray", benchmark(60), interface="fake_plugin.recorded", ray_workers=2, run_timeout=240)

    assert len(found) == 120
    answered = Counter(pid for pid, text in server.received if " reads: " not in text)
    assert min(answered.values()) >= 15


def test_ledger_has_the_calls_of_all_workers(tmp_path: Path) -> None:
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


def test_stored_results_need_no_worker(tmp_path: Path) -> None:
    questions = benchmark(3)
    with serving() as server:
        first = run(server, "ray", questions, tmp_path / "journal", ray_workers=1)
        calls = len(server.received)
        second = run(server, "ray", questions, tmp_path / "journal", ray_workers=1)

    assert list(second) == list(first)
    assert len(server.received) == calls


def test_workers_together_stay_within_the_concurrency_limit(caplog: pytest.LogCaptureFixture) -> None:
    with serving(latency=0.1) as server:
        run(
            server,
            "ray",
            benchmark(12),
            model_concurrency={"answering": 2, "judge-1": 2, "judge-2": 2},
            max_concurrency=3,
        )

    assert server.most <= 3
    assert "the number of Ray workers was reduced from 4 to 2" in caplog.text


def test_full_cluster_ends_the_run_with_the_missing_resource() -> None:
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
    assert server.received == []


def test_worker_with_another_plugin_version_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "site"
    shutil.copytree(FAKE_PLUGIN, copy)
    monkeypatch.setattr(sys, "path", [str(copy), *(folder for folder in sys.path if folder != FAKE_PLUGIN)])
    with serving() as server, plugin_room.use_plugins(Plugins.discover()):
        prepared = prepare_session(RunRequest(benchmark(2), config(server, "ray", ray_workers=1)))
        (copy / "fake_plugin-1.0.dist-info").rename(copy / "fake_plugin-1.1.dist-info")
        (copy / "fake_plugin-1.1.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: fake-plugin\nVersion: 1.1\n"
        )
        with pytest.raises(
            ExecutorError, match=r"not have the same plugins as this process: .* from fake-plugin 1\.[01] is"
        ) as caught:
            asyncio.run(collect_results(prepared))
    assert "install the same versions everywhere" in str(caught.value)
    assert server.received == []


def test_jury_votes_as_in_one_process() -> None:
    def reply(body: Mapping[str, Any]) -> str:
        if body["model"] == "answering":
            return "It has three words."
        return json.dumps({"words": 2 if body["model"] == "judge-2" and "question 1" in body["text"] else 3})

    questions = Benchmark.create("jury")
    for number in range(4):
        questions.add_question(f"question {number}", None, WORDS, question_id=f"q{number}")
    found, calls = {}, {}
    for executor in ("asyncio", "ray"):
        with serving() as server:
            server.reply = reply
            judges = config(server, executor, evaluation_mode="template_only", ray_workers=1, jury={})
            found[executor] = questions.run_verification(judges)
            calls[executor] = server.calls

    assert comparable(found["ray"]) == comparable(found["asyncio"])
    assert calls["ray"] == calls["asyncio"]
    assert [one.metadata.parsing_id for one in found["ray"]] == ["jury(judge-1,judge-2)"] * 4
    assert [one.template.verify_result for one in found["ray"]] == [True, None, True, True]


def test_workers_compare_expressions_in_processes_of_their_own() -> None:
    questions = Benchmark.create("expressions")
    for number in range(4):
        questions.add_question(f"question {number}", None, EXPRESSION, question_id=f"q{number}")
    found = {}
    for executor in ("asyncio", "ray"):
        with serving() as server:
            server.reply = lambda body: "It is 3." if body["model"] == "answering" else r'{"words": "\\frac{12}{4}"}'
            judging = config(server, executor, evaluation_mode="template_only", ray_workers=1)
            found[executor] = questions.run_verification(judging)

    assert comparable(found["ray"]) == comparable(found["asyncio"])
    assert {one.outcome for one in found["ray"]} == {Outcome.CORRECT}


def test_workers_find_the_table_beside_the_benchmark(tmp_path: Path) -> None:
    (tmp_path / "genes.csv").write_text("id,name,synonyms\n1,TP53,p53\n2,KRAS,K-Ras\n", "utf-8")
    declared = "{description: The gene, ground_truth: TP53, verify_with: {type: SameTerm, table: genes.csv}}"
    question = f"  - question: Which gene?\n    answer:\n      gene: {declared}\n"
    (tmp_path / "genes.yaml").write_text(f"karenina: 1\nname: genes\nquestions:\n{question}", "utf-8")
    with serving() as server:
        server.reply = lambda body: "It is p53." if body["model"] == "answering" else '{"gene": "p53"}'
        judging = config(server, "ray", evaluation_mode="template_only", ray_workers=1)
        found = Benchmark.load(tmp_path / "genes.yaml").run_verification(judging)

    assert {one.outcome for one in found} == {Outcome.CORRECT}


def test_workers_get_the_attachments_of_questions(tmp_path: Path) -> None:
    (tmp_path / "map.png").write_bytes(ONE_PIXEL)
    question = "  - question: Where is it?\n    attachments: [map.png]\n"
    (tmp_path / "maps.yaml").write_text(f"karenina: 1\nname: maps\nquestions:\n{question}", "utf-8")
    found: dict[str, Any] = {}
    for executor in ("asyncio", "ray"):
        with serving() as server:
            server.reply = lambda body: f"It is on {body['files']}."
            recorded = config(server, executor, interface="fake_plugin.recorded", ray_workers=1, run_timeout=240)
            found[executor] = Benchmark.load(tmp_path / "maps.yaml").run_verification(recorded)

    assert comparable(found["ray"]) == comparable(found["asyncio"])
    assert f"{tmp_path / 'map.png'}', 'image/png'" in str(found["ray"][0].template.raw_llm_response)


def test_context_variables_and_the_size_limit_of_files_apply_to_workers(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server, limit_file_size(1234):
        found = run(server, "ray", benchmark(4), ray_workers=2, run_name="nightly")

    assert [one.extensions["fake-plugin"]["run"] for one in found] == ["nightly"] * 8
    assert [one.extensions["fake-plugin"]["max_file_bytes"] for one in found] == [1234] * 8
    assert caplog.text.count("the run is called nightly") == 1


@pytest.mark.parametrize("question", ["This ends the run", "This cancels itself"])
def test_error_that_ends_the_run_is_the_same_on_a_worker(question: str) -> None:
    raised = {}
    for executor in ("asyncio", "ray"):
        with serving() as server, pytest.raises(RunError) as caught:
            run(server, executor, benchmark(2, question), ray_workers=1, run_timeout=240)
        raised[executor] = str(caught.value)

    assert raised["ray"] == raised["asyncio"]


@pytest.mark.release
def test_warnings_are_logged_as_often_as_by_one_process(caplog: pytest.LogCaptureFixture) -> None:
    with serving(latency=0.4) as server:  # longer than workers wait between their reports
        server.reply = lambda body: "I am weary" if body["model"] == "answering" else '{"words": 1}'
        run(server, "ray", benchmark(3), replicate_count=4, ray_workers=2, max_concurrency=4)

    said = [record.getMessage() for record in caplog.records if "weary" in record.getMessage()]
    reasons = [message for message in said if not message.startswith("[")]
    assert len(said) - len(reasons) == 24
    assert len(reasons) == 2
    assert "ended 12 replies with the unknown reason 'weary'" in reasons[-1]


def test_workers_read_files_from_the_folder_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "genes.csv").write_text("id,name,synonyms\n1,TP53,p53\n2,KRAS,K-Ras\n", "utf-8")
    monkeypatch.chdir(tmp_path)  # after Ray was started
    questions = Benchmark.create("genes")
    questions.add_question("Which gene?", None, GENE, question_id="q")
    with serving() as server:
        server.reply = lambda body: "It is p53." if body["model"] == "answering" else '{"gene": "p53"}'
        found = questions.run_verification(config(server, "ray", evaluation_mode="template_only", ray_workers=1))

    assert {one.outcome for one in found} == {Outcome.CORRECT}


def test_worker_without_the_key_of_a_model_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PLUGIN_KEY", "only here")
    with serving() as server, pytest.raises(ExecutorError, match=r"could not start: .*: set FAKE_PLUGIN_KEY"):
        run(server, "ray", benchmark(2), interface="fake_plugin.keyed", ray_workers=1)
    assert server.received == []


def test_clock_of_a_worker_that_differs_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        run(server, "ray", benchmark(1), ray_workers=1, run_name=f"1000 s behind {os.getpid()}")

    assert re.search(f"the clock of {re.escape(os.uname().nodename)} is about [0-9]+ s behind", caplog.text)


def test_rescored_run_on_ray_may_ask_about_changed_truth(tmp_path: Path) -> None:
    def questions(fact: str) -> Benchmark:
        made = Benchmark.create("facts")
        for id, facts in ((1, fact), (2, "it is wide")):
            trait = MetricRubricTrait(name="facts", metrics=("recall",), tp_instructions=(facts,))
            made.add_question(f"question {id}", question_id=f"q{id}", rubric=Rubric.of(trait))
        return made

    journal = tmp_path / "facts.journal"
    scored = {"reasoning": "", "said": [], "other_things_said": [], "words": 3}
    with serving() as server:
        server.reply = lambda body: "It is long" if body["model"] == "answering" else json.dumps(scored)
        chosen = config(server, "ray", ray_workers=1)
        questions("it is long").run_verification(chosen, journal=journal)
        made = len(server.received)
        report = questions("it is tall").rescore(journal, chosen, ask=True)

    assert report.missing == []
    assert len(server.received) == made + 2


@pytest.mark.release
def test_worker_starts_no_more_answers_than_one_process() -> None:
    most = {}
    for executor in ("asyncio", "ray"):
        questions = benchmark(0, *[f"How many are in progress, {number}?" for number in range(12)])
        with serving() as server:
            found = run(server, executor, questions, ray_workers=1, max_concurrency=1)
        most[executor] = max(one.extensions["fake-plugin"]["in_progress"] for one in found)

    assert most["ray"] == most["asyncio"]


@pytest.mark.parametrize("executor", ["asyncio", "ray"])
def test_result_is_stale_if_its_folder_changed_meanwhile(executor: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    questions, journal = benchmark(0, f"What is in {tmp_path / 'source'}"), tmp_path / "journal"
    with serving() as server:
        server.on_call = lambda _pid: (tmp_path / "source/new.txt").touch()
        run(server, executor, questions, journal, ray_workers=1)
        with Journal.open(journal) as opened:
            again = prepare_session(RunRequest(questions, config(server, executor, ray_workers=1)), journal=opened)
            asyncio.run(collect_results(again))

    assert again.result_store is not None
    assert again.result_store.kept == 0
    assert set(server.calls.values()) == {1}
