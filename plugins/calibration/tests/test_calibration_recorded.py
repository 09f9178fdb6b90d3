"""Recorded judges and people: agreement is that of scikit-learn, to the last printed digit."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from runs import karenina, result, save
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult

DATA = Path(__file__).parents[4] / "shared" / "data"
NQ301 = DATA / "nq301_openqa_eval.jsonl"
XSTEST = DATA / "xstest.jsonl"
available = pytest.mark.skipif(not NQ301.is_file(), reason=f"the recorded data {DATA} is not there")
JUDGES = ("gpt4", "davinci003", "bem")
CLASSES = ["1_full_compliance", "2_full_refusal", "3_partial_refusal"]


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def write_csv(file: Path, names: list[str], labels: list[list[str]]) -> Path:
    """Write a sheet of people's labels."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerows([names, *labels])
    return file


def nq301_run(folder: Path) -> tuple[Path, Path]:
    """Return the verdicts of three judges on each answer, and a sheet with the people's."""
    results: list[VerificationResult] = [
        result(row["id"], row[f"{judge}_judge"], judge=judge, answer=row["response"], text=row["question"])
        for row in rows(NQ301)
        for judge in JUDGES
    ]
    people = [[row["id"], str(row["human_label"])] for row in rows(NQ301)]
    return save(folder / "nq.results.jsonl", results), write_csv(
        folder / "people.csv", ["question_id", "human_label"], people
    )


@available
def test_nq301_has_the_accuracy_and_kappa_of_scikit_learn(tmp_path: Path) -> None:
    run, people = nq301_run(tmp_path)

    done = karenina("calibrate", run, people)
    by_judge = {verdict["judge"]: verdict for verdict in karenina("calibrate", run, people, "--json").json["verdicts"]}

    assert done.code == 0, done.err
    for judge in JUDGES:
        pairs = [(row["human_label"], row[f"{judge}_judge"]) for row in rows(NQ301)]
        truth, verdicts = zip(*[pair for pair in pairs if pair[1] is not None], strict=True)
        accuracy, kappa = accuracy_score(truth, verdicts), cohen_kappa_score(truth, verdicts)
        part = done.out.split(f"Verdicts of {judge} and people\n")[1].split("\n\n")[0]
        assert f"agree        {100 * accuracy:.1f}% [" in part
        assert f"kappa        {kappa:.3f} [" in part
        assert f"of {len(truth)} labelled answers" in part
        assert by_judge[judge]["agreement"]["value"] == pytest.approx(accuracy)
        assert by_judge[judge]["kappa"]["value"] == pytest.approx(kappa)
        table = by_judge[judge]["table"]
        tn, fp, fn, tp = confusion_matrix(truth, verdicts).ravel()
        assert table["correct"] == {"right": tp, "not right": fp}
        assert table["not correct"] == {"right": fn, "not right": tn}
    assert by_judge["gpt4"]["table"]["not judged"] == {"right": 0, "not right": 1}


@available
def test_nq301_the_corrected_rate_is_near_that_of_people(tmp_path: Path) -> None:
    run, people = nq301_run(tmp_path)
    truth = [row["human_label"] for row in rows(NQ301)]

    (whole,) = karenina("calibrate", run, people, "--json").json["corrected"]
    assert whole["value"] == pytest.approx(sum(truth) / len(truth), abs=0.003)
    assert (whole["labels"], whole["answers"], whole["questions"]) == (748, 748, 150)

    done = karenina("label", run, "--from", people, "--n", "100", "--seed", "4")
    assert done.code == 0, done.err
    (drawn,) = karenina("calibrate", run, "--json").json["corrected"]
    assert drawn["labels"] == 100
    assert drawn["low"] < sum(truth) / len(truth) < drawn["high"]


@available
def test_xstest_agrees_in_three_classes(tmp_path: Path) -> None:
    """A judge's classes are scores of a literal trait; its malformed outputs have none."""
    results = [
        result(
            row["id"],
            None,
            outcome=Outcome.SCORED,
            judge=judge,
            model=row["model"],
            text=row["question"],
            answer=row["response"],
            labels={"refusal": row[column]} if row[column] in CLASSES else {},
        )
        for row in rows(XSTEST)
        for judge, column in (("gpt4", "gpt4_judge"), ("match", "strmatch"))
        if row["response"].strip()
    ]
    run = save(tmp_path / "xs.results.jsonl", results)
    people = [[row["id"], "trait refusal", row["human_label"]] for row in rows(XSTEST) if row["response"].strip()]
    sheet = write_csv(tmp_path / "people.csv", ["question_id", "asked", "own"], people)

    done = karenina("calibrate", run, sheet)
    values = {row["judge"]: row for row in karenina("calibrate", run, sheet, "--json").json["values"]}

    assert done.code == 0, done.err
    for judge, column in (("gpt4", "gpt4_judge"), ("match", "strmatch")):
        pairs = [
            (row["human_label"], row[column])
            for row in rows(XSTEST)
            if row[column] in CLASSES and row["response"].strip()
        ]
        truth, classes = zip(*pairs, strict=True)
        value = values[judge]
        assert value["agreement"]["out_of"] == len(pairs)
        assert value["agreement"]["value"] == pytest.approx(accuracy_score(truth, classes))
        assert value["kappa"]["value"] == pytest.approx(cohen_kappa_score(truth, classes))
        assert f"{100 * accuracy_score(truth, classes):.1f}%" in done.out
        assert f"{cohen_kappa_score(truth, classes):.3f} [" in done.out
        counted = confusion_matrix(classes, truth, labels=CLASSES).tolist()
        assert [[value["table"].get(a, {}).get(b, 0) for b in CLASSES] for a in CLASSES] == counted
