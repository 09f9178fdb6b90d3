"""The JSON lines format: questions are read from the file one at a time."""

import gc
import json
import weakref
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_core.config import VerificationConfig
from karenina_core.data.rubrics import RegexRubricTrait, Rubric
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_engine.check import questions as run_questions
from karenina_engine.check.questions import select_questions
from karenina_template.question_template import template_of, template_source_of

GENE = {
    "id": "gene",
    "question": "Which gene?",
    "raw_answer": "BCL2",
    "answer": {"gene": {"description": "The gene that is named", "ground_truth": "BCL2"}},
}
YEAR = {"id": "year", "question": "Which year?", "raw_answer": 1985, "keywords": "history", "metadata": {"level": 3}}


def written(folder: Path, *lines: object, name: str = "genes.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return file


def test_lines_have_the_keys_of_yaml_questions(tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, GENE, YEAR))
    assert benchmark.name == "genes"
    assert benchmark.ids == ("gene", "year")
    gene, year = benchmark
    assert gene.raw_answer == "BCL2"
    assert "ground_truth='BCL2'" in (template_source_of(gene) or "")
    assert (year.raw_answer, year.keywords, year.metadata) == ("1985", ("history",), {"level": 3})


def test_the_first_line_may_hold_shared_values(tmp_path: Path) -> None:
    trait = {"type": "regex", "name": "cites", "pattern": "doi"}
    head = {"karenina": 1, "name": "Genes", "version": "2", "config": {"replicate_count": 2}, "rubric": [trait]}
    benchmark = Benchmark.load(written(tmp_path, head, GENE))
    assert (benchmark.name, benchmark.version, benchmark.run_config) == ("Genes", "2", {"replicate_count": 2})
    assert benchmark.rubric_for(benchmark.get("gene")) == Rubric.of(RegexRubricTrait(name="cites", pattern="doi"))


def test_a_benchmark_is_equal_in_every_format(tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, {"karenina": 1, "name": "Genes", "id": "urn:genes"}, GENE, YEAR))
    for name in ("again.jsonl", "genes.yaml", "genes.jsonld"):
        benchmark.save(tmp_path / name)
        assert Benchmark.load(tmp_path / name) == benchmark


def test_questions_are_built_on_access_and_released(tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, GENE, YEAR))
    held = weakref.ref(benchmark.get("gene"))
    gc.collect()
    assert benchmark.streamed
    assert held() is None


def test_changes_stay_in_memory(tmp_path: Path) -> None:
    file = written(tmp_path, GENE, YEAR)
    before = file.read_bytes()
    benchmark = Benchmark.load(file)
    benchmark.replace(benchmark.get("gene").changed(raw_answer="MCL1"))
    benchmark.add_question("Which cell?", question_id="cell")
    benchmark.remove("year")
    assert [(question.id, question.raw_answer) for question in benchmark] == [("gene", "MCL1"), ("cell", None)]
    assert file.read_bytes() == before


def test_a_file_can_be_saved_over_itself(tmp_path: Path) -> None:
    file = written(tmp_path, GENE, YEAR)
    benchmark = Benchmark.load(file)
    benchmark.remove("gene")
    benchmark.save(file)
    assert Benchmark.load(file).ids == ("year",)
    assert benchmark.get("year").raw_answer == "1985"


def test_byte_order_marks_blank_lines_and_carriage_returns_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "genes.ndjson"
    file.write_bytes(b"\xef\xbb\xbf" + f"{json.dumps(GENE)}\r\n\r\n{json.dumps(YEAR)}".encode())
    assert [question.id for question in Benchmark.load(file)] == ["gene", "year"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"question": ', "line 2, column"),
        ("[1]", "line 2: expected a JSON object, got a value of type list"),
        ('{"question": "A?", "question": "B?"}', "the key 'question' appears more than once"),
        ('{"question": "A?", "raw_answer": NaN}', "NaN is not valid in JSON"),
        ('{"text": "A?"}', "line 2: the line has no question"),
        ({**YEAR, "id": "gene"}, "line 2: the question in line 1 has the same id 'gene'"),
        ({"karenina": 1}, "line 2: the key `karenina` is allowed only on the first line"),
        ({"question": ["A?"]}, "line 2: 'question' must be a string, not a list"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: object, words: str) -> None:
    file = written(tmp_path, GENE, line)
    with pytest.raises(BenchmarkFileError) as caught:
        Benchmark.load(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({**YEAR, "raw_anser": 1}, "line 2: unknown key 'raw_anser'; did you mean 'raw_answer'?"),
        ({**YEAR, "rubric": [{"type": "regex"}]}, "line 2: rubric: "),
        ({**YEAR, "answer": {"year": {"description": "It"}}}, "line 2: the field 'year' has no 'ground_truth'"),
        ({**YEAR, "answer": {"year": {"description": "It", "ground_truth": 1, "verify_with": "Exakt"}}}, "line 2: "),
    ],
)
def test_errors_inside_a_question_are_raised_on_access(tmp_path: Path, line: object, words: str) -> None:
    benchmark = Benchmark.load(written(tmp_path, GENE, line))
    with pytest.raises(BenchmarkFileError) as caught:
        list(benchmark)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"karenina": 2}, "line 1: the file has format version 2"),
        ({"karenina": 1, "questions": []}, "line 1: unknown key 'questions'"),
    ],
)
def test_the_first_line_is_checked(tmp_path: Path, head: object, words: str) -> None:
    with pytest.raises(BenchmarkFileError, match="line 1") as caught:
        Benchmark.load(written(tmp_path, head, GENE))
    assert words in str(caught.value)


def test_empty_missing_and_wrongly_encoded_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="the file is empty"):
        Benchmark.load(written(tmp_path))
    with pytest.raises(BenchmarkFileError, match="the file does not exist"):
        Benchmark.load(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "\xe9?"}')
    with pytest.raises(BenchmarkFileError, match="line 1, byte 14: the text is not valid UTF-8"):
        Benchmark.load(tmp_path / "latin.jsonl")


def test_a_file_that_changes_after_loading_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, GENE, YEAR)
    benchmark = Benchmark.load(file)
    with file.open("r+b") as out:
        out.write(b"x" * 30)
    with pytest.raises(BenchmarkFileError, match="line 1: the question 'gene' cannot be read again"):
        benchmark.get("gene")


def test_a_missing_id_is_made_of_position_and_words(tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, GENE, {"question": "Which gene?"}, {"question": "Which gene?"}))
    assert benchmark.ids[1:] == ("q2-which-gene", "q3-which-gene")
    assert [question.id for question in benchmark] == list(benchmark.ids)


def test_a_declared_template_needs_no_trust_and_is_loaded_once(tmp_path: Path) -> None:
    question = Benchmark.load(written(tmp_path, GENE)).get("gene")
    assert template_of(question) is template_of(question, Trust.all())


def test_streamed_questions_of_a_run_have_the_shared_traits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_questions, "MAX_IN_MEMORY", 0)
    head = {"karenina": 1, "rubric": [{"type": "regex", "name": "cites", "pattern": "doi"}]}
    benchmark = Benchmark.load(written(tmp_path, head, GENE, YEAR))
    chosen = select_questions(benchmark, VerificationConfig(), ["year"])
    assert [question.trait_names() for question in chosen] == [("cites",)]
    assert chosen[0] is not chosen[0]
    with pytest.raises(ConfigError, match="did you mean 'year'"):
        select_questions(benchmark, VerificationConfig(), ["yeer"])


def test_many_questions_are_kept_in_memory_only_of_small_files(tmp_path: Path) -> None:
    lines = [{"id": f"q{number}", "question": "Which gene?"} for number in range(501)]
    small = select_questions(Benchmark.load(written(tmp_path, *lines)), VerificationConfig())
    large = [{**line, "raw_answer": "x" * 16_000} for line in lines]
    streamed = select_questions(Benchmark.load(written(tmp_path, *large, name="large.jsonl")), VerificationConfig())

    assert small[0] is small[0]
    assert streamed[0] is not streamed[0]


def test_questions_of_a_deleted_file_are_still_selected(tmp_path: Path) -> None:
    file = written(tmp_path, GENE, YEAR)
    benchmark = Benchmark.load(file)
    file.unlink()

    assert [question.id for question in select_questions(benchmark, VerificationConfig())] == ["gene", "year"]


def test_words_are_found_in_every_part_of_a_large_file(tmp_path: Path) -> None:
    long = "x" * 20_000
    lines = [{"id": f"q{number}", "question": f"Which gene? {long}"} for number in range(30)]
    for number in (0, 3, 29):
        lines[number]["question"] += " callable"
    hidden = [
        json.dumps(line).replace("Which", "\\u0063allable which") if line["id"] == "q17" else line for line in lines
    ]
    benchmark = Benchmark.load(written(tmp_path, *hidden))
    benchmark.replace(benchmark.get("q5").changed(question="Which year?"))
    benchmark.remove("q29")

    found = [question.id for question in benchmark.questions_mentioning(["callable"])]

    assert found == ["q0", "q3", "q5", "q17"]
