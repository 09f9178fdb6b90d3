"""Two benchmarks are equal if their files would be equal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark
from karenina_core.data.rubrics import RegexRubricTrait, Rubric
from karenina_template.templates import BaseAnswer, ExactMatch, VerifiedField

FILES = {
    "genes.yaml": """karenina: 1
name: Genes
workspace_root: tasks
config: {replicate_count: 2}
rubric: [{name: doi, type: regex, pattern: doi}]
questions:
  - question: Which gene?
    answer: {gene: {description: The gene, ground_truth: BCL2}}
""",
    "genes.jsonl": '{"question": "Which gene?", "raw_answer": "BCL2", "metadata": {"level": 3}}\n',
    "genes.ndjson": '{"karenina": 1, "version": "2"}\n{"question": "Which gene?"}\n',
    "genes.csv": "question,answer\nWhich gene?,BCL2\n",
}


class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())


def genes() -> Benchmark:
    benchmark = Benchmark.create("Genes")
    benchmark.global_rubric = Rubric(regex_traits=[RegexRubricTrait(name="doi", pattern="doi")])
    benchmark.add_question("Which gene?", "BCL2", Answer, question_id="q")
    return benchmark


@pytest.mark.parametrize("name", FILES)
def test_equal_files_make_equal_benchmarks(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / name, tmp_path / "elsewhere" / f"other-{name}"
    second.parent.mkdir()
    first.write_text(FILES[name], "utf-8")
    shutil.copy(first, second)
    assert Benchmark.load(first) == Benchmark.load(first) == Benchmark.load(second)


@pytest.mark.parametrize("name", ["genes.yaml", "genes.jsonld", "genes.jsonl"])
def test_a_saved_benchmark_equals_the_one_that_was_saved(name: str, tmp_path: Path) -> None:
    benchmark = genes()
    benchmark.save(tmp_path / name)
    assert Benchmark.load(tmp_path / name) == benchmark


@pytest.mark.parametrize("name", ["genes.csv", "genes.jsonl"])
def test_a_changed_name_is_compared(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name], "utf-8")
    first, second = Benchmark.load(tmp_path / name), Benchmark.load(tmp_path / name)
    second.name = "Other"
    assert first != second


def test_different_templates_are_not_equal(tmp_path: Path) -> None:
    genes().save(tmp_path / "genes.yaml")
    first, second = Benchmark.load(tmp_path / "genes.yaml"), (tmp_path / "genes.yaml").read_text("utf-8")
    (tmp_path / "other.yaml").write_text(second.replace("BCL2", "TP53"), "utf-8")
    assert Benchmark.load(tmp_path / "other.yaml") != first
