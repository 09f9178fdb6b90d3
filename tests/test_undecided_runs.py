"""Runs in which some answers cannot be decided: what the command prints, exits with, stores and scores again."""

import csv
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResultSet
from karenina_core import plugins as plugin_room
from karenina_core.plugins import Plugins
from karenina_engine.offline.rescoring import rescore
from karenina_testing import ScriptedModels

DAYS = {**dict.fromkeys(["q0", "q1", "q2", "q3", "q4", "q5", "q6"], "1 February 2024"), "q7": "5 May 2024"}
UNDECIDED = {"q8": "01/02/2024", "q9": "2/1/2024"}
QUESTION = """
  - id: {id}
    question: When was {id} signed?
    answer:
      day: {{type: str, description: "Its day", ground_truth: "2024-02-01", verify_with: {{type: DateMatch{more}}}}}
"""
MODELS = ("-a", "scripted:m", "-j", "scripted:j")
SECOND_RATE = "87.5%, rough 95% CI 52.9%-97.8%); 70.0% if the 2 undecided are wrong"


class Days:
    """A benchmark of days, with a model that answers them and a judge that reads them."""

    def __init__(self, days: Mapping[str, str]) -> None:
        self.days = days
        self.models = ScriptedModels(
            say=lambda _messages, info: f"It was signed on {days[info.question_id]}.",
            fill=lambda _messages, _schema, info: {"day": days[info.question_id]},
        )
        self.plugins = Plugins.discover()
        self.plugins.register(self.models)
        self.file = Path("days.yaml")
        self.write()

    def write(self, more: str = "") -> None:
        questions = "".join(QUESTION.format(id=id, more=more) for id in self.days)
        self.file.write_text(f"karenina: 1\nname: Days\nquestions:{questions}", "utf-8")

    def run(self, *more: str) -> CommandResult:
        return run_karenina("run", self.file, *MODELS, "-o", "days.results.jsonl", *more, plugins=self.plugins)

    def karenina(self, *arguments: str) -> CommandResult:
        return run_karenina(*arguments, plugins=self.plugins)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def days() -> Days:
    return Days({**DAYS, **UNDECIDED})


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ((), 0, ""),
        (("--fail-under", "0.7"), 0, ""),
        (
            ("--fail-under", "0.8"),
            1,
            "The pass rate, 0.7 if the 2 undecided items are wrong, is below --fail-under 0.8.",
        ),
        (("--max-unjudged", "1"), 1, "2 items were not judged, which is more than --max-unjudged 1."),
    ],
)
def test_a_condition_uses_the_lower_rate(days: Days, more: tuple[str, ...], code: int, says: str) -> None:
    done = days.run("--no-journal", *more)

    assert done.code == code, done.err
    assert says in done.err
    assert SECOND_RATE in done.out
    assert "Why       field day: 01/02/2024 can be read as two different dates" in done.out


def test_a_run_in_which_nothing_is_decided_is_below_any_limit() -> None:
    done = Days(UNDECIDED).run("--no-journal", "--fail-under", "0.1")

    assert done.code == 1
    assert "none: no item has a verdict; 0.0% if the 2 undecided are wrong" in done.out
    assert "The pass rate, 0 if the 2 undecided items are wrong, is below --fail-under 0.1." in done.err
    assert "No item was judged: both items ended in an error or could not be decided." in done.err


def test_without_undecided_items_nothing_mentions_them() -> None:
    done = Days(DAYS).run("--no-journal", "--junit", "days.xml", "--summary-markdown")
    shown = Days(DAYS).karenina("show", "days.results.jsonl", "--json")

    assert done.code == 0
    everything = f"{done.out}{done.err}{shown.out}{Path('days.results.jsonl').read_text('utf-8')}"
    assert "undecided" not in f"{everything}{Path('days.xml').read_text('utf-8')}"


def test_json_csv_and_junit_have_the_undecided_items(days: Days) -> None:
    found = days.run("--no-journal", "--json", "--junit", "days.xml").json["summary"]
    days.karenina("export", "days.results.jsonl", "-o", "days.csv", "--table", "fields")
    days.karenina("export", "days.results.jsonl", "-o", "whole.csv")
    rows = list(csv.DictReader(Path("days.csv").read_text("utf-8").splitlines()))
    cases = {case.get("name"): [child.tag for child in case] for case in ET.parse("days.xml").iter("testcase")}

    rates = [found["pass_rate"], *(one["pass_rate"] for one in found["groups"])]
    assert [(one["value"], one["undecided"], one["if_undecided_wrong"]) for one in rates] == [(0.875, 2, 0.7)] * 2
    assert found["outcomes"] == {"correct": 7, "wrong": 1, "undecided": 2}
    assert [(row["passed"], row["score"]) for row in rows[6:9]] == [("True", "1.0"), ("False", "0.0"), ("", "")]
    assert (cases["q7"], cases["q8"]) == (["failure"], ["error"])
    stored, again = (list(VerificationResultSet.load(Path("days.results.jsonl"))), run_of("whole.csv", days))
    assert stored == again
    assert stored[8].template.field_results == {"day": None}


def run_of(file: str, days: Days) -> list[Any]:
    """Return the results of a file after they went through CSV."""
    days.karenina("export", file, "-o", "again.jsonl")
    return list(VerificationResultSet.load(Path("again.jsonl")))


def test_a_resumed_run_asks_nobody_again(days: Days) -> None:
    days.run()
    asked = len(days.models.requests)
    again = days.run()

    assert len(days.models.requests) == asked
    assert "No new call was made: all 10 results came from the journal" in again.err
    assert SECOND_RATE in again.out


def test_done_questions_are_those_with_a_verdict_or_without_a_possible_one(days: Days) -> None:
    days.run("--no-journal")
    rest = run_karenina(
        *("run", days.file, *MODELS, "--no-journal", "-o", "rest.jsonl", "--skip-done", "days.results.jsonl"),
        plugins=days.plugins,
    )

    assert not Path("rest.jsonl").exists(), rest.out


def test_a_format_decides_when_the_run_is_scored_again(days: Days) -> None:
    with plugin_room.use_plugins(days.plugins):
        benchmark = Benchmark.load(days.file)
        config = VerificationConfig(answering_models=[days.models.model("m")], parsing_models=[days.models.model("j")])
        before = benchmark.run_verification(config, journal=Path("run.journal"), progress=False)
        days.write(', format: "%d/%m/%Y"')
        found = rescore("run.journal", Benchmark.load(days.file), config)

    assert (before.summary().pass_rate.undecided, found.after.pass_rate.undecided) == (2, 0)
    assert {one.item[0]: (one.after, one.decided) for one in found.changes if one.before is Outcome.UNDECIDED} == {
        "q8": (Outcome.CORRECT, True),
        "q9": (Outcome.WRONG, True),
    }
    assert found.missing == []
    assert "0 items now undecided, 2 no longer undecided" in " ".join(str(found).split())
    assert "70.0% if the 2 undecided are wrong" in " ".join(str(found).split())


def test_a_run_that_becomes_undecided_misses_no_reply(days: Days) -> None:
    days.write(', format: "%d/%m/%Y"')
    with plugin_room.use_plugins(days.plugins):
        config = VerificationConfig(answering_models=[days.models.model("m")], parsing_models=[days.models.model("j")])
        Benchmark.load(days.file).run_verification(config, journal=Path("run.journal"), progress=False)
        days.write()
        found = rescore("run.journal", Benchmark.load(days.file), config)

    assert [one.item[0] for one in found.changes if one.undecided] == ["q8", "q9"]
    assert found.missing == []
    assert [one.item[0] for one in found.ordered_changes()][-2:] == ["q8", "q9"]


def test_rubric_traits_of_an_undecided_item_are_scored() -> None:
    found = Days(UNDECIDED)
    text = found.file.read_text("utf-8")
    traits = "rubric:\n  - {type: regex, name: dated, pattern: signed}\n"
    found.file.write_text(text.replace("questions:", f"{traits}questions:"), "utf-8")
    done = found.run("--no-journal", "--json", "--set", "evaluation_mode=template_and_rubric")

    results = done.json["results"]
    assert [one["outcome"] for one in results] == ["undecided"] * 2
    assert [one["rubric"]["regex_trait_scores"] for one in results] == [{"dated": True}] * 2
