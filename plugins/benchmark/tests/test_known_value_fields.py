"""Fields with `from` in files: every format keeps the source, infers the type, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karenina_benchmark import Benchmark
from karenina_benchmark.checking import check_file
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_template.question_template import template_of
from karenina_template.templates import BaseAnswer, NumericMaximum, VerifiedField

YAML = """\
karenina: 1
name: Orders
questions:
  - id: q1
    question: Return W12.
    answer:
      gene: {description: The gene that is named, ground_truth: BCL2}
      steps: {from: trace.steps, ground_truth: 8, verify_with: {type: NumericMaximum}}
      tools: {from: trace.tools, ground_truth: []}
"""
SOURCES = {"steps": "trace.steps", "tools": "trace.tools"}


class Answer(BaseAnswer):
    steps: int = VerifiedField(ground_truth=8, verify_with=NumericMaximum(), source="trace.steps")


def sources(benchmark: Benchmark, id: str = "q1") -> dict[str, str]:
    template = template_of(benchmark.get(id))
    assert template is not None
    return template.key.sources()


def written(tmp_path: Path, text: str = YAML) -> Benchmark:
    file = tmp_path / "orders.yaml"
    file.write_text(text, "utf-8")
    return Benchmark.load(file)


def test_every_format_keeps_the_source_of_a_field(tmp_path: Path) -> None:
    benchmark = written(tmp_path)
    for name in ("one.jsonld", "two.jsonl", "three.yaml"):
        benchmark.save(tmp_path / name)
        again = Benchmark.load(tmp_path / name)

        assert sources(again) == SOURCES, name
        assert list(again) == list(benchmark), name
        benchmark = again


def test_a_python_class_keeps_the_source_in_files(tmp_path: Path) -> None:
    benchmark = Benchmark("Orders")
    benchmark.add_question("Return W12.", answer_template=Answer, question_id="q1")
    benchmark.save(tmp_path / "orders.yaml")

    assert sources(Benchmark.load(tmp_path / "orders.yaml")) == sources(benchmark) == {"steps": "trace.steps"}


def test_rows_of_a_table_share_a_source(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("q,most\nFirst?,3\nSecond?,5\n", "utf-8")
    benchmark = written(
        tmp_path,
        "karenina: 1\nname: Rows\nquestions_from:\n  - file: rows.csv\n    columns: {question: q}\n    answer:\n"
        "      steps: {from: trace.steps, ground_truth: {column: most}, verify_with: NumericMaximum}\n",
    )
    templates = [template_of(question) for question in benchmark]

    assert [one.key.sources() for one in templates if one is not None] == [{"steps": "trace.steps"}] * 2
    assert [one.key.truths() for one in templates if one is not None] == [{"steps": 3}, {"steps": 5}]


@pytest.mark.parametrize(
    ("source", "truth", "annotation"),
    [
        ("trace.steps", 8, "int"),
        ("answer.cost", 1, "float"),
        ("trace.tools", [], "list[str]"),
        ("answer.text", 1.5, "str"),
        ("trace.arguments.refund.order", ["W12"], "list[str]"),
        ("trace.arguments.refund.order", [{"a": 1}], "list"),
        ("my_package.unknown", True, "bool"),
        ("my_package.unknown", {"a": 1}, "object"),
    ],
)
def test_the_known_value_decides_the_type_of_a_field(source: str, truth: object, annotation: str) -> None:
    text = make_template_source({"f": {"from": source, "ground_truth": truth, "verify_with": "ExactMatch"}})

    assert f"    f: {annotation} = VerifiedField(\n        source={source!r},\n" in text
    assert "description" not in text


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"from": 3, "ground_truth": 8}, "`from` must be the name of a known value"),
        ({"from": "trace.steps"}, "has no 'ground_truth'"),
        ({"from": "trace.steps", "type": "list", "ground_truth": []}, "unknown type 'list'"),
        ({"form": "trace.steps", "ground_truth": 8}, "unknown key 'form'; did you mean 'from'?"),
    ],
)
def test_a_field_that_cannot_work_is_refused(declared: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=says.replace("?", r"\?")):
        make_template_source({"f": declared})


def test_numbers_that_are_compared_as_text_stay_as_written(tmp_path: Path) -> None:
    text = YAML.replace("{from: trace.tools, ground_truth: []}", "{from: answer.text, ground_truth: 1.10}")
    template = template_of(written(tmp_path, text).get("q1"))

    assert template is not None
    assert template.key.rules["tools"].truth == "1.10"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        (
            "trace.steps",
            "trace.stps",
            8,
            "the known value 'trace.stps', which no plugin offers; did you mean 'trace.steps'?",
        ),
        (
            "trace.tools",
            "my_package.x",
            9,
            "which no installed plugin offers: pip install my-package (if this is its plugin)",
        ),
        (
            "{from: trace.steps, ground_truth: 8",
            "{type: bool, from: trace.steps, ground_truth: true",
            8,
            "whose type is int",
        ),
    ],
)
def test_check_knows_known_values(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    text = YAML.replace(old, new)
    file = tmp_path / "orders.yaml"
    file.write_text(text.replace("NumericMaximum", "BooleanMatch") if "bool" in new else text, "utf-8")
    findings = [one for one in check_file(file)[1].findings if one.level == "error"]

    assert any(says in one.what for one in findings), findings
    assert any(f"line {line}" in one.where for one in findings), findings


def test_a_file_with_known_values_passes_the_check(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(YAML, "utf-8")

    assert [one for one in check_file(file)[1].findings if one.level in ("error", "warning")] == []


@pytest.mark.parametrize("option", ["turn: 2", "missing_turn: wrong"])
def test_check_refuses_a_turn_of_a_known_value(tmp_path: Path, option: str) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(YAML.replace("from: trace.steps,", f"from: trace.steps, {option},"), "utf-8")
    name = option.partition(":")[0]
    (error,) = [one for one in check_file(file)[1].findings if one.level == "error"]

    assert f"{name} has no effect on a field that trace.steps fills" in error.what
    assert f"remove {name}" in error.what
    assert "line 8" in error.where


def test_a_table_refuses_a_turn_of_a_known_value(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("q,most\nFirst?,3\nSecond?,5\n", "utf-8")
    file = tmp_path / "rows.yaml"
    file.write_text(
        "karenina: 1\nname: Rows\nquestions_from:\n  - file: rows.csv\n    columns: {question: q}\n    answer:\n"
        "      steps: {from: trace.steps, turn: 1, ground_truth: {column: most}, verify_with: NumericMaximum}\n",
        "utf-8",
    )
    errors = [one for one in check_file(file)[1].findings if one.level == "error"]

    assert [("turn has no effect" in one.what) for one in errors] == [True, True]
