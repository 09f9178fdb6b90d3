"""Tests of `karenina status` and `resume`, and of the journal of `karenina run`."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_runs import CommandResult, run_karenina, write_benchmark
from journal_runs import ScriptedRuns, interrupted_at

from karenina_core.config import VerificationConfig
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.journal.command import dump_config, restore_secrets
from karenina_engine.journal.journal import Journal
from karenina_engine.results.result_set import VerificationResultSet

pytestmark = pytest.mark.usefixtures("own_folder")
MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")


def run(world: ScriptedRuns, file: Path, *more: str) -> CommandResult:
    return run_karenina("run", file, *MODELS, *more, plugins=world.plugins())


def test_the_journal_stands_beside_the_results(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    run(ScriptedRuns(), file)
    run(ScriptedRuns(), file, "-o", "deep/out.jsonl")
    run(ScriptedRuns(), file, "-o", "bare.jsonl", "--no-journal")
    run(ScriptedRuns(), file, "-o", "other.jsonl", "--journal", "mine.db")

    assert {str(path) for path in Path().rglob("*") if path.suffix in (".journal", ".db")} == {
        "words.journal",
        "deep/out.journal",
        "mine.db",
    }


def test_the_journal_of_another_benchmark_is_warned_about(tmp_path: Path) -> None:
    run(ScriptedRuns(), write_benchmark(tmp_path, "x", "y"), "--journal", "one.journal")
    file = write_benchmark(tmp_path, "a", "b")
    other = run(ScriptedRuns(), file, "-q", "a", "--journal", "one.journal")
    own = run(ScriptedRuns(), file, "-q", "b", "--journal", "one.journal")

    assert other.code == 0
    assert "the journal one.journal belongs to another benchmark" in other.err
    assert "and this run is added to it" in " ".join(other.err.split())
    assert "belongs to another benchmark" not in own.err, "its last run is of a question of this benchmark"


NOW = {"calls": None, "money": None}
"""The parts of a summary that describe the present run, and not its results."""


def test_a_finished_run_says_that_everything_is_kept(tmp_path: Path) -> None:
    file, again = write_benchmark(tmp_path, "a", "b"), ScriptedRuns()
    first = run(ScriptedRuns(), file, "--json").json
    second = run(again, file, "--json")

    assert again.calls == []
    assert "No new call was made: both results came from the journal words.journal" in second.err
    assert {**second.json, **NOW} == {**first, **NOW}
    assert (first["calls"]["made"], second.json["calls"]["made"], second.json["calls"]["items_kept"]) == (4, 0, 2)
    assert not Path("words.results-1.jsonl").exists()


def test_damage_found_at_the_end_is_the_only_message(tmp_path: Path) -> None:
    """The index of places has a wrong key, which matters only if a run notes that a stored result is also its own."""
    file, again = write_benchmark(tmp_path, "a"), ScriptedRuns()
    run(ScriptedRuns(), file)
    with closing(sqlite3.connect("words.journal")) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'results_by_place'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    data = bytearray(Path("words.journal").read_bytes())
    assert data[page * size - 3 : page * size] == b"\t\b\t", "run 1, place 0, row 1"
    data[page * size - 2] = 9  # place 1
    Path("words.journal").write_bytes(data)
    done = run(again, file, "-o", "out.jsonl", "--journal", "words.journal")

    assert (done.code, again.calls) == (2, [])
    assert "1 of 1 item finished, with results in out.jsonl, but the journal words.journal is damaged" in done.err
    assert "No new call was made" not in done.err
    assert len(VerificationResultSet.load("out.jsonl")) == 1


def test_fresh_begins_anew_and_keeps_what_was(tmp_path: Path) -> None:
    file, again = write_benchmark(tmp_path, "a"), ScriptedRuns(answers=lambda text: "another answer")
    run(ScriptedRuns(), file)
    done = run(again, file, "--fresh")

    assert len(again.calls) == 2
    assert "words-1.journal" in done.err
    assert Path("words-1.journal").exists()
    assert VerificationResultSet.load("words.results-1.jsonl")[0].template.raw_llm_response == "an answer to What is a?"


def test_a_command_that_cannot_run_leaves_the_journal_alone(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    assert run(ScriptedRuns(), file, "--fresh", "--set", "executor=nowhere").code == 2
    assert not Path("words.journal").exists()
    run(ScriptedRuns(), file)
    before = Path("words.journal").read_bytes()

    assert run(ScriptedRuns(), file, "--fresh", "--set", "executor=nowhere").code == 2
    assert run(ScriptedRuns(), file, "--fresh", "-q", "strange").code == 2

    assert Path("words.journal").read_bytes() == before
    assert not Path("words-1.journal").exists()


def test_a_run_that_was_stopped_goes_on_with_resume_alone(tmp_path: Path) -> None:
    file, rest = write_benchmark(tmp_path, *"abcd"), ScriptedRuns()
    whole = run(ScriptedRuns(), file, "-o", "whole.jsonl", "--json").json
    stopped = run(interrupted_at(4), file, "-o", "out.jsonl")
    seen = run_karenina("status", "out.journal", "--json").json
    done = run_karenina("resume", "out.journal", "--json", plugins=rest.plugins())
    after = run_karenina("status", "out.journal", "--json").json

    assert stopped.code == 130
    assert "karenina resume out.journal" in stopped.err
    assert (seen["items"], seen["pid"], seen["ended"]) == (4, None, None)
    assert seen["calls"] + len(rest.calls) == 8
    assert (after["done"], after["calls"]) == (4, 8)
    assert after["ended"] is not None
    assert [one["outcome"] for one in done.json["results"]] == [one["outcome"] for one in whole["results"]]
    assert done.json["summary"]["usage"] == whole["summary"]["usage"]
    assert [one.question_id for one in VerificationResultSet.load("out.jsonl")] == list("abcd")
    assert not Path("out-1.jsonl").exists()


def test_resume_works_from_another_folder_with_keys_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    Path("models.yaml").write_text(
        "answering_models: [{id: m, interface: scripted, model_name: m, endpoint_api_key: sk-hidden}]\n"
        "parsing_models: [{id: j, interface: scripted, model_name: j, mcp_urls_dict: {t: http://u:pw-hidden@h/}}]\n"
        "evaluation_mode: rubric_only\n"
    )
    run_karenina("run", file.name, "-c", "models.yaml", "-o", "out.jsonl", plugins=interrupted_at(2).plugins())
    stored = b"".join(file.read_bytes() for file in Path().glob("out.journal*"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = run_karenina("resume", tmp_path / "out.journal", "--json", plugins=ScriptedRuns().plugins())

    assert b"hidden" not in stored
    assert done.code == 0, done.err
    assert len(done.json["results"]) == 2


def test_resume_accepts_a_journal_in_which_an_earlier_version_stored_more() -> None:
    extra = {"body": {"plugins": [{"id": "web", "token": "t"}]}}
    model = {"id": "m", "interface": "openai", "model_name": "m", "endpoint_api_key": "k", "extra": extra}
    stored = dump_config(VerificationConfig(answering_models=[model]))
    assert stored["answering_models"][0]["extra"] != extra
    stored["answering_models"][0]["extra"] = extra

    assert restore_secrets(stored, {"answering_models": [model]})["answering_models"] == [model]


def test_resume_reports_a_changed_benchmark_and_runs_changed_items(tmp_path: Path) -> None:
    file, rest = write_benchmark(tmp_path, "a", "b"), ScriptedRuns()
    run(ScriptedRuns(), file)
    file.write_text(file.read_text().replace("What is b?", "What is B, then?"))
    done = run_karenina("resume", "words.journal", "--json", plugins=rest.plugins())

    assert "words.yaml has changed since" in done.err
    assert [call for call in rest.calls if "generation" in call] == ["answer_generation What is B, then?"]
    assert len(done.json["results"]) == 2


def test_status_tells_outcomes_failures_and_how_to_go_on(tmp_path: Path) -> None:
    def no(text: str) -> None:
        if "b" in text:
            raise PortError("no", category=ErrorCategory.PERMANENT)

    run(ScriptedRuns(on_call=no), write_benchmark(tmp_path, "a", "b"))
    shown = run_karenina("status", "words.journal").out

    for words in (
        "finished",
        "2 of 2 done (100.0%): ",
        "1 scored",
        "1 of the finished items will run again because a call or a stage failed",
        "1 call failed: 1 permanent",
        "2 stored",
        "karenina resume words.journal",
    ):
        assert words in shown


def test_status_names_the_process_that_works_on_it(tmp_path: Path) -> None:
    run(ScriptedRuns(), write_benchmark(tmp_path, "a"))
    with Journal.open("words.journal"):
        assert f"running in process {os.getpid()}" in run_karenina("status", "words.journal").out


NO_JOURNALS = {
    "missing": (None, "there is no journal"),
    "empty text": (b"hello\n", "is not a journal"),
    "damaged": (b"SQLite format 3\0" + b"x" * 5000, "damaged"),
}


@pytest.mark.parametrize("command", ["status", "resume"])
@pytest.mark.parametrize("case", NO_JOURNALS)
def test_what_is_no_journal_is_told(tmp_path: Path, case: str, command: str) -> None:
    content, words = NO_JOURNALS[case]
    if content is not None:
        Path("x.journal").write_bytes(content)
    done = run_karenina(command, "x.journal")

    assert done.code == 2
    assert words in done.err
