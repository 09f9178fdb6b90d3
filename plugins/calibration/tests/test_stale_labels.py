"""Labels that were given for other right values: counted out of rates, named, and asked again."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from labelled import label_run, read_page
from runs import errant_run, karenina, save

from karenina_calibration import calibrate
from karenina_calibration.label_paths import default_labels
from karenina_core.data.result import VerificationResult

pytestmark = pytest.mark.alone


def with_truths(results: list[VerificationResult], truth: str, *questions: str) -> list[VerificationResult]:
    """Return results in which the right gene of some questions is another, and the verdicts are the same."""
    return [
        result.model_copy(
            update={"template": result.template.model_copy(update={"parsed_gt_response": {"gene": truth}})}
            if result.question_id in questions
            else {}
        )
        for result in results
    ]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a labelled run whose truths of three questions have changed since."""
    file = save(tmp_path / "genes.results.jsonl", errant_run(60))
    karenina("label", file, "--labeller", "ann", type="y\ny\n" * 60)
    return save(file, with_truths(errant_run(60), "MCL1", "q3", "q4", "q5"))


def test_labels_for_another_truth_are_left_out_and_named(run: Path) -> None:
    done = karenina("calibrate", run)
    calibration = calibrate(run)

    assert calibration.stale == ["q3", "q4", "q5"]
    assert calibration.corrected[0].labels == 57
    assert calibration.unclear == 0
    assert "3 answers have labels from before the ground truth changed (left out of rates): q3, q4, q5" in done.out
    assert f"; to label again, use `karenina label {run}`" in done.out


def test_what_they_say_about_extracted_values_still_counts(run: Path) -> None:
    (gene,) = calibrate(run).values

    assert gene.agreement.out_of == 60


def test_the_corrected_rate_of_other_commands_is_without_them(run: Path) -> None:
    done = karenina("compare", run, shutil.copy(run, run.with_name("again.results.jsonl")))

    assert done.code == 0, done.err
    assert "57 labels of 60 answers" in done.out
    assert f"(left out of rates): q3, q4, q5; to label again, use `karenina label {run}`" in done.out


def test_they_are_asked_again_without_what_does_not_depend_on_the_truth(run: Path) -> None:
    done = karenina("label", run, "--labeller", "ann", type="n\nn\nn\n")

    assert done.code == 0, done.err
    assert "(left out of rates): q3, q4, q5; these answers need new labels" in done.err
    assert "57 of 60" not in done.err
    assert done.out.count("Does the answer ") == 0
    assert "60 of 60 drawn answers are labelled" in done.err
    again = calibrate(run)
    assert (again.stale, again.corrected[0].labels) == ([], 60)
    assert again.values[0].agreement.out_of == 60


def test_a_label_for_each_truth_counts_for_results_with_it(run: Path) -> None:
    karenina("label", run, "--labeller", "ann", type="n\nn\nn\n")
    save(run, errant_run(60))

    calibration = calibrate(run)

    assert (calibration.stale, calibration.corrected[0].labels) == ([], 60)
    assert sum(stratum.right for stratum in calibration.corrected[0].strata) == 60


def test_labels_taken_over_from_another_file_say_how_many_are_stale(run: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other.results.jsonl", with_truths(errant_run(60), "MCL1", "q3", "q4", "q5"))

    done = karenina("label", other, "--from", default_labels(run), "--seed", "1")

    assert "60 labels were read" in done.err
    assert "Warning: 3 answers have labels from before the ground truth changed" in done.err
    assert "57 of 60 drawn answers are labelled" in done.err


def test_a_filled_in_sheet_keeps_the_truth_that_it_showed(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    sheet = tmp_path / "sheet.csv"
    karenina("label", run, "--sheet", sheet)
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "right": "yes"} for row in rows)
    save(run, with_truths(errant_run(20), "MCL1", "q7"))

    done = karenina("label", run, "--from", sheet, "--labeller", "ann")

    assert "1 answer has a label from before the ground truth changed (left out of rates): q7" in done.err


def test_rows_for_two_truths_are_two_labels(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    rows = []
    for name, right in (("before.csv", "yes"), ("after.csv", "no")):
        karenina("label", run, "--sheet", tmp_path / name, "--redraw")
        rows += [{**row, "right": right} for row in read_rows(tmp_path / name) if row["asked"] == "answer"]
        save(run, with_truths(errant_run(20), "MCL1", *(f"q{number}" for number in range(20))))
    write_rows(tmp_path / "both.csv", rows)

    assert karenina("label", run, "--from", tmp_path / "both.csv", "--labeller", "ann").code == 0

    after = calibrate(run)
    other = save(tmp_path / "other.results.jsonl", errant_run(20))
    karenina("label", other, "--from", default_labels(run))
    before = calibrate(other)
    assert (after.stale, after.corrected[0].labels) == ([], 20)
    assert sum(counts["right"] for counts in after.verdicts[0].table.values()) == 0
    assert before.stale == []
    assert sum(counts["not right"] for counts in before.verdicts[0].table.values()) == 0


def test_a_page_and_a_terminal_record_the_same_truth(run: Path, tmp_path: Path) -> None:
    labels = [json.loads(line)["label"] for line in default_labels(run).read_text("utf-8").splitlines()[1:]]

    assert len({label["truth"] for label in labels}) == 1
    assert labels[0]["truth"].startswith("t")


def test_labels_without_a_truth_count(tmp_path: Path) -> None:
    run = label_run(tmp_path / "genes.results.jsonl", errant_run(60))

    assert calibrate(run).stale == []


def read_rows(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(sheet: Path, rows: list[dict[str, str]]) -> None:
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("labeller", [(), ("--labeller", "ann")])
def test_a_sheet_asks_only_what_is_stale_and_says_why(run: Path, tmp_path: Path, labeller: tuple[str, ...]) -> None:
    sheet = tmp_path / "again.csv"
    done = karenina("label", run, "--sheet", sheet, *labeller)
    rows = read_rows(sheet)

    assert "contains 3 answers to label, 3 of them again" in done.err
    assert f"karenina label {run} --from {sheet} --labeller ann\n" in done.err
    assert {row["question"][-3:] for row in rows} == {"q3?", "q4?", "q5?"}
    assert {row["asked"] for row in rows} == {"answer"}
    assert {row["why"] for row in rows} == {"the ground truth has changed since ann labelled the answer"}


def test_a_sheet_read_back_keeps_labels_of_extracted_values(run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "again.csv"
    karenina("label", run, "--sheet", sheet)
    write_rows(sheet, [{**row, "right": "no"} for row in read_rows(sheet)])
    done = karenina("label", run, "--from", sheet, "--labeller", "ann")

    assert done.code == 0, done.err
    calibration = calibrate(run)
    assert (calibration.stale, calibration.corrected[0].labels, calibration.values[0].agreement.out_of) == ([], 60, 60)


def test_a_row_on_an_extracted_value_leaves_the_verdict(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    karenina("label", run, "--labeller", "ann", type="y\ny\n" * 20)
    first = json.loads(default_labels(run).read_text("utf-8").splitlines()[1])["label"]
    write_rows(tmp_path / "values.csv", [{"item": first["item"], "asked": "field gene", "right": "", "own": "X"}])
    karenina("label", run, "--from", tmp_path / "values.csv", "--labeller", "ann")

    assert calibrate(run).corrected[0].labels == 20


def test_a_page_asks_only_what_is_stale_and_keeps_the_rest(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "again.html"
    assert "contains 3 answers to label, 3 of them again" in karenina("label", run, "--page", page).err
    items = read_page(page)["items"]
    assert {(item["why"], len(item["extractions"])) for item in items} == {
        ("the ground truth has changed since ann labelled the answer", 0)
    }
    saved = tmp_path / "genes.labels-ann.jsonl"
    lines = [
        {
            "item": item["item"],
            "labeller": "ann",
            "time": "2026-11-26T12:00:00+00:00",
            "right": False,
            "extractions": [],
        }
        | {"truth": item["truth_id"]}
        for item in items
    ]
    saved.write_text("".join(json.dumps({"label": line}) + "\n" for line in lines), "utf-8")
    for _ in range(2):
        karenina("label", run, "--from", saved)

    calibration = calibrate(run)
    assert (calibration.stale, calibration.corrected[0].labels, calibration.values[0].agreement.out_of) == ([], 60, 60)
    assert len(default_labels(run).read_text("utf-8").splitlines()) == 1 + 60 + 3


def test_the_terminal_says_why_an_answer_is_asked_again(run: Path) -> None:
    done = karenina("label", run, "--labeller", "ann", type="q\n")

    assert "Asked again  the ground truth has changed since ann labelled the answer" in done.out
