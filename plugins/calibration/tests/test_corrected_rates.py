"""The corrected pass rate beside the raw one: in `karenina show`, `compare` and `report`."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from labelled import is_right, label_run
from runs import RIGHT, WRONG, errant_run, karenina, result, save

from karenina_calibration.answers import Answer
from karenina_calibration.label_paths import default_labels


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return label_run(tmp_path / "first.results.jsonl", errant_run(200))


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Another run of the same questions: 40% of its answers are right."""
    results = [result(f"q{at}", at % 5 < 2, answer=RIGHT if at % 5 < 2 else WRONG, model="n") for at in range(200)]
    return save(tmp_path / "second.results.jsonl", results)


def section_of(page: Path) -> dict[str, Any] | None:
    """Return the section of corrected rates on a report page."""
    block = re.search(r'id="karenina-head">([^<]*)<', page.read_text("utf-8"))
    assert block is not None
    sections = json.loads(gzip.decompress(base64.b64decode(block[1])))["sections"]
    return next((section for section in sections if section["id"] == "corrected"), None)


def test_show_prints_the_corrected_rate_below_the_raw_one(first: Path) -> None:
    done = karenina("show", first, "--quiet")
    (note,) = karenina("show", first, "--json").json["notes"]

    lines = done.out.splitlines()
    assert lines[0].startswith("Pass rate  ")
    assert re.match(r"Corrected +\d+\.\d%, 95% CI \[.*\]: 60 labels of 200 answers on 200 questions", lines[1])
    assert note["values"]["low"] < 0.6 < note["values"]["high"]


def test_without_labels_nothing_is_added(second: Path) -> None:
    assert "Corrected" not in karenina("show", second).out
    assert karenina("show", second, "--json").json["notes"] == []
    again = shutil.copy(second, second.with_name("again.results.jsonl"))
    assert "Corrected" not in karenina("compare", second, again).out


def test_selected_results_have_no_corrected_rate(first: Path) -> None:
    assert "Corrected" not in karenina("show", first, "--outcome", "correct", "--quiet").out


def test_several_models_have_a_rate_each(tmp_path: Path) -> None:
    results = [result(f"q{at}", at % 2 == 0, model=model) for at in range(60) for model in ("m", "n")]
    run = label_run(tmp_path / "both.results.jsonl", results)

    out = karenina("show", run, "--quiet").out

    assert re.search(r"Corrected +m: .*\nCorrected +n: ", out)


def test_compare_corrects_the_difference_by_labels_of_both(first: Path, second: Path) -> None:
    label_run(second, ())

    done = karenina("compare", first, second)
    notes = {note["name"]: note["values"] for note in karenina("compare", first, second, "--json").json["notes"]}

    assert done.code == 0, done.err
    assert notes.keys() == {"Corrected A", "Corrected B", "Corrected A - B"}
    difference = notes["Corrected A - B"]
    assert difference["low"] < 0.2 < difference["high"]
    assert difference["value"] == pytest.approx(notes["Corrected A"]["value"] - notes["Corrected B"]["value"])
    assert "points, 95% CI [" in done.out.split("Corrected A - B")[1].splitlines()[0]


def test_with_labels_of_one_run_equal_errors_are_assumed(first: Path, second: Path) -> None:
    out = karenina("compare", first, second).out

    assert "B has no corrected rate, so the difference assumes that the judge's error rates are equal" in out


def test_labels_of_other_results_are_not_used(first: Path, second: Path) -> None:
    default_labels(second).write_bytes(default_labels(first).read_bytes())

    out = karenina("show", second, "--quiet").out

    assert re.search(r"Corrected +not available: the draw in .* was made from other results", out)


def test_the_report_has_the_corrected_rates(first: Path, second: Path, tmp_path: Path) -> None:
    def generous(answer: Answer) -> bool | None:
        return True if answer.question_id == "q0" else is_right(answer)

    label_run(second, (), say=generous)
    done = karenina("report", first, second, "-o", tmp_path / "report.html")
    section = section_of(tmp_path / "report.html")

    assert done.code == 0, done.err
    assert "left out" not in done.err
    assert section is not None
    rates, judges, text = section["blocks"]
    assert [row[0] for row in rates["rows"]] == ["A: m", "B: n"]
    assert rates["rows"][0][4:] == [0.56, 60, 200]
    assert [row[0] for row in judges["rows"]] == ["A: j", "B: j"]
    assert text["text"].startswith("Corrected A - B: ")


def test_corrected_rates_have_the_intervals_of_the_cluster(first: Path, second: Path, tmp_path: Path) -> None:
    cluster = ("--cluster", "outcome")
    (expected,) = karenina("calibrate", first, *cluster, "--json").json["corrected"]
    notes = {
        note["name"]: note["values"] for note in karenina("compare", first, second, *cluster, "--json").json["notes"]
    }
    karenina("report", first, "-o", tmp_path / "report.html", *cluster)
    section = section_of(tmp_path / "report.html")

    assert (notes["Corrected A"]["low"], notes["Corrected A"]["high"]) == (expected["low"], expected["high"])
    assert section is not None
    assert section["blocks"][0]["rows"][0][2:4] == [expected["low"], expected["high"]]


def test_units_of_the_cluster_are_not_called_questions(first: Path, second: Path) -> None:
    cluster = ("--cluster", "outcome")
    said = "60 labels of 200 answers on 2 units of one outcome"

    assert said in karenina("calibrate", first, *cluster).out
    assert said in " ".join(karenina("compare", first, second, *cluster).out.split())


def test_a_report_without_labels_has_no_such_section(second: Path, tmp_path: Path) -> None:
    karenina("report", second, "-o", tmp_path / "report.html")

    assert section_of(tmp_path / "report.html") is None
