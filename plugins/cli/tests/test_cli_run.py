"""`karenina run`: its output, files and exit codes."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from command_runs import CommandResult, make_plugins, run_karenina, write_benchmark
from full_disk import no_file_above
from journal_runs import ScriptedRuns
from offers import offering

from karenina_core import hookimpl
from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.run.executor import Executor
from karenina_engine.run.matrix import IndexedResult
from karenina_engine.run.session import RunSession

pytestmark = pytest.mark.usefixtures("own_folder")


def run(file: Path, *arguments: str | Path, say: object = None) -> CommandResult:
    plugins = make_plugins(say) if callable(say) else make_plugins()
    return run_karenina(
        "run", file, "--answering", "scripted:m", "--set", "evaluation_mode=rubric_only", *arguments, plugins=plugins
    )


def test_json_is_one_object_with_results_summary_and_the_file(tmp_path: Path) -> None:
    done = run(write_benchmark(tmp_path, "a", "b"), "--json")

    assert done.code == 0
    assert [(result["question_id"], result["outcome"]) for result in done.json["results"]] == [
        ("a", "scored"),
        ("b", "scored"),
    ]
    assert done.json["results"][0]["template"]["raw_llm_response"] == "an answer"
    assert done.json["summary"]["items"] == 2
    assert done.json["summary"]["usage"] == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30, "calls": 2}
    assert done.json["output"] == "words.results.jsonl"


def test_results_go_to_stdout_and_progress_to_stderr(tmp_path: Path) -> None:
    done = run(write_benchmark(tmp_path, "a", "b"), say=lambda question: f"It is {question.upper()}.")

    assert "It is A." in done.out
    assert "It is B." in done.out
    assert re.findall(r"^\d/2", done.out + done.err, re.M) == ["1/2", "2/2"]
    assert "2/2 2 scored" in done.err


def test_a_first_run_takes_nothing_from_its_journal(tmp_path: Path) -> None:
    scripted = ScriptedRuns(answers=lambda _text: "the same of both models")
    models = ("-a", "scripted:m", "-a", "scripted:k", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
    command = ("run", write_benchmark(tmp_path, "a"), *models, "--quiet")

    first, again = (run_karenina(*command, plugins=scripted.plugins()) for _ in range(2))
    assert "New: 3 calls; 1 identical call took its reply from these." in first.err
    assert "No new call was made: both results came from the journal" in again.err


def test_quiet_prints_the_summary_only(tmp_path: Path) -> None:
    done = run(write_benchmark(tmp_path, "a"), "--quiet")

    assert "an answer" not in done.out
    assert "Outcomes" in done.out
    assert "1/1" not in done.err


def test_results_are_in_the_order_of_the_benchmark(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(30)]
    plugins = make_plugins(lambda question: "x" * (2000 - 50 * int(question[1:])))
    ended: list[str] = []

    class Watch:
        @hookimpl
        def karenina_item_finished(self, result: VerificationResult) -> None:
            ended.append(result.question_id)

    plugins.register(Watch())
    done = run_karenina(
        "run",
        write_benchmark(tmp_path, *ids),
        *("-a", "scripted:m", "-a", "scripted:n", "--set", "evaluation_mode=rubric_only", "--json"),
        plugins=plugins,
    )

    assert ended[0] == "q29"
    assert [saved.question_id for saved in VerificationResultSet.load("words.results.jsonl")] == [
        id for id in ids for _ in "mn"
    ]
    assert [entry["question_id"] for entry in done.json["results"]] == [id for id in ids for _ in "mn"]
    assert [entry["metadata"]["answering_id"] for entry in done.json["results"]][:4] == ["m", "n", "m", "n"]


def test_every_result_is_in_the_file(tmp_path: Path) -> None:
    run(write_benchmark(tmp_path, "a", "b"), "--output", "deep/er/out.jsonl")

    assert {result.question_id for result in VerificationResultSet.load("deep/er/out.jsonl")} == {"a", "b"}


def test_an_existing_output_file_is_kept(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    for answer in ("first", "second", "third"):
        done = run(file, "-o", "out.jsonl", "--no-journal", say=lambda _id, answer=answer: answer)

    assert "kept in out-2.jsonl" in done.err
    answers = {
        name: VerificationResultSet.load(name)[0].template.raw_llm_response
        for name in ("out.jsonl", "out-1.jsonl", "out-2.jsonl")
    }
    assert answers == {"out.jsonl": "third", "out-1.jsonl": "first", "out-2.jsonl": "second"}


def test_bad_input_moves_no_earlier_file(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    run(file, "-o", "out.jsonl")
    before = Path("out.jsonl").read_bytes()

    assert run(file, "-o", "out.jsonl", "--question", "z").code == 2
    assert Path("out.jsonl").read_bytes() == before
    assert not Path("out-1.jsonl").exists()


@pytest.mark.parametrize("threshold", ["0", "0.5", "1"])
def test_a_run_without_any_verdict_is_below_every_threshold(tmp_path: Path, threshold: str) -> None:
    assert run(write_benchmark(tmp_path, "a"), "--fail-under", threshold).code == 1


def test_one_item_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    def say(id: str) -> str:
        if id == "b":
            raise PortError("the server is on fire", category=ErrorCategory.PERMANENT)
        return "fine"

    done = run(write_benchmark(tmp_path, "a", "b", "c"), "--json", say=say)

    assert done.code == 0
    assert [result["outcome"] for result in done.json["results"]] == ["scored", "stage_error", "scored"]
    assert "on fire" in done.json["results"][1]["metadata"]["error"]
    assert done.json["summary"]["not_judged"] == 1


def test_limit_and_question_choose(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b", "c")

    assert [result["question_id"] for result in run(file, "--limit", "2", "--json").json["results"]] == ["a", "b"]
    chosen = run(file, "--question", "c", "-q", "a", "--json").json
    assert sorted(result["question_id"] for result in chosen["results"]) == ["a", "c"]


def test_questions_that_are_judged_already_are_left_out(tmp_path: Path) -> None:
    def fails_for_b(id: str) -> str:
        if id == "b":
            raise PortError("no", category=ErrorCategory.PERMANENT)
        return "fine"

    file = write_benchmark(tmp_path, "a", "b", "c")
    run(file, "-o", "first.jsonl", "--limit", "2", say=fails_for_b)
    again = run(file, "-o", "second.jsonl", "--skip-done", "first.jsonl", "--json")
    rest = run(file, "--skip-done", "first.jsonl", "--skip-done", "second.jsonl")

    assert [result["question_id"] for result in again.json["results"]] == ["b", "c"]
    assert rest.code == 0
    assert "Nothing to run" in rest.err


@pytest.mark.parametrize(
    ("written", "more", "warning"),
    [
        (
            ("x", "y"),
            (),
            "first.jsonl skips nothing because its questions (the first is 'x') are not in this benchmark",
        ),
        (("a",), ("-a", "scripted:n"), "its results are for m, judged by m, but this run is for n;"),
        (("a",), ("-q", "b"), "its results are for other questions or replicates"),
    ],
    ids=["another benchmark", "another model", "another question"],
)
def test_results_that_skip_nothing_are_warned_about(
    written: tuple[str, ...], more: tuple[str, ...], warning: str, tmp_path: Path
) -> None:
    run(write_benchmark(tmp_path, *written), "-o", "first.jsonl", "--no-journal")
    file = write_benchmark(tmp_path, "a", "b")
    options = ("--no-journal", "--skip-done", "first.jsonl", *more)
    model = () if "-a" in more else ("-a", "scripted:m")
    done = run_karenina(
        *("run", file, *model, *options, "--set", "evaluation_mode=rubric_only"), plugins=make_plugins()
    )

    assert done.code == 0
    assert warning in " ".join(done.err.split())


def test_skipped_questions_that_have_changed_run_again(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    run(file, "-o", "first.jsonl", "--no-journal")
    file.write_text(file.read_text("utf-8").replace("What is a?", "Which is a?"), "utf-8")
    done = run(file, "--no-journal", "--skip-done", "first.jsonl", "--json")

    assert [result["question_id"] for result in done.json["results"]] == ["a"]
    changed = "the text of 1 question changed since the earlier run (the first is 'a')"
    assert f"{changed}; questions with changed text run again" in done.err


BAD_INPUT = {
    "no such file": (["nowhere.yaml"], "nowhere.yaml: the file does not exist"),
    "unknown question": (["words.yaml", "-q", "aa"], "no question 'aa'; did you mean 'a'?"),
    "unknown name": (["words.yaml", "--set", "replicates=3"], "replicates: unknown configuration name"),
    "bad value": (["words.yaml", "--set", "replicate_count=none"], "replicate_count: must be an integer"),
    "value from where": (["words.yaml", "--set", "replicate_count=0"], "--set, replicate_count: "),
    "unknown adapter": (
        ["words.yaml", "-a", "scribbled:m"],
        "there is no adapter 'scribbled'; did you mean 'scripted'",
    ),
    "no model": (["words.yaml", "-a", "gpt-4"], "'gpt-4' does not name the interface of the model"),
    "broken model": (["words.yaml", "-a", "{"], "the JSON object for a model is incomplete"),
    "two of an id": (
        ["words.yaml", *2 * ["-a", '{"id": "x", "interface": "scripted", "model_name": "m"}']],
        "two models have the id 'x'",
    ),
    "no config file": (["words.yaml", "--config", "none.toml"], "none.toml cannot be read"),
    "config of another kind": (["words.yaml", "--config", "words.yaml"], "questions: unknown configuration name"),
    "output is a folder": (["words.yaml", "-o", "."], "the output path . is a folder"),
    "no results to skip": (["words.yaml", "--skip-done", "none.jsonl"], "none.jsonl cannot be read"),
    "set without a value": (["words.yaml", "--set", "run_name"], "--set run_name has no value; write --set run_name="),
    "set without a name": (["words.yaml", "--set", "sk-secret"], "--set requires a name and a value"),
    "threshold": (["words.yaml", "--fail-under", "80"], "--fail-under"),
    "unknown option": (["words.yaml", "--speed", "11"], "--speed"),
    "nothing to run": ([], "Missing argument"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_exits_with_2_and_names_the_place(case: str, tmp_path: Path) -> None:
    write_benchmark(tmp_path, "a")
    arguments, message = BAD_INPUT[case]
    models = [] if "-a" in arguments or not arguments else ["-a", "scripted:m"]

    done = run_karenina("run", *arguments, *models, "--set", "evaluation_mode=rubric_only", plugins=make_plugins())

    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert done.out == ""


def test_a_run_names_all_wrong_templates_before_a_model_is_asked(tmp_path: Path) -> None:
    asked: list[str] = []
    file = write_benchmark(tmp_path, "a")
    for id, truth in (("b", "inf"), ("c", "nan")):
        field = f"VerifiedField('The year.', '{truth}', verify_with=NumericExact())"
        template = json.dumps(f"class Answer(BaseAnswer):\n    year: float = {field}")
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"  - {{id: {id}, question: 'In which year?', template: {template}}}\n")

    def say(question: str) -> str:
        asked.append(question)
        return "2016"

    done = run(file, say=say)

    assert done.code == 2
    assert re.findall(r"not '(\w+)'", done.err) == ["inf", "nan"]
    assert asked == []


def test_an_empty_benchmark_is_bad_input(tmp_path: Path) -> None:
    done = run(write_benchmark(tmp_path))

    assert done.code == 2
    assert "words.yaml contains no questions" in done.err


def test_a_run_without_a_model_is_bad_input(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")

    done = run_karenina("run", file, "--set", "evaluation_mode=rubric_only", plugins=make_plugins())

    assert done.code == 2
    assert "no answering model is configured" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "karenina: 1\n",
        '{"question": "Which?", "answer": "This."}\n',
        '{\n  "answering_models": []\n}\n',
        "\x00binary",
    ],
)
def test_a_file_without_results_is_refused_as_output(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine"
    file.write_text(text)
    done = run(write_benchmark(tmp_path, "a"), "-o", file)

    assert done.code == 2
    assert f"the output file {file} is not a result file and was not changed" in done.err
    assert file.read_text() == text
    assert [path.name for path in tmp_path.glob("mine*")] == ["mine"]


def test_the_benchmark_is_not_taken_for_the_output(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    before = file.read_bytes()

    assert run(file, "-o", file).code == 2
    assert file.read_bytes() == before


def test_an_output_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.write_text("a file, not a folder")
    done = run(write_benchmark(tmp_path, "a"), "-o", locked / "out.jsonl")

    assert done.code == 2
    assert "out.jsonl cannot be written" in done.err
    assert stat.S_ISREG(locked.stat().st_mode)


class Forgetful(Executor):
    """An executor that yields no result."""

    name = "forgetful"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        return
        yield


def test_an_executor_that_loses_results_is_no_bad_input(tmp_path: Path) -> None:
    plugins = make_plugins()
    plugins.register(offering(executors=[Forgetful()]))
    options = ("--answering", "scripted:m", "--set", "evaluation_mode=rubric_only", "--executor", "forgetful")
    done = run_karenina("run", write_benchmark(tmp_path, "a"), *options, plugins=plugins)

    assert done.code == 70
    assert "Error: the executor Forgetful ended after the results of 0 of 1 items; yield all" in done.err


def test_a_full_disk_without_a_journal_states_what_is_lost(tmp_path: Path) -> None:
    names = [f"question-{number}" for number in range(60)]
    file = write_benchmark(tmp_path, *names)
    with no_file_above(20_000):
        done = run(file, "-o", "out.jsonl", "--no-journal", "--quiet")

    assert done.code == 70
    counts = re.search(r"stopped after (\d+) of 60 items.*; (\d+) results could.* other (\d+) are lost", done.err)
    assert counts is not None, done.err
    ran, written, lost = map(int, counts.groups())
    assert ran == written + lost
    assert written == len(VerificationResultSet.load("out.jsonl")) > 0
    rest = run(file, "-o", "rest.jsonl", "--skip-done", "out.jsonl", "--quiet")
    assert len(VerificationResultSet.load("rest.jsonl")) == 60 - written, rest.err


def test_a_secret_on_the_command_line_is_never_printed(tmp_path: Path) -> None:
    model = json.dumps(
        {"id": "m", "interface": "scripted", "model_name": "m", "endpoint_api_key": "sk-secret", "temperature": 9}
    )
    done = run_karenina("run", write_benchmark(tmp_path, "a"), "-a", model, plugins=make_plugins())

    assert done.code == 2
    assert "temperature" in done.err
    assert "sk-secret" not in done.err + done.out


def test_a_piped_resume_prints_only_as_much_as_a_terminal(tmp_path: Path) -> None:
    def fails(_question: str) -> str:
        raise RuntimeError("no connection")

    file = write_benchmark(tmp_path, *(f"q{number}" for number in range(102)))
    first = run(file, say=fails)
    resumed = run_karenina("resume", "words.journal", plugins=make_plugins(fails))
    assert first.out.count("failed like item 1\n") == 101
    assert "failed like item 1\n" not in resumed.out
    assert "Items 2-102 failed like item 1," in resumed.out
    assert "Of 102 results, at most 100 that are not correct are shown" in resumed.out


def test_a_stopped_run_of_a_table_is_resumed_as_it_was_read() -> None:
    file = Path("t.json")
    rows = {"dev": [{"q": "a", "x": 1}], "test": [{"q": "b", "x": 1}, {"q": "c", "x": 2}]}
    file.write_text(json.dumps(rows), "utf-8")
    arguments = ("--rows", "test", "--columns", "question=q")

    first = run(file, *arguments, "--limit", "1", "--output", "t.results.jsonl")
    resumed = run_karenina("resume", "t.results.jsonl", "--json", plugins=make_plugins())

    assert first.code == 0, first.err
    assert "question is 'q'" in first.err
    assert resumed.code == 0, resumed.err
    assert [result["question_id"] for result in resumed.json["results"]] == ["q1-b"]


def test_rescore_states_what_happened_to_the_journal(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    run(file, "-o", "a.jsonl", "-j", "scripted:j")

    plain = run_karenina("rescore", "a.journal", file, plugins=make_plugins())
    asked = run_karenina("rescore", "a.journal", file, "--ask", "-j", "scripted:j", plugins=make_plugins())

    assert "; the journal was not changed. Nothing was saved" in plain.err
    assert "; replies to new calls are stored in the journal. Nothing was saved" in asked.err


def test_a_dry_run_counts_the_calls_about_changed_questions(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    run(file, "-o", "a.jsonl")
    file.write_text(file.read_text("utf-8").replace("What is a?", "What is it?"), "utf-8")

    estimated = run(file, "-o", "a.jsonl", "--dry-run", "--json").json["estimate"]
    made = run(file, "-o", "a.jsonl", "--json").json["calls"]["made"]

    assert (estimated["done"], estimated["kept_calls"], estimated["calls"]) == (1, 0, [1, 1, 1])
    assert made == 1


def test_a_dry_run_counts_the_calls_of_a_changed_model(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    rest = ("--set", "evaluation_mode=rubric_only", "-o", "a.jsonl", "--json")

    def run_with(*more: str, **fields: object) -> CommandResult:
        return run_karenina("run", file, "-a", json.dumps({**model, **fields}), *rest, *more, plugins=make_plugins())

    run_with()
    same, changed = (run_with("--dry-run", **fields).json["estimate"] for fields in ({}, {"temperature": 0.5}))

    assert (same["done"], same["calls"]) == (2, [0, 0, 0])
    assert (changed["done"], changed["kept_calls"], changed["calls"]) == (0, 0, [2, 2, 2])
    assert run_with(temperature=0.5).json["calls"]["made"] == 2
