"""`karenina jury`, the report page and the estimate of a run with a jury."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import run_karenina
from jury_runs import FAILS, Jury, found

from karenina_core import Outcome
from karenina_core import plugins as plugin_room
from karenina_jury.page_section import jury_sections
from karenina_report.page.section import PageRuns, TableBlock, TextBlock
from karenina_report.runs import read_runs

RIGHT, WRONG = found("BCL2"), found("TP53")
ANSWERS = 200


def two_hundred() -> Jury:
    """Return answers of which both judges read 160 rightly, 20 differently, and 20 wrongly."""
    values = {}
    for number in range(ANSWERS):
        a = WRONG if number >= 180 else RIGHT
        b = WRONG if number >= 160 else RIGHT
        values[f"q{number}"] = {"a": a, "b": b, "strong": RIGHT}
    return Jury(values)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result file of a run on 200 answers, with its journal beside it. Tests only read them."""
    folder = tmp_path_factory.mktemp("run")
    jury = two_hundred()
    prices = {id: {"input": 1, "output": 2} for id in ("a", "b", "strong")}
    with plugin_room.use_plugins(jury.plugins):
        jury.benchmark.run_verification(
            jury.config("a", "b", "strong", jury={"escalate_to": "strong"}, prices=prices),
            journal=folder / "run.journal",
            output=folder / "run.results.jsonl",
            progress=False,
        )
    return folder / "run.results.jsonl"


def test_the_command_prints_the_jury_beside_its_judges(results: Path) -> None:
    done = run_karenina("jury", results, plugins=two_hundred().plugins)

    assert done.code == 0, done.err
    assert "Pass rate  90.0%, 95% CI [85.1%, 93.4%]: 180 of 200 judged answers correct" in done.out
    assert "Unanimous  90.0%, 95% CI [85.1%, 93.4%]: 180 of 200 answers" in done.out
    assert "Escalated  10.0%, 95% CI [6.6%, 14.9%]: 20 of 200 answers, to strong" in done.out
    assert "Saved      about 180 calls and 2,700 tokens of that judge, $0.0036" in done.out
    rows = [line.split() for line in done.out.splitlines()]
    assert ["a", "200", "0", "90.0%", "[85.1%,", "93.4%]", "100.0%", "of", "200"] in rows
    assert ["b", "200", "0", "80.0%", "[73.9%,", "85.0%]", "90.0%", "of", "200"] in rows
    assert ["strong", "(if", "escalated)", "20", "0", "100.0%", "[83.9%,", "100.0%]", "100.0%", "of", "20"] in rows


def test_the_same_numbers_are_available_as_json(results: Path) -> None:
    (jury,) = run_karenina("jury", results, "--json", plugins=two_hundred().plugins).json["juries"]

    assert jury["jury"] == "jury(a,b>strong)"
    assert (jury["answers"], jury["not_judged"]) == (200, 0)
    assert {name: rate["hits"] for name, rate in jury["fields"].items()} == {"gene": 180, "year": 200, "drug": 200}
    assert jury["saved_usd"] == pytest.approx(180 * (10 * 1 + 5 * 2) / 1e6)


def test_reports_contain_a_table_of_the_jury(results: Path) -> None:
    (section,) = jury_sections(PageRuns(read_runs([results]), ["A"]))
    text, table = section.blocks

    assert text == TextBlock("All first judges agreed on 180 of 200 answers. strong was asked for 20.")
    assert isinstance(table, TableBlock)
    assert [row[0] for row in table.rows] == ["jury(a,b>strong)", "a", "b", "strong"]


def test_a_run_prints_the_jury_beside_its_pass_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": RIGHT}, "r": {"a": RIGHT, "b": RIGHT, "strong": WRONG}})
    jury.benchmark.save(tmp_path / "genes.yaml")
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": id, "response": "BCL2"}) + "\n" for id in jury.found), "utf-8")
    judges = [word for id in ("a", "b", "strong") for word in ("-j", f"scripted:{id}")]
    command = ("run", "genes.yaml", "--recordings", answers, *judges, "--set", 'jury={"escalate_to": "strong"}')
    done = run_karenina(*command, "--quiet", plugins=jury.plugins)

    assert done.code == 0, done.err
    assert "Pass rate  2 of 2 judged items correct" in done.out
    assert (
        "Jury       jury(a,b>strong); alone: a 100.0% of 2, b 50.0% of 2, strong 100.0% of 1; the first judges agree "
        "on 50.0%; strong asked for 1 of 2 answers, which saved about 1 call"
    ) in done.out


def test_each_jury_line_of_a_run_of_two_models_names_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jury = Jury({"q": {"a": RIGHT, "b": WRONG}, "r": {"a": RIGHT, "b": RIGHT}})
    jury.benchmark.save(tmp_path / "genes.yaml")
    for name in ("first", "second"):
        lines = [json.dumps({"id": id, "response": "BCL2"}) + "\n" for id in jury.found]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    recordings = ("--recordings", "first.jsonl", "--recordings", "second.jsonl")
    command = ("run", "genes.yaml", *recordings, "-j", "scripted:a", "-j", "scripted:b", "--set", "jury={}")
    run_karenina(*command, "--quiet", "-o", "r.jsonl", plugins=jury.plugins)
    done = run_karenina("show", "r.jsonl", "--quiet", plugins=jury.plugins)

    assert done.code == 0, done.err
    for name in ("first", "second"):
        assert f"Jury {name}: jury(a,b); alone: a 100.0% of 2, b 50.0% of 2" in " ".join(done.out.split())


def test_an_answer_without_any_vote_has_no_row_of_agreement(tmp_path: Path) -> None:
    jury = Jury({"q": {"a": RIGHT, "b": RIGHT}, "r": {"a": FAILS, "b": FAILS}})
    with plugin_room.use_plugins(jury.plugins):
        jury.benchmark.run_verification(
            jury.config("a", "b", jury={}), output=tmp_path / "r.results.jsonl", progress=False
        )
    done = run_karenina("jury", tmp_path / "r.results.jsonl", plugins=jury.plugins)

    assert done.code == 0, done.err
    assert "Not judged  1: no quorum, or an error" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if line.strip()][-4:] == ["vote", "gene", "year", "drug"]


def test_results_without_a_jury_are_refused(tmp_path: Path) -> None:
    jury = Jury({"q": {"a": RIGHT}})
    with plugin_room.use_plugins(jury.plugins):
        jury.benchmark.run_verification(jury.config("a"), output=tmp_path / "r.jsonl", progress=False)
    done = run_karenina("jury", tmp_path / "r.jsonl", plugins=jury.plugins)

    assert done.code == 2
    assert "contains no jury results; set `jury` in the run configuration" in done.err


def test_an_estimate_counts_the_first_judges_and_names_the_other(tmp_path: Path) -> None:
    jury = Jury({"q": {"a": RIGHT, "b": RIGHT, "strong": RIGHT}, "r": {"a": RIGHT, "b": RIGHT, "strong": RIGHT}})
    file = tmp_path / "genes.yaml"
    jury.benchmark.save(file)
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": id, "response": "BCL2"}) + "\n" for id in jury.found), "utf-8")
    judges = [word for id in ("a", "b", "strong") for word in ("-j", f"scripted:{id}")]
    done = run_karenina(
        *("run", file, "--recordings", answers, *judges, "--dry-run", "--json"),
        *("--set", 'jury={"escalate_to": "strong"}'),
        plugins=jury.plugins,
    )

    assert done.code == 0, done.err
    estimate = done.json["estimate"]
    assert estimate["items"] == 2
    assert {line["model"]: line["calls"][1] for line in estimate["lines"]} == {"a": 2, "b": 2}
    why = "this judge is asked about only some of the answers, and the number of these answers is not known"
    assert {"stage": "strong", "why": why} in estimate["not_counted"]


def test_skip_done_knows_the_results_of_a_jury(tmp_path: Path) -> None:
    jury = Jury({"q": {"a": RIGHT, "b": RIGHT}, "r": {"a": RIGHT, "b": WRONG}})
    file, answers = tmp_path / "genes.yaml", tmp_path / "answers.jsonl"
    jury.benchmark.save(file)
    answers.write_text("".join(json.dumps({"id": id, "response": "BCL2"}) + "\n" for id in jury.found), "utf-8")
    run = ("run", file, "--recordings", answers, "-j", "scripted:a", "-j", "scripted:b", "--set", "jury={}")
    first = run_karenina(*run, "-o", tmp_path / "one.jsonl", "--json", plugins=jury.plugins)
    again = run_karenina(
        *run, "-o", tmp_path / "two.jsonl", "--skip-done", tmp_path / "one.jsonl", "--json", plugins=jury.plugins
    )

    assert [result["outcome"] for result in first.json["results"]] == [Outcome.CORRECT, Outcome.PARSE_ERROR]
    assert [result["question_id"] for result in again.json["results"]] == ["r"]
