"""A table of questions and answers is run without a YAML file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile

import openpyxl
import pytest
from conftest import Environment
from servers import recording_server

ROWS = [["Question", "Right answer"], ["Which gene does venetoclax target?", "BCL2"], ["In which year?", 2016]]
MAPPED = ("--columns", "answer=Right answer")


def reply(body: Mapping[str, object]) -> str:
    """Return a model that says BCL2 to everything; as judge it extracts that."""
    return json.dumps({"answer": "BCL2"}) if "response_format" in body else "I think that it is BCL2."


def table(site: Environment, kind: str) -> Path:
    if kind == "csv":
        return site.write("genes.csv", "".join(f"{question},{answer}\n" for question, answer in ROWS))
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in ROWS:
        sheet.append(row)
    book.save(site.folder / "genes.xlsx")
    return site.folder / "genes.xlsx"


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_table_runs_resumes_and_is_scored_again(site: Environment, kind: str) -> None:
    file = table(site, kind)
    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        run = ("run", file, *MAPPED, "-a", model, "-j", model, "-o", "out.jsonl")
        one = site.printed(*run, "-q", "q2-in-which-year")
        both = site.printed(*run)
        again = site.printed("resume", "out.journal")
        requests = len(server.seen)
    assert [one["results"][0]["question_id"], one["results"][0]["outcome"]] == ["q2-in-which-year", "wrong"]
    for found in (both, again):
        assert {result["question_id"]: result["outcome"] for result in found["results"]} == {
            "q1-which-gene-does": "correct",
            "q2-in-which-year": "wrong",
        }
    assert requests == 4
    assert site.karenina("rescore", "out.journal").returncode == 0
    corrected = site.write("corrected.csv", "".join(f"{one},{two}\n" for one, two in ROWS).replace("BCL2", "MCL1"))
    other = site.karenina("rescore", "out.journal", corrected, *MAPPED, "--json")
    assert json.loads(other.stdout)["flips"][0]["question_id"] == "q1-which-gene-does"


def test_the_run_shows_the_yaml_for_other_comparisons(site: Environment) -> None:
    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        done = site.karenina("run", table(site, "csv"), *MAPPED, "-a", model, "-j", model, "--no-journal")
    assert done.returncode == 0, done.stderr
    assert "1 name or short text (ExactMatch)" in done.stderr
    assert "write a YAML file with `karenina import" in done.stderr


def test_columns_that_are_not_there_end_with_the_cure(site: Environment) -> None:
    file = site.write("genes.csv", "What,Gold\na,b\n")
    done = site.karenina("run", file, "-a", "openai:m@http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "--columns question=COLUMN,answer=COLUMN" in done.stderr
    assert site.karenina("plan", file, "--columns", "question=What,answer=Gold").returncode == 0
    assert site.karenina("plan", file, "--columns", "What").returncode == 2
    twice = site.karenina("plan", file, "--columns", "question=What,answer=Gold", "--columns", "answer=What")
    assert (twice.returncode, "--columns answer was given more than once; keep only one" in twice.stderr) == (2, True)


def test_a_table_without_answers_ends_before_any_call(site: Environment) -> None:
    """Without answers only traits can be scored, so the mode rubric_only alone is allowed."""
    file = site.write("t.csv", "question,the reply\nWho?,Ada\n")
    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        run = ("run", file, "-a", model, "-j", model, "--no-journal")
        refused = site.karenina(*run)
        assert len(server.seen) == 0
        allowed = site.karenina(*run, "--set", "evaluation_mode=rubric_only")
        assert len(server.seen) > 0
    assert refused.returncode == 2
    assert refused.stderr.startswith("Error: t.csv has no 'answer' column"), "no warning says the same before"
    assert "add --columns 'answer=the reply'" in refused.stderr
    assert allowed.returncode != 2, allowed.stderr


def test_the_command_is_also_a_module(site: Environment) -> None:
    command = [sys.executable, "-m", "karenina", "plan", table(site, "csv"), *MAPPED, "--json"]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.fixture
def second_sheet(site: Environment) -> str:
    """The id of the model of a run of the second sheet of `two.xlsx`, whose results are in `out.jsonl`."""
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["question", "answer"])
    book.active.append(["Which drug?", "venetoclax"])
    page = book.create_sheet("Genes")
    for row in [["question", "answer", "author"], ["Which gene does venetoclax target?", "BCL2", "drugs"]]:
        page.append(row)
    book.save(site.folder / "two.xlsx")
    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        site.printed("run", "two.xlsx", "--sheet", "Genes", "-a", model, "-j", model, "-o", "out.jsonl", "--quiet")
    (site.folder / "copy").mkdir()
    (site.folder / "copy/out.jsonl").write_bytes((site.folder / "out.jsonl").read_bytes())
    return "m"


@pytest.mark.usefixtures("second_sheet")
@pytest.mark.parametrize("command", ["show", "stats", "compare", "report"])
def test_commands_on_results_read_any_sheet_of_the_benchmark(site: Environment, command: str) -> None:
    results = ("copy/out.jsonl",)
    if command == "compare":
        copyfile(site.folder / "copy/out.jsonl", site.folder / "copy/again.jsonl")
        results = ("copy/out.jsonl", "copy/again.jsonl")
    by = () if command == "show" else ("--by", "author")
    done = site.karenina(command, *results, "--benchmark", "two.xlsx", "--sheet", "Genes", *by)
    wrong = site.karenina(command, *results, "--benchmark", "two.xlsx", "--sheet", "Years")
    without = site.karenina(command, *results, "--sheet", "Genes")

    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    assert (
        "rule" if command == "show" else "report.html" if command == "report" else "drugs"
    ) in done.stdout + done.stderr
    assert (wrong.returncode, "has no sheet 'Years'" in wrong.stderr) == (2, True)
    assert without.returncode == 2
    assert "--sheet and --exact apply only to the table of a benchmark" in without.stderr


@pytest.mark.usefixtures("second_sheet")
def test_a_table_is_read_as_in_the_run_of_the_results(site: Environment) -> None:
    done = site.karenina("report", "out.jsonl", "--benchmark", "two.xlsx", "--by", "author")

    assert (done.returncode, "left out" in done.stderr) == (0, False), done.stderr


@pytest.mark.usefixtures("second_sheet")
@pytest.mark.parametrize("command", ["show", "stats", "compare", "report"])
def test_a_benchmark_without_the_questions_is_named(site: Environment, command: str) -> None:
    results = ("copy/out.jsonl", "out.jsonl") if command == "compare" else ("copy/out.jsonl",)
    done = site.karenina(command, *results, "--benchmark", "two.xlsx", "--sheet", "Sheet")

    said = " ".join((done.stdout + done.stderr).split())
    absent = "1 question in the results is not in the benchmark; the run may have read a table with different options"
    assert absent in said
