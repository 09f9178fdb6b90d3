"""`karenina label`: the draw, labels in the terminal, sheets, and several labellers."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from full_disk import no_file_above
from openpyxl import load_workbook
from runs import RIGHT, errant_run, karenina, result, save

from karenina_calibration import calibrate
from karenina_core.data.outcome import Outcome


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save(tmp_path / "genes.results.jsonl", errant_run())


def lines(file: Path, kind: str) -> list[dict[str, Any]]:
    """Return the draws or the labels in a file."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [record[kind] for record in records if kind in record]


def labels_of(run: Path) -> Path:
    """Return the default file of labels."""
    return run.with_name("genes.labels.jsonl")


def fill_in(sheet: Path) -> None:
    """Write the right labels into a CSV sheet."""
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    right = {row["item"]: row["answer"] == RIGHT for row in rows if row["asked"] == "answer"}
    for row in rows:
        is_right = right[row["item"]] if row["asked"] == "answer" else (row["value"] == '"BCL2"') == right[row["item"]]
        row["right"] = "yes" if is_right else "no"
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_answers_are_labelled_in_the_terminal(run: Path) -> None:
    done = karenina("label", run, "--labeller", "ann", type="y\nn\nn\nu\nq\n")

    assert done.code == 0, done.err
    assert "1 of 60" in done.out
    assert "Does the answer say gene = " in done.out
    assert "2 of 60 drawn answers are labelled" in done.err
    first, second = lines(labels_of(run), "label")
    assert (first["labeller"], first["right"], first["extractions"][0]["right"]) == ("ann", True, False)
    assert (second["right"], second["extractions"][0].get("right")) == (False, None)
    assert first["time"].endswith("+00:00")


def test_no_part_of_a_label_is_left_on_a_full_disk(run: Path) -> None:
    karenina("label", run, "--labeller", "ann", type="y\nn\nq\n")
    before = labels_of(run).read_bytes()
    with no_file_above(len(before) + 20):
        full = karenina("label", run, "--labeller", "ann", type="y\nn\nq\n")

    assert full.code == 2
    assert "cannot write the label file" in full.err
    assert labels_of(run).read_bytes() == before
    assert karenina("label", run, "--labeller", "ann", type="y\nn\nq\n").code == 0
    assert len(lines(labels_of(run), "label")) == 2


def test_every_printed_command_works_when_pasted(run: Path, tmp_path: Path) -> None:
    own, sheet, page = tmp_path / "my labels.jsonl", tmp_path / "a sheet.csv", tmp_path / "page.html"
    opened = karenina(
        "label", run, "--labels", own, "--sheet", sheet, "--page", page, "--labeller", "Ann B", "--n", "10"
    )
    fill_in(sheet)
    (tmp_path / "my labels.jsonl.labels-Ann-B.jsonl").write_text("", "utf-8")
    read, of_page = re.findall(r"with: (karenina .*)", opened.err)
    assert shlex.split(of_page)[-4:] == ["--from", "my labels.jsonl.labels-Ann-B.jsonl", "--labels", str(own)]
    done = karenina(*shlex.split(read)[1:])
    assert "10 labels were read" in done.err
    (how,) = re.findall(r"Compare the labels with the verdicts: (karenina .*)", done.err)
    shown = karenina(*shlex.split(how)[1:])

    assert shown.code == 0, shown.err
    assert "10 of 10 drawn answers" in shown.out
    assert not labels_of(run).exists()


def test_commands_about_stale_and_outside_labels_name_their_file(run: Path, tmp_path: Path) -> None:
    own, sheet = tmp_path / "own.jsonl", tmp_path / "sheet.csv"
    karenina("label", run, "--labels", own, "--n", "9", type="q\n")
    karenina("label", run, "--labels", tmp_path / "all.jsonl", "--n", "100", "--sheet", sheet)
    fill_in(sheet)
    done = karenina("label", run, "--labels", own, "--from", sheet, "--labeller", "ann")
    (how,) = re.findall(r"what to label\. `(karenina .*?)`", done.err)
    karenina(*shlex.split(how)[1:], "--from", sheet)
    changed = karenina("calibrate", run, own)

    assert "outside the draw" not in changed.out
    assert "100 of 100 drawn answers" in changed.out
    errant = errant_run()
    new = errant[0].template.model_copy(update={"parsed_gt_response": {"gene": "MCL1"}})
    save(run, [errant[0].model_copy(update={"template": new}), *errant[1:]])
    assert f"to label again, use `karenina label {run} --labels {own}`" in karenina("calibrate", run, own).out


def test_a_stratum_of_every_verdict_is_all_answers(tmp_path: Path) -> None:
    results = [result(f"q{at}", at != 0) for at in range(8)]
    run = save(tmp_path / "genes.results.jsonl", results)
    drawn = karenina("label", run, "--labeller", "ann", type="y\n" * 20)
    again = karenina("calibrate", run)

    assert "8 of 8 answers: all answers" in drawn.err
    assert "all answers        8" in again.out
    assert "correct or not correct" not in drawn.err + again.out


@pytest.mark.parametrize("reference", ["False", "no", "false"])
def test_booleans_of_truths_are_spelled_like_those_of_answers(tmp_path: Path, reference: str) -> None:
    (item,) = [result("q", False, answer="Yes.", extracted={"increases": True})]
    item = item.model_copy(
        update={
            "metadata": item.metadata.model_copy(update={"raw_answer": reference}),
            "template": item.template.model_copy(update={"parsed_gt_response": {"increases": False}}),
        }
    )
    done = karenina("label", save(tmp_path / "b.results.jsonl", [item]), type="n\nq\n")

    assert "Truth     false\n" in done.out
    assert "Does the answer say increases = true?" in done.out


def test_labelling_goes_on_where_it_stopped(run: Path) -> None:
    karenina("label", run, "--labeller", "ann", type="y\ny\nq\n")
    again = karenina("label", run, "--labeller", "ann", type="s\nwhat\nq\n")
    other = karenina("label", run, "--labeller", "ben", type="q\n")

    assert "1 of 59" in again.out
    assert "1 of 60" in other.out
    assert len(lines(labels_of(run), "draw")) == len(lines(labels_of(run), "label")) == 1


def test_the_end_of_the_input_stops(run: Path) -> None:
    done = karenina("label", run, "--labeller", "ann", type="y\ny\ny\n")

    assert done.code == 0
    assert "Stopped. All labels entered so far are saved." in done.err
    assert len(lines(labels_of(run), "label")) == 1


def test_the_verdict_is_shown_only_on_request(run: Path) -> None:
    blind = karenina("label", run, type="q\n")
    seen = karenina("label", run, "--show-verdict", "--labeller", "ann", type="y\ny\nq\n")

    assert "Verdict" not in blind.out
    assert "Verdict" in seen.out
    assert lines(labels_of(run), "label")[0]["blind"] is False


def test_the_draw_is_recorded_with_strata_and_seed(run: Path) -> None:
    karenina("label", run, "--seed", "7", type="q\n")

    (draw,) = lines(labels_of(run), "draw")
    sizes = {tuple(stratum["verdicts"]): (stratum["size"], stratum["drawn"]) for stratum in draw["strata"]}
    correct = sum(item.outcome is Outcome.CORRECT for item in errant_run())
    assert draw["seed"] == 7
    assert sizes[("correct",)][0] == correct
    assert sizes[("not correct",)][0] == 100 - correct
    assert sum(drawn for _, drawn in sizes.values()) == len(draw["items"]) == 60
    assert len(draw["digest"]) == 64


def test_a_seed_gives_the_same_draw_for_results_in_any_order(run: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other.results.jsonl", reversed(errant_run()))
    for file in (run, other):
        karenina("label", file, "--seed", "7", "--n", "20", type="q\n")

    (draw,), (same,) = lines(labels_of(run), "draw"), lines(tmp_path / "other.labels.jsonl", "draw")
    assert (draw["items"], draw["digest"]) == (same["items"], same["digest"])


def test_a_larger_draw_contains_the_smaller_one(run: Path) -> None:
    karenina("label", run, "--n", "20", type="y\ny\nq\n")
    done = karenina("label", run, "--n", "50", type="q\n")

    small, large = lines(labels_of(run), "draw")
    assert {item["item"] for item in small["items"]} < {item["item"] for item in large["items"]}
    assert (len(small["items"]), len(large["items"])) == (20, 50)
    assert "1 of 50 drawn answers are labelled" in done.err
    assert "a draw never shrinks" in karenina("label", run, "--n", "30", type="q\n").err


def test_every_kind_of_answer_gets_five_labels(tmp_path: Path) -> None:
    """Rare kinds are drawn too: judges that disagree, and answers that were not judged; three of a kind are merged."""
    results = [result(f"q{at}", True, judge=judge) for at in range(200) for judge in ("j", "k")]
    results += [result(f"d{at}", judge == "j", judge=judge) for at in range(8) for judge in ("j", "k")]
    results += [result(f"e{at}", None, judge=judge) for at in range(6) for judge in ("j", "k")]
    results += [result(f"w{at}", False, judge=judge) for at in range(3) for judge in ("j", "k")]
    results += [result("nothing", None, answer="")]
    run = save(tmp_path / "genes.results.jsonl", results)

    karenina("label", run, "--n", "30", type="q\n")

    (draw,) = lines(labels_of(run), "draw")
    sizes = {tuple(stratum["verdicts"]): (stratum["size"], stratum["drawn"]) for stratum in draw["strata"]}
    assert sizes[("judges disagree",)] == (8, 5)
    assert sizes[("not correct", "not judged")] == (9, 5)
    assert sizes[("correct",)] == (200, 20)


def test_a_sheet_is_filled_in_and_read(run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    written = karenina("label", run, "--sheet", sheet, "--seed", "1")
    fill_in(sheet)
    done = karenina("label", run, "--from", sheet, "--labeller", "ann")

    assert f"--from {sheet}" in written.err
    assert "60 labels were read" in done.err
    assert len(lines(labels_of(run), "label")) == 60
    assert "correct" not in sheet.read_text("utf-8")
    assert karenina("label", run, "--from", sheet, "--labeller", "ann").code == 0
    assert karenina("calibrate", run).code == 0


@pytest.mark.parametrize(("option", "name"), [("--sheet", "again.csv"), ("--page", "again.html")])
def test_a_sheet_of_labelled_answers_is_for_a_further_person(run: Path, tmp_path: Path, option: str, name: str) -> None:
    assert "another person" not in karenina("label", run, "--sheet", tmp_path / "sheet.csv").err
    fill_in(tmp_path / "sheet.csv")
    karenina("label", run, "--from", tmp_path / "sheet.csv", "--labeller", "ann")

    done = karenina("label", run, option, tmp_path / name)
    other = karenina("label", run, option, tmp_path / name, "--labeller", "ben")

    says = "60 answers to label, all of them already labelled by ann; another person can label them too"
    assert says in done.err
    assert "contains 60 answers to label" in other.err
    assert "another person" not in other.err


def test_notes_with_any_line_end_are_read_back(run: Path, tmp_path: Path) -> None:
    karenina("label", run, "--n", "20", type="q\n")
    (item, *_) = lines(labels_of(run), "draw")[0]["items"]
    sheet = tmp_path / "notes.csv"
    sheet.write_text(f"item,right,note\n{item['item']},yes,a\u2028b\x85c\n", "utf-8")

    karenina("label", run, "--from", sheet, "--labeller", "ann")
    done = karenina("label", run, "--labeller", "ann", type="q\n")

    assert done.code == 0, done.err
    assert "1 of 20 drawn answers are labelled" in done.err


def test_protected_cells_of_a_sheet_are_read_as_they_were(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", [result("=q1", True, model="-m"), result("=q1", True, model="n")])
    (tmp_path / "s.csv").write_text("question_id,answering_model,right,note\n'=q1,'-m,yes,'=1+1\n", "utf-8")
    done = karenina("label", run, "--from", tmp_path / "s.csv", "--labeller", "ann")

    assert done.code == 0, done.err
    (label,) = lines(labels_of(run), "label")
    assert label["note"] == "=1+1"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_sheet_that_a_spreadsheet_saved_otherwise_is_read(run: Path, tmp_path: Path, encoding: str) -> None:
    """Spreadsheets of many countries save CSV with semicolons; people write names of columns as they like."""
    karenina("label", run, "--n", "20", type="q\n")
    (item, *_) = lines(labels_of(run), "draw")[0]["items"]
    sheet = tmp_path / "notes.csv"
    sheet.write_text(f"Item;Right;Note\n{item['item']};Yes;clear\n", encoding)

    done = karenina("label", run, "--from", sheet, "--labeller", "ann")

    assert done.code == 0, done.err
    (label,) = lines(labels_of(run), "label")
    assert (label["right"], label["note"]) == (True, "clear")


def test_an_excel_sheet_is_filled_in_and_read(run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.xlsx"
    karenina("label", run, "--sheet", sheet, "--n", "10")
    book = load_workbook(sheet)
    page = book.active
    for row in page.iter_rows(min_row=2):
        row[3].value = True if row[1].value == "answer" else "unclear"
    book.save(sheet)
    done = karenina("label", run, "--from", sheet, "--labeller", "ann")

    assert done.code == 0, done.err
    assert {line["right"] for line in lines(labels_of(run), "label")} == {True}
    assert "10 of 10 drawn answers are labelled" in done.err


def test_answers_that_look_like_formulas_are_texts(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", [result(f"q{at}", True, answer="=1+1\ufffe") for at in range(9)])
    karenina("label", run, "--sheet", tmp_path / "sheet.csv")
    karenina("label", run, "--sheet", tmp_path / "sheet.xlsx")

    assert ",'=1+1\ufffe," in (tmp_path / "sheet.csv").read_text("utf-8")
    page = load_workbook(tmp_path / "sheet.xlsx").active
    assert page is not None
    assert {cell.data_type for cell in page["H"]} == {"s"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("item,asked,right\n{item},answer,perhaps\n", "line 2: expected yes, no or unclear, got 'perhaps'"),
        ("question,right\nx,yes\n", "the sheet needs an `item` or `question_id` column"),
        ("id,question,answer\nq,Which gene?,BCL2\n", "is not a label sheet; a label sheet needs a `right` column"),
        (
            "item,asked,right\n{item},gene,yes\n",
            "the `asked` column must be `answer`, `field NAME` or `trait NAME`, not 'gene'",
        ),
        (
            "item,right,labeller\n{item},yes,ann\n{item},no,bob\n{item},yes,ann\n{item},unclear,bob\n",
            "line 5: the label contradicts that of bob for the same answer at",
        ),
        (
            "item,asked,value,right\n{item},field a,x,yes\n{item},field a,y,no\n{item},field a,x,no\n",
            "line 4: the label contradicts that of",
        ),
        ("item,asked,own\n{item},field a,x\n{item},field a,y\n", "line 3: the label contradicts that of"),
        ("item,right,human_label\n{item},yes,no\n", "line 2: the label contradicts that of"),
        (
            "item,right,annotator\n{item},yes,ann\n{item},yes,bob\n",
            "line 3: the answer has labels of 'ann' and 'bob' in the column 'annotator'; rename the column `labeller`",
        ),
    ],
)
def test_a_wrong_sheet_is_an_error_with_its_row(run: Path, tmp_path: Path, text: str, problem: str) -> None:
    karenina("label", run, type="q\n")
    item = lines(labels_of(run), "draw")[0]["items"][0]["item"]
    sheet = tmp_path / "bad.csv"
    sheet.write_text(text.format(item=item), "utf-8")

    done = karenina("label", run, "--from", sheet)

    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize(
    ("judged", "own", "is_right"),
    [
        ({"gene": "5"}, "5", True),
        ({"gene": "5"}, "6", False),
        ({"gene": "true"}, "true", True),
        ({"gene": ["a", "b"]}, '["a", "b"]', True),
        ({"gene": True}, "TRUE", True),
        ({"gene": 1}, "true", False),
        ({"gene": 5}, "5.0", True),
        ({"gene": "BCL2"}, '"BCL2"', True),
    ],
)
def test_own_values_are_compared_as_values(tmp_path: Path, judged: dict[str, object], own: str, is_right: bool) -> None:
    template = result("q", True).template.model_copy(update={"parsed_llm_response": judged})
    run = save(tmp_path / "run.results.jsonl", [result("q", True).model_copy(update={"template": template})])
    with (tmp_path / "own.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["question_id", "asked", "own"], ["q", "field gene", own]])

    (gene,) = calibrate(run, tmp_path / "own.csv").values

    assert gene.agreement.value == is_right


def test_long_answers_are_cut_with_a_warning(tmp_path: Path) -> None:
    results = [result(f"q{at}", True, answer="word " * 10_000) for at in range(3)]
    run = save(tmp_path / "genes.results.jsonl", results)

    assert (
        "3 answers were truncated to fit into a cell" in karenina("label", run, "--sheet", tmp_path / "sheet.xlsx").err
    )
    assert "Warning" not in karenina("label", run, "--sheet", tmp_path / "sheet.csv").err
    shown = " ".join(karenina("label", run, type="q\n", width=100).out.split())
    assert "more characters; the labelling page shows the whole answer" in shown


def test_labels_of_equal_answers_are_taken_over(run: Path, tmp_path: Path) -> None:
    """Another judge on the same answers: the draw comes first, and drawn answers with a label need no new one."""
    sheet = tmp_path / "sheet.csv"
    karenina("label", run, "--sheet", sheet, "--n", "100")
    fill_in(sheet)
    karenina("label", run, "--from", sheet, "--labeller", "ann")
    second = save(tmp_path / "second.results.jsonl", errant_run(120, judge="k"))

    done = karenina("label", second, "--n", "40", "--from", labels_of(run))

    drawn = {item["item"] for item in lines(tmp_path / "second.labels.jsonl", "draw")[0]["items"]}
    labelled = {line["item"] for line in lines(labels_of(run), "label")}
    assert "100 labels were read" in done.err
    assert f"{len(drawn & labelled)} of 40 drawn answers are labelled" in done.err
    assert 25 < len(drawn & labelled) < 40


def test_changed_results_are_refused(run: Path) -> None:
    # A chance draw may begin with an item that the second run does not have.
    karenina("label", run, "--seed", "1", type="y\ny\nq\n")
    save(run, errant_run(99))

    done = karenina("label", run, type="q\n")

    assert done.code == 2
    assert "was made from other results" in done.err
    again = karenina("label", run, "--redraw", "--n", "99", "--seed", "1", type="q\n")
    assert "The earlier labels are kept in" in again.err
    assert len(lines(labels_of(run), "draw")) == 1
    assert len(lines(run.with_name("genes.labels-1.jsonl"), "label")) == 1
    assert "1 of 99 drawn answers are labelled" in again.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--seed", "2"), "contains a draw by verdict with seed 1"),
        (("--simple-random",), "contains a draw by verdict with seed 1"),
        (("--sheet", "labels.txt"), "must have the file extension .csv or .xlsx"),
        (("--sheet", "labels.csv", "--show-verdict"), "a sheet never shows verdicts"),
        (("--labeller", " "), "--labeller is empty"),
    ],
)
def test_what_cannot_be_done_is_an_error(run: Path, arguments: tuple[str, ...], problem: str) -> None:
    karenina("label", run, "--seed", "1", type="q\n")

    done = karenina("label", run, *arguments)

    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2 is not a label: the JSON is incomplete; remove the line"),
        ('{"label": {"item": "x"}}', "line 2 is not a valid label (labeller: Field required)"),
        ('{"metadata": {}}', "is neither a draw nor a label"),
        ('{"draw": {"format": 9}}', "was written by a different version"),
    ],
)
def test_a_damaged_file_of_labels_is_an_error(run: Path, line: str, problem: str) -> None:
    karenina("label", run, type="q\n")
    with labels_of(run).open("a", encoding="utf-8") as file:
        file.write(line + "\n")

    done = karenina("calibrate", run)

    assert done.code == 2
    assert problem in done.err


def test_results_without_an_answer_cannot_be_labelled(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", [result("q", None, answer="")])

    done = karenina("label", run)

    assert done.code == 2
    assert "no answers that could be labelled" in done.err


def test_numbers_that_a_table_stores_with_a_point_are_labels(run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "floats.csv"
    sheet.write_text("question_id,right\nq0,1.0\nq1,0.0\nq2,\n", "utf-8")

    assert karenina("label", run, "--from", sheet, "--labeller", "ann").code == 0
    assert [label["right"] for label in lines(labels_of(run), "label")] == [True, False]
