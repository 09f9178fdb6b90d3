"""Mistakes of users: each is a clear error of its item or file, and other items continue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from servers import recording_server
from typer.testing import CliRunner

from karenina import VerificationResultSet
from karenina_cli.app import build_app
from karenina_terminal.screen import ExitCode

GOOD = """
  - id: good
    question: Which gene is it?
    answer:
      named: {description: It is named, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}"""
JUDGED = """
  - id: judged
    question: Which gene is it?
    answer:
      gene: {description: The gene, ground_truth: BCL2}"""


@dataclass(frozen=True)
class Given:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def items(self, code: ExitCode = ExitCode.SUCCESS) -> dict[str, Any]:
        """Return the results by question id; the command has to end with this code."""
        assert self.code == code, self.err
        return {one["question_id"]: one for one in json.loads(self.out)["results"]}


def karenina(*arguments: str | Path) -> Given:
    done = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1"}).invoke(
        build_app(), [str(argument) for argument in arguments], catch_exceptions=False
    )
    return Given(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(autouse=True)
def _own_settings(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_CONFIG_HOME", str(own_folder / "config"))
    monkeypatch.setenv("KARENINA_PARTIAL_RECORDINGS", "true")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Answers to every question of these tests but `absent`."""
    file = tmp_path / "answers.jsonl"
    ids = ("good", "judged", "broken", "other")
    file.write_text("".join(json.dumps({"id": id, "answer": "It is BCL2."}) + "\n" for id in ids), "utf-8")
    return file


@pytest.fixture
def judge() -> Iterator[str]:
    """Provide a judge that never fills anything, as `--judge` names it."""
    with recording_server(lambda _body: "I would rather talk about the weather.") as server:
        yield f"openai:judge@{server.url}"


def written(*questions: str, head: str = "karenina: 1\nname: Genes\n") -> Path:
    file = Path("genes.yaml")
    file.write_text(f"{head}questions:{''.join(questions)}\n", "utf-8")
    return file


def test_recorded_answers_are_judged_by_templates_without_a_judge(recordings: Path) -> None:
    other = GOOD.replace("good", "other").replace("BCL2", "TP53")
    done = karenina("run", written(GOOD, other), "--recordings", recordings, "--json", "--fail-under", "0.5")

    found = done.items()
    assert (found["good"]["outcome"], found["other"]["outcome"]) == ("correct", "wrong")
    assert found["good"]["template"]["raw_llm_response"] == "It is BCL2."
    assert json.loads(done.out)["summary"]["pass_rate"]["hits"] == 1
    assert karenina("run", "genes.yaml", "--recordings", recordings, "--fail-under", "0.51").code == 1


BROKEN_TEMPLATES = {
    "no Python": ("class Answer(BaseAnswer)\n          gene: str", "line 11: the source is not valid Python"),
    "no answer class": ("class Something(BaseModel):\n          gene: str", "the source has no class Answer"),
    "a method": (
        "class Answer(BaseAnswer):\n          gene: str\n          def verify(self): return True",
        "line 13: class Answer has the method verify()",
    ),
    "code": ("import os\n      class Answer(BaseAnswer):\n          gene: str = os.sep", "line 11: `import os`"),
    "unknown primitive": (
        "class Answer(BaseAnswer):\n"
        '          gene: str = VerifiedField(description="", ground_truth="", verify_with=Exac())',
        "Exac",
    ),
}


@pytest.mark.parametrize("case", BROKEN_TEMPLATES)
def test_a_template_that_cannot_be_used_stops_the_run(case: str, recordings: Path) -> None:
    source, said = BROKEN_TEMPLATES[case]
    broken = f"\n  - id: broken\n    question: Which?\n    template: |\n      {source}"
    run = ("run", written(GOOD, broken), "--recordings", recordings, "--json")

    stopped = karenina(*run)
    left_out = karenina(*run, "--skip-broken", "--partial")

    assert stopped.code == ExitCode.BAD_INPUT
    assert said in stopped.err
    assert {id: one["outcome"] for id, one in left_out.items().items()} == {"good": "correct"}
    assert "skipped because of an error: genes.yaml" in left_out.err.replace("\n", " ")


def test_recordings_that_match_no_question_stop_the_run(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KARENINA_PARTIAL_RECORDINGS")
    file = written(*(GOOD.replace("good", f"g{number}") for number in range(1, 121)))
    found = [{"id": "g7"}, {"id": "zzz"}, {"question": "Which?", "id": "yyy"}, {"question": "What is this?"}]
    recordings.write_text("".join(json.dumps({**one, "answer": "It is BCL2."}) + "\n" for one in found), "utf-8")

    stopped = karenina("run", file, "--recordings", recordings)

    assert stopped.code == 2
    assert "119 of 120 questions have no recorded answer: 'g1', 'g2', 'g3' and 116 more" in stopped.err
    assert "3 recordings match no question: 'zzz' (line 2), 'yyy' (line 3), 'What is this?' (line 4)" in stopped.err
    assert "--partial" in stopped.err
    assert not Path("genes.results.jsonl").exists()

    done = karenina("run", file, "--recordings", recordings, "--partial", "--json")
    assert "119 of 120 questions have no recorded answer" in done.err
    assert "3 recordings match no question" in done.err
    assert done.items()["g7"]["outcome"] == "correct"
    assert json.loads(done.out)["summary"]["not_judged"] == 119


def test_recordings_of_questions_that_are_left_out_have_a_question(
    recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KARENINA_PARTIAL_RECORDINGS")
    ids = ("good", "judged", "broken", "other")
    file = written(*(GOOD.replace("good", id) for id in ids))
    assert karenina("run", file, "--recordings", recordings, "-q", "judged").code == 0
    assert karenina("run", file, "--recordings", recordings, "--limit", "1", "--fresh").code == 0


def test_an_absent_recording_ends_its_item_only(recordings: Path) -> None:
    absent = GOOD.replace("good", "absent")

    done = karenina("run", written(GOOD, absent), "--recordings", recordings, "--json")

    found = done.items()
    assert found["absent"]["outcome"] == "model_error"
    assert "no recorded answer for question 'absent'" in found["absent"]["metadata"]["error"]
    assert "answers.jsonl" in found["absent"]["metadata"]["error"]
    assert found["good"]["outcome"] == "correct"
    assert json.loads(done.out)["summary"]["worst"] == 0.5
    assert len(VerificationResultSet.load("genes.results.jsonl")) == 2


def test_a_judge_that_fills_no_schema_ends_its_item_only(recordings: Path, judge: str) -> None:
    found = karenina("run", written(GOOD, JUDGED), "--recordings", recordings, "--judge", judge, "--json").items()

    assert found["judged"]["outcome"] == "parse_error"
    assert "the judge gave no usable reply to 2 requests" in found["judged"]["metadata"]["error"]
    assert found["judged"]["template"]["raw_llm_response"] == "It is BCL2."
    assert found["judged"]["template"]["verify_result"] is None
    assert found["good"]["outcome"] == "correct"


def test_an_unreachable_server_fails_the_items_that_need_it(recordings: Path) -> None:
    nobody = '{"interface": "openai", "model_name": "m", "endpoint_base_url": "http://127.0.0.1:9/v1"}'
    Path("fast.toml").write_text("request_timeout = 2")

    found = karenina(
        *("run", written(GOOD, JUDGED), "--recordings", recordings, "--judge", nobody),
        *("--config", "fast.toml", "--json"),
    ).items()

    assert found["judged"]["outcome"] == "parse_error"
    assert "http://127.0.0.1:9/v1" in found["judged"]["metadata"]["error"]
    assert found["good"]["outcome"] == "correct"


def test_answers_that_nobody_could_judge_are_not_asked_for(recordings: Path) -> None:
    done = karenina("run", written(GOOD, JUDGED), "--recordings", recordings)

    assert done.code == 2
    assert (
        "no judge is configured, but ParseTemplate needs one for 1 of 2 questions (the first is 'judged')" in done.err
    )
    assert "--judge" in done.err
    assert not Path("genes.results.jsonl").exists()


HEAD = "karenina: 1\nname: G\n"
OTHER_VERSION = {
    "@type": "DataFeed",
    "name": "G",
    "dataFeedElement": [],
    "additionalProperty": [{"@type": "PropertyValue", "name": "karenina_format_version", "value": 99}],
}
BAD_YAML = {
    "unknown key": (f"{HEAD}question: []\n", "unknown key 'question'; did you mean"),
    "unknown key of a question": (
        f"{HEAD}questions:\n  - {{question: Q, anser: {{}}}}\n",
        "line 4: unknown key 'anser'; did you mean 'answer'?",
    ),
    "missing field": (f"{HEAD}questions:\n  - {{id: a}}\n", "the question has no text"),
    "no truth": (f"{HEAD}questions:\n  - question: Q\n    answer: {{gene: {{description: D}}}}\n", "ground_truth"),
    "unknown version": ("karenina: 2\nname: G\n", "format version 2"),
    "no version": ("name: G\n", "`karenina: 1`"),
    "broken YAML": ("karenina: 1\nname: [\n", "genes.yaml, line"),
    "no questions": (f"{HEAD}questions: []\n", "genes.yaml contains no question"),
    "config of the benchmark": (
        f"{HEAD}config: {{replicates: 3}}\nquestions:\n  - {{question: Q}}\n",
        "replicates: unknown configuration name",
    ),
    "nothing in it": ("", "the file is empty"),
}
BAD_FILES = {
    **{case: ("genes.yaml", text, said) for case, (text, said) in BAD_YAML.items()},
    "no benchmark": ("genes.jsonld", "[1, 2]", "genes.jsonld"),
    "broken JSON": ("genes.jsonld", '{"@type": "DataFeed", ', "genes.jsonld"),
    "checkpoint of another version": ("genes.jsonld", json.dumps(OTHER_VERSION), "99"),
}


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("command", ["run", "plan", "trust"])
def test_a_wrong_benchmark_file_is_refused_with_place_and_cure(case: str, command: str, recordings: Path) -> None:
    name, text, said = BAD_FILES[case]
    Path(name).write_text(text, "utf-8")

    done = karenina(command, name, *(("--recordings", recordings) if command == "run" else ()))

    if command == "trust" and case in ("no questions", "config of the benchmark"):
        assert done.code == 0  # there is no code in it, and nothing is run
        return
    assert done.code == 2
    if case != "no questions" or command == "run":
        assert said in done.err
    assert "Traceback" not in done.err
    assert not Path("genes.results.jsonl").exists()


def test_a_lone_surrogate_in_an_answer_ends_no_run() -> None:
    Path("answers.jsonl").write_text('{"id": "good", "answer": "BCL2 \\ud800"}\n', "ascii")

    found = karenina("run", written(GOOD), "--recordings", "answers.jsonl", "--json").items()

    assert found["good"]["template"]["raw_llm_response"] == "BCL2 \ufffd"


def test_recordings_that_are_not_there_are_refused_before_the_run() -> None:
    done = karenina("run", written(GOOD), "--recordings", "nowhere.jsonl")

    assert done.code == 2
    assert "nowhere.jsonl" in done.err


CODE = """
  - id: broken
    question: Which?
    template: |
      class Answer(BaseAnswer):
          gene: str
          def verify(self): return True
  - id: other
    question: Which else?
    template: |
      class Answer(BaseAnswer):
          gene: str
          def verify(self): return True"""


def test_code_runs_only_after_it_was_trusted(recordings: Path, judge: str) -> None:
    file = written(GOOD, CODE)
    run = ("run", file, "--recordings", recordings, "--judge", judge, "--json")
    refused = (
        "line 13: class Answer has the method verify(): the template contains code that is not trusted, so the code "
        "was not run"
    )
    assert refused in karenina(*run).err

    listed = json.loads(karenina("trust", file, "--json").out)
    assert [(one["line"], one["trusted"]) for one in listed["code"]] == [(3, False)]
    assert listed["code"][0]["reason"] == "class Answer has the method verify()"
    assert listed["code"][0]["places"] == ["template of question broken", "template of question other"]
    assert refused in karenina(*run).err

    given = karenina("trust", file, "--yes")
    assert given.code == 0
    assert "def verify(self): return True" in given.out
    assert karenina(*run).items()["broken"]["outcome"] == "parse_error"  # the judge of this test fills nothing
    assert json.loads(karenina("trust", file, "--json").out)["code"][0]["trusted"] is True

    written(GOOD, CODE.replace("return True", "return False"))
    assert refused in karenina(*run).err


def test_nothing_is_trusted_where_nobody_can_be_asked() -> None:
    file = written(CODE)

    done = karenina("trust", file)

    assert done.code == 2
    assert "nothing was trusted because there is no terminal for confirmation" in done.err
    assert f"karenina trust {file} --yes" in done.err
    assert json.loads(karenina("trust", file, "--json").out)["code"][0]["trusted"] is False


def test_a_template_file_can_be_trusted_by_itself() -> None:
    Path("template.py").write_text("import os\nclass Answer(BaseAnswer):\n    gene: str\n", "utf-8")

    assert json.loads(karenina("trust", "template.py", "--yes", "--json").out)["stored"] == 1


def test_a_run_names_the_file_whose_code_is_not_trusted(recordings: Path, judge: str) -> None:
    file = written(CODE)

    done = karenina("run", file, "--recordings", recordings, "--judge", judge)

    assert f"read the code, then run `karenina trust {file}`" in " ".join(done.err.split())
    assert "--trust-all" in done.err


def test_trust_all_runs_code_for_this_run_only(recordings: Path, judge: str) -> None:
    file = written(CODE)
    run = ("run", file, "--recordings", recordings, "--judge", judge, "--json")

    trusted = karenina(*run, "--trust-all").items(ExitCode.NOTHING_JUDGED)
    untrusted = karenina(*run)

    assert trusted["broken"]["outcome"] == "parse_error"
    assert (untrusted.code, untrusted.out) == (ExitCode.BAD_INPUT, "")


def test_check_and_doctor_try_a_plan() -> None:
    checked = karenina("check", written(GOOD), "--set", 'slots={"parse_template": "ParseMorse"}')

    assert checked.code == 2
    assert "cannot make a plan" in checked.out
    assert "ParseMorse" in checked.out
    assert "Plan: " in karenina("doctor").out
