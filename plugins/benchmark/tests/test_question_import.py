"""Rows of a table are imported as questions."""

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError


def written(path, text):
    path.write_text(text, "utf-8")
    return path


def test_rows_become_questions(tmp_path):
    file = written(tmp_path / "t.csv", "text,gold,nr,tags,level\nWho?,Ann,7,a; b;,3\nWhy?,,8,,\n")
    benchmark = Benchmark.create("b")
    added = benchmark.import_questions(
        file, {"question": "text", "raw_answer": "gold", "id": "nr", "keywords": "tags", "metadata": ["level"]}
    )
    first, second = benchmark
    assert added == [first, second]
    assert (first.id, first.raw_answer, first.keywords, first.metadata) == ("7", "Ann", ("a", "b"), {"level": "3"})
    assert (second.id, second.raw_answer, second.keywords) == ("8", None, ())


def test_columns_named_like_fields_need_no_map(tmp_path):
    file = written(tmp_path / "t.jsonl", '{"question": "Who?", "keywords": ["a"], "other": 1}\n')
    (question,) = Benchmark.create("b").import_questions(file)
    assert (question.question, question.keywords) == ("Who?", ("a",))


@pytest.mark.parametrize(
    ("answer_template", "expected"),
    [("class Answer: ...", "class Answer: ..."), (lambda row: f"# {row['gold']}", "# Ann")],
    ids=["source", "function"],
)
def test_a_template_is_source_or_a_function(tmp_path, answer_template, expected):
    file = written(tmp_path / "t.csv", "question,gold\nWho?,Ann\n")
    (question,) = Benchmark.create("b").import_questions(file, answer_template=answer_template)
    assert question.answer_template == expected


def test_a_declared_template_takes_values_from_the_row(tmp_path):
    file = written(tmp_path / "t.csv", "question,year\nWhen?,1985\n")
    answer = {"year": {"type": "int", "description": "d", "ground_truth": {"column": "year"}}}
    (question,) = Benchmark.create("b").import_questions(file, answer=answer)
    assert "ground_truth=1985," in question.answer_template


REFUSED = [
    ("q,a\nWho?,x\n,y\n", {"question": "q"}, "line 3: the column 'q' is empty"),
    ("q,a\nWho?,x\n", {"question": "Q"}, "no column 'Q'; use one of its columns: q, a"),
    ("q,a\nWho?,x\n", {"question": "q", "raw_anwser": "a"}, "did you mean 'raw_answer'?"),
    ("q,a\nWho?,x\n", {"raw_answer": "a"}, "no column is mapped to `question`"),
    ("q,a\nWho?,x\nWho?,y\n", {"question": "q"}, "line 3: the question in line 2 has the same text"),
    ("q,a\nWho?,x\nOld?,y\n", {"question": "q", "id": "a"}, "two questions have the id 'y'"),
]


@pytest.mark.parametrize(("text", "columns", "said"), REFUSED, ids=[case[2] for case in REFUSED])
def test_all_rows_are_imported_or_none(tmp_path, text, columns, said):
    benchmark = Benchmark.create("b")
    benchmark.add_question("Old?", question_id="y")
    with pytest.raises(BenchmarkFileError) as caught:
        benchmark.import_questions(written(tmp_path / "t.csv", text), columns)
    assert said in str(caught.value)
    assert len(benchmark) == 1


def test_importing_the_package_loads_no_reader():
    import subprocess
    import sys

    code = "import sys, karenina_benchmark; print([n for n in ('yaml', 'openpyxl', 'regex') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
