"""Tables of questions: CSV, Excel and JSONL, with a column map."""

import builtins
import datetime

import openpyxl
import pytest

from karenina_benchmark import Benchmark, CheckpointError
from karenina_benchmark.table_reader import read_rows


def excel(path, *rows, title="Sheet"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "q,a\nWhô?,Ann\n",
        "q;a\nWhô?;Ann\n",
        "q\ta\nWhô?\tAnn\n",
        '"q","a"\r\n"Whô?","Ann"\r\n,\r\n',
        "\ufeffq,a\nWhô?,Ann",
    ],
)
def test_csv_of_any_common_sort(tmp_path, text):
    table = read_rows(written(tmp_path / "t.csv", text))
    assert table.columns == ("q", "a")
    assert [dict(row.values) for row in table.rows] == [{"q": "Whô?", "a": "Ann"}]


def test_cells_with_delimiters_quotes_and_line_breaks(tmp_path):
    table = read_rows(written(tmp_path / "t.csv", 'q,a\n"a, ""b""\nc",d\ne,f\n'))
    assert [(row.line, row.values["q"]) for row in table.rows] == [(3, 'a, "b"\nc'), (4, "e")]


def test_excel_gives_numbers_and_dates_as_json_values(tmp_path):
    file = excel(tmp_path / "t.xlsx", ["q", "n", "x", "d"], ["Who?", 3.0, 0.5, datetime.datetime(1999, 1, 2)], [None])
    assert [dict(row.values) for row in read_rows(file).rows] == [{"q": "Who?", "n": 3, "x": 0.5, "d": "1999-01-02"}]


def test_a_sheet_is_chosen_by_name(tmp_path):
    file = excel(tmp_path / "t.xlsx", ["q"], ["Who?"], title="Questions")
    assert len(read_rows(file, "Questions").rows) == 1
    with pytest.raises(CheckpointError, match=r"no sheet 'Other'; it has Questions"):
        read_rows(file, "Other")


def test_excel_without_openpyxl_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CheckpointError, match=r'pip install "karenina-benchmark\[excel\]"'):
        read_rows(tmp_path / "t.xlsx")


WRONG = [
    ("t.csv", "", "the file is empty"),
    ("t.csv", "q,q\n1,2\n", "two columns are named 'q'"),
    ("t.csv", "q,,a\n1,2,3\n", "column 2 has no name"),
    ("t.csv", "q,a\n1,2,3\n", "line 2: the row has 3 cells and the file 2 columns"),
    ("t.csv", 'q,a\n"b"c,2\n', "no CSV"),
    ("t.jsonl", "", "the file is empty"),
    ("t.jsonl", '{"q": 1}\n\n{"q"\n', "line 3: this is no JSON"),
    ("t.jsonl", "[1]\n", "line 1: the line holds no JSON object"),
    ("t.xlsx", "nonsense", "not an Excel file"),
    ("t.parquet", "x", "'.parquet' is none of .csv"),
]


@pytest.mark.parametrize(("name", "text", "said"), WRONG, ids=[case[2] for case in WRONG])
def test_a_wrong_table(tmp_path, name, text, said):
    with pytest.raises(CheckpointError) as caught:
        read_rows(written(tmp_path / name, text))
    assert said in str(caught.value)


def test_a_table_that_is_not_there(tmp_path):
    for name in ("t.csv", "t.xlsx", "t.jsonl"):
        with pytest.raises(CheckpointError, match="no such file"):
            read_rows(tmp_path / name)


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
def test_a_template_for_all_rows_or_made_for_each(tmp_path, answer_template, expected):
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
    ("q,a\nWho?,x\n", {"question": "Q"}, "no column 'Q'; the file has q, a"),
    ("q,a\nWho?,x\n", {"question": "q", "raw_anwser": "a"}, "did you mean 'raw_answer'?"),
    ("q,a\nWho?,x\n", {"raw_answer": "a"}, "no column is mapped to `question`"),
    ("q,a\nWho?,x\nWho?,y\n", {"question": "q"}, "line 3: the question of line 2 has the same text"),
    ("q,a\nWho?,x\nOld?,y\n", {"question": "q", "id": "a"}, "two questions have the id 'y'"),
]


@pytest.mark.parametrize(("text", "columns", "said"), REFUSED, ids=[case[2] for case in REFUSED])
def test_all_rows_are_imported_or_none(tmp_path, text, columns, said):
    benchmark = Benchmark.create("b")
    benchmark.add_question("Old?", question_id="y")
    with pytest.raises(CheckpointError) as caught:
        benchmark.import_questions(written(tmp_path / "t.csv", text), columns)
    assert said in str(caught.value)
    assert len(benchmark) == 1


def test_importing_the_package_loads_no_reader():
    import subprocess
    import sys

    code = "import sys, karenina_benchmark; print([n for n in ('yaml', 'openpyxl', 'regex') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
