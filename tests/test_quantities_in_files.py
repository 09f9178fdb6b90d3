"""Quantities in files: the type of a field in YAML, an answer type in tables, and imports."""

from __future__ import annotations

import os
from pathlib import Path

import preloaded
import pytest
from loaded_files import load, template_of

from karenina_benchmark import Benchmark, BenchmarkFileError

HEAD = "karenina: 1\nname: doses\nquestions:\n  - question: How long is the half-life?\n    answer:\n      time: "


@pytest.mark.parametrize("name", ["b.yaml", "b.jsonld", "b.jsonl"])
def test_a_field_of_type_quantity_survives_each_format(name: str, tmp_path: Path) -> None:
    declared = "{type: quantity, description: The time, ground_truth: 40 h, verify_with: {relative: 0.05}}\n"
    benchmark = load(tmp_path, "a.yaml", HEAD + declared)
    benchmark.save(tmp_path / name)

    assert "verify_with=Quantity(relative=0.05)" in template_of(benchmark)
    assert template_of(Benchmark.load(tmp_path / name)) == template_of(benchmark)


def test_a_number_stays_as_it_is_written(tmp_path: Path) -> None:
    declared = "{type: quantity, description: The pH, ground_truth: 7.40}\n"

    assert "ground_truth='7.40'" in template_of(load(tmp_path, "a.yaml", HEAD + declared))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("{type: quantity, description: x, ground_truth: soon}", "one number"),
        ("{type: quantity, description: x, ground_truth: 5 mg, verify_with: {unit: flurb}}", "flurb"),
        ("{type: quantty, description: x, ground_truth: 5 mg}", "unknown type 'quantty'"),
    ],
)
def test_a_quantity_that_cannot_be_read_is_refused(declared: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match=message):
        load(tmp_path, "a.yaml", f"{HEAD}{declared}\n").check()


@pytest.mark.parametrize("kind", ["{type: quantity, ", "{type: str, verify_with: NumberWithUnit, "])
@pytest.mark.parametrize(
    ("truth", "meanings"),
    [
        ("8 oz", "'oz' of the ground truth '8 oz' of field 'time' may mean ounce, fluid ounce or troy ounce"),
        (
            "10 Gallons",
            "'Gallons' of the ground truth '10 Gallons' of field 'time' may mean US gallon or",
        ),
        ("5 tons", "may mean tonne, short ton or long ton"),
        ("250 calories", "may mean calorie or kilocalorie"),
        ("10 US gallons", None),
        ("250 Cal", None),
        ("5 cal/mol", None),
        ("5 mg", None),
    ],
)
def test_check_warns_of_a_unit_with_several_meanings(
    kind: str, truth: str, meanings: str | None, tmp_path: Path
) -> None:
    declared = f"{kind}description: How much is there, ground_truth: {truth}}}\n"
    warnings = [problem.what for problem in load(tmp_path, "a.yaml", HEAD + declared).check().warnings]

    assert bool(warnings) is (meanings is not None), warnings
    assert meanings is None or any(meanings in warning for warning in warnings), warnings


def test_check_warns_once_of_a_unit_in_many_ground_truths(tmp_path: Path) -> None:
    rows = "".join(f"How heavy is can {at}?,{at} {unit}\n" for at, unit in enumerate(("oz", "ounces", "gal", "oz"), 1))
    warnings = [str(problem.what) for problem in load(tmp_path, "a.csv", f"question,answer\n{rows}").check().warnings]

    assert [warning.partition(" of the")[0] for warning in warnings if "may mean" in warning] == [
        "the unit 'oz'",
        "the unit 'gal'",
    ]


def test_a_table_names_the_type_of_its_answers(tmp_path: Path) -> None:
    rows = 'question,answer,type\nHow long?,40 h,quantity\nHow heavy in mg?,"1,5 mg",quantity\n'
    benchmark = load(tmp_path, "a.csv", rows)

    assert ["Quantity(" in (question.answer_template or "") for question in benchmark] == [True, True]
    with pytest.raises(BenchmarkFileError, match="'soon' is not of type 'quantity'"):
        load(tmp_path, "b.csv", "question,answer,type\nHow long?,soon,quantity\n")


def test_a_table_whose_question_names_the_unit_has_quantities(tmp_path: Path) -> None:
    benchmark = load(tmp_path, "a.csv", "question,answer\nHow long is it in hours?,40 h\nHow heavy is it?,5 mg\n")

    assert ["Quantity(unit='hours')" in (question.answer_template or "") for question in benchmark] == [True, False]


def test_an_import_maps_answers_to_quantities(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "How long?", "target": "40 h"}\n', "utf-8")
    command = ["import", "rows.jsonl", "-o", "out.yaml", "--map", "answer=quantity"]
    maps = ["--map", "question=question", "--map", "raw_answer=target"]
    preloaded.run([*command, *maps], folder=tmp_path, environment=os.environ, timeout=120).check_returncode()

    assert "Quantity()" in template_of(Benchmark.load(tmp_path / "out.yaml"))
