"""Tables of questions are read: CSV, Excel and JSON lines."""

import builtins
import datetime
import re

import openpyxl
import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.checking import check_file
from karenina_benchmark.tables.table_reader import read_rows
from karenina_core.catalog import install_command


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
        "q|a\nWhô?|Ann\n",
        '"q","a"\r\n"Whô?","Ann"\r\n,\r\n',
        "\ufeffq,a\nWhô?,Ann",
    ],
)
def test_csv_dialects_are_recognised(tmp_path, text):
    table = read_rows(written(tmp_path / "t.csv", text))
    assert table.columns == ("q", "a")
    assert [dict(row.values) for row in table.rows] == [{"q": "Whô?", "a": "Ann"}]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize(("name", "text"), [("t.csv", "q;a\nWhô?;Ann\n"), ("t.jsonl", '{"q": "Whô?", "a": "Ann"}\n')])
def test_byte_order_marks_name_the_encoding(tmp_path, name, text, encoding):
    (row,) = read_rows(written(tmp_path / name, text, encoding)).rows
    assert row.values == {"q": "Whô?", "a": "Ann"}


def test_texts_of_any_length_fit_a_cell(tmp_path):
    (row,) = read_rows(written(tmp_path / "t.csv", f"q\n{'x' * 200_000}\n")).rows
    assert len(row.values["q"]) == 200_000


def test_a_key_with_two_values_is_an_error(tmp_path):
    with pytest.raises(BenchmarkFileError, match="line 1: the key 'a' occurs more than once, with different values"):
        read_rows(written(tmp_path / "t.jsonl", '{"q": "Who?", "a": "Ann", "a": "Bob"}\n'))


def test_cells_with_delimiters_quotes_and_line_breaks(tmp_path):
    table = read_rows(written(tmp_path / "t.csv", 'q,a\n"a, ""b""\nc",d\ne,f\n'))
    assert [(row.line, row.values["q"]) for row in table.rows] == [(3, 'a, "b"\nc'), (4, "e")]


def test_excel_gives_numbers_and_dates_as_json_values(tmp_path):
    file = excel(tmp_path / "t.xlsx", ["q", "n", "x", "d"], ["Who?", 3.0, 0.5, datetime.datetime(1999, 1, 2)], [None])
    assert [dict(row.values) for row in read_rows(file).rows] == [{"q": "Who?", "n": 3, "x": 0.5, "d": "1999-01-02"}]


def test_a_sheet_is_chosen_by_name(tmp_path):
    file = excel(tmp_path / "t.xlsx", ["q"], ["Who?"], title="Questions")
    assert len(read_rows(file, "Questions").rows) == 1
    with pytest.raises(BenchmarkFileError, match=r"no sheet 'Other'; choose one of these sheets: Questions"):
        read_rows(file, "Other")


def test_excel_without_openpyxl_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BenchmarkFileError, match=re.escape(install_command("karenina-benchmark[excel]"))):
        read_rows(tmp_path / "t.xlsx")


WRONG = {
    "t.csv": [
        ("", "the file is empty"),
        ("q,q\n1,2\n", "two columns are named 'q'"),
        ("q,a\n", "the table has the columns q, a but no rows"),
        ("q,a\n1,2,3\n", "line 2: the row has 3 cells, but the file has 2 columns"),
        ('q,a\n"b"c,2\n', "CSV is not valid"),
    ],
    "t.jsonl": [
        ("", "the file is empty"),
        ('{"q": 1}\n\n{"q"\n', "line 3, column 5: the JSON is incomplete"),
        ("[1]\n", "line 1: the line is not a JSON object"),
    ],
    "t.xlsx": [("nonsense", "the file is not an Excel workbook")],
    "t.ods": [("x", "'.ods' are not supported; convert the file to one of .csv")],
    "t.json": [
        ("[{}]", "all rows are empty"),
        ('{"a": [1]}', "neither a benchmark nor a list of rows"),
        ('{"a": [{"q": "Who?"}], "b": [{"x": 1}, {"x": 2}]}', "--rows 'b.*' or --rows 'a.*'"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [pytest.param(name, text, said, id=said) for name, cases in WRONG.items() for text, said in cases],
)
def test_a_wrong_table_is_an_error(tmp_path, name, text, said):
    with pytest.raises(BenchmarkFileError) as caught:
        read_rows(written(tmp_path / name, text))
    assert said in str(caught.value)


def test_a_missing_table_is_an_error(tmp_path):
    for name in ("t.csv", "t.xlsx", "t.jsonl"):
        with pytest.raises(BenchmarkFileError, match="the file does not exist"):
            read_rows(tmp_path / name)


def test_all_problems_of_a_table_are_reported_in_one_round(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(
        "id,question,answer,author\n1,What?,5,6,7\n2,Which?,4\n3,Why?,8,\n3,Who?,9,\n4,,6,\n5,Where?,7,\n", "utf-8"
    )
    benchmark, report = check_file(file)
    errors = [(finding.where, finding.what) for finding in report.errors]
    assert errors[:1] == [("line 2", "the row has 5 cells, but the file has 4 columns")]
    assert [where for where, _ in errors] == ["line 2", "line 5", "line 6"]
    assert any("line 3" in finding.what for finding in report.warnings)
    assert benchmark is not None
    assert list(benchmark.ids) == ["2", "3", "5"]
    with pytest.raises(BenchmarkFileError, match=r"line 2: the row has 5 cells.*lists 2 more problems"):
        Benchmark.load(file)
