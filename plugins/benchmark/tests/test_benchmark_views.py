"""A benchmark at the Python prompt and in notebooks."""

from __future__ import annotations

from pathlib import Path

from shown_html import HOSTILE, ShownHTML

from karenina_benchmark import Benchmark
from karenina_core.data.rubrics import RegexRubricTrait, Rubric

TRAIT = RegexRubricTrait(name="polite", pattern="please")


def test_a_notebook_shows_the_first_questions() -> None:
    benchmark = Benchmark.create("Genes", description="Targets of drugs")
    benchmark.global_rubric = Rubric.of(TRAIT)
    for number in range(30):
        benchmark.add_question(f"Which gene is number {number}?", "BCL2", question_id=f"q{number}", keywords=["cancer"])

    seen = ShownHTML(benchmark._repr_html_())

    assert repr(benchmark) == "<Benchmark 'Genes', 30 questions>"
    assert seen.tags.count("tr") == 3 + 1 + 20
    for text in ("Genes: 30 questions", "Targets of drugs", "polite", "Which gene is number 19?", "BCL2", "cancer"):
        assert text in seen.text
    assert "The table shows the first 20 of 30 questions." in seen.text


def test_hostile_texts_of_a_benchmark_are_shown_as_text() -> None:
    text = HOSTILE.replace("\ud800", "") * 500
    benchmark = Benchmark.create(text, description=text)
    for number in range(50):
        benchmark.add_question(f"{text}{number}", text, question_id=f"{number}{text}", keywords=[text])

    html = benchmark._repr_html_()

    assert "<script>alert(1)</script>" in ShownHTML(html).text
    assert len(html) < 60_000
    assert len(repr(benchmark)) < 1_500


def test_a_template_of_a_file_is_not_loaded_to_show_it(tmp_path: Path) -> None:
    benchmark = Benchmark.create("Genes")
    benchmark.add_question("Which?", answer_template="raise SystemExit", question_id="q")

    assert "yes" in ShownHTML(benchmark._repr_html_()).text


def test_a_streamed_question_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "genes.jsonl"
    file.write_text('{"id": "a", "question": "Which?"}\n{"id": "b", "question": "Who?"}\n', "utf-8")
    benchmark = Benchmark.load(file)
    file.write_text('{"id": "a", "question": "Which?"}\n{"id": "b", "queston": "Who?"}\n', "utf-8")

    assert "b" in ShownHTML(benchmark._repr_html_()).text
