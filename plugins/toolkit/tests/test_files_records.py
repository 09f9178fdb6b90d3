"""Records of every kind of file: read as they were written, each with its place, within bounds."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from karenina_toolkit.files import (
    AUTO,
    FileError,
    Record,
    find_column,
    is_unnamed,
    parse_json,
    plain_cell,
    read_json,
    read_records,
    suggest_rows,
)
from karenina_toolkit.files.bounded_files import limit_file_size

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
CODES = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0", "utf-32-be": b"\0\0\xfe\xff"}
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Cells",
            "paragraphs": [{"context": "It is BCL2.", "qas": [{"id": "a"}, {"id": "b", "title": "own"}]}],
        },
        {"title": "Genes", "paragraphs": [{"context": "It is TP53.", "qas": [{"id": "c"}]}]},
    ],
}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
cells = st.none() | texts.filter(bool)
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(texts, one, max_size=3), max_leaves=5
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    names = texts.map(str.strip).filter(bool)
    columns = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    row = st.lists(cells, min_size=len(columns), max_size=len(columns))
    rows = draw(st.lists(row, max_size=5))
    while rows and rows[-1] == [None] * len(columns):
        rows.pop()
    return columns, rows


def write(folder: str, name: str, data: bytes) -> Path:
    path = Path(folder) / name
    path.write_bytes(data)
    return path


def read(path: Path, **options: Any) -> list[Any]:
    return [one.value for one in read_records(path, **options)]


def as_csv(rows: list[list[Any]], **options: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue()


def write_excel(path: Path, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for number, row in enumerate(rows, 1):
        for place, value in enumerate(row, 1):
            if value is not None:
                cell = book.active.cell(number, place, value)
                cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(path)
    return path


def encode(text: str, encoding: str) -> bytes:
    return CODES.get(encoding, b"") + text.encode(encoding)


@given(tables(), st.sampled_from(ENCODINGS), st.sampled_from(["\r\n", "\n"]), st.booleans())
def test_rows_of_csv_are_read_as_written(
    table: tuple[list[str], list[list[Any]]], encoding: str, end: str, quoted: bool
) -> None:
    columns, rows = table
    quoted = quoted or end == "\n"  # else `csv` writes a carriage return without quotes
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    text = as_csv([columns, *rows], lineterminator=end, quoting=quoting)
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "t.csv", encode(text, encoding))
        with read_records(path, delimiter=",") as records:
            assert records.columns == tuple(columns)
            found = list(records)

    assert [one.value for one in found] == [dict(zip(columns, row, strict=True)) for row in rows]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    ends = [reader.line_num for cells in reader if any(cells) or True]
    assert [one.number for one in found] == ends[1 : len(rows) + 1]
    assert [one.where for one in found] == [f"line {one}" for one in ends[1 : len(rows) + 1]]


@given(st.lists(values, min_size=1, max_size=5), st.sampled_from(ENCODINGS), st.booleans())
def test_lines_of_json_are_read_as_written(rows: list[Any], encoding: str, ascii: bool) -> None:
    text = "".join(json.dumps(row, ensure_ascii=ascii) + "\n\n" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        found = list(read_records(write(folder, "t.jsonl", encode(text, encoding))))

    assert [one.value for one in found] == rows
    assert [(one.number, one.where) for one in found] == [(2 * n + 1, f"line {2 * n + 1}") for n in range(len(rows))]


@given(st.lists(values, min_size=1, max_size=5), st.sampled_from(ENCODINGS))
def test_rows_of_a_json_list_are_read_as_written(rows: list[Any], encoding: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "t.json", encode(json.dumps(rows, ensure_ascii=False), encoding))
        found = list(read_records(path))

    assert [one.value for one in found] == rows
    assert [one.where for one in found] == [str(number) for number in range(len(rows))]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 40), st.sampled_from(ENCODINGS))
@settings(max_examples=30)
def test_characters_across_chunks_are_read(text: str, shift: int, encoding: str) -> None:
    """The texts lie around the ends of the pieces in which files are decoded."""
    width = 4 if "32" in encoding else 2 if "16" in encoding else 1
    rows = ["x" * ((1 << 16) // width - shift) + text, text * 3]
    with tempfile.TemporaryDirectory() as folder:
        lines = write(
            folder, "t.jsonl", encode("\n".join(json.dumps(one, ensure_ascii=False) for one in rows), encoding)
        )
        assert read(lines) == rows
        table = write(folder, "t.csv", encode(as_csv([["a"], *[[f"-{one}"] for one in rows]]), encoding))
        assert read(table) == [{"a": f"-{one}"} for one in rows]


@pytest.mark.parametrize("shift", range(-2, 3))
def test_an_end_of_line_across_chunks_is_one(tmp_path: Path, shift: int) -> None:
    data = b"a,b\r\n" + b"x" * ((1 << 16) - 5 + shift) + b",1\r\n2,3\r\n"
    found = list(read_records(write(str(tmp_path), "t.csv", data)))

    assert [one.number for one in found] == [2, 3]
    assert found[1].value == {"a": "2", "b": "3"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_line_is_known_in_csv(tmp_path: Path, end: str) -> None:
    path = write(str(tmp_path), "t.csv", end.join(["a;b", '"x', 'y";2', "3;4"]).encode())

    assert read(path) == [{"a": f"x{end}y", "b": "2"}, {"a": "3", "b": "4"}]
    assert [one.number for one in read_records(path)] == [3, 4]


@given(tables())
@settings(max_examples=20, deadline=None)
def test_rows_of_excel_are_read_as_written(table: tuple[list[str], list[list[Any]]]) -> None:
    rows = [[ILLEGAL_CHARACTERS_RE.sub("?", one or "").replace("\r", "?") or None for one in row] for row in table[1]]
    columns = [f"c{number}" for number, _ in enumerate(table[0])]
    with tempfile.TemporaryDirectory() as folder:
        path = write_excel(Path(folder) / "t.xlsx", [columns, *rows])
        found = list(read_records(path))

    assert [one.value for one in found] == [dict(zip(columns, row, strict=True)) for row in rows]
    assert [one.where for one in found] == [f"row {number}" for number in range(2, len(rows) + 2)]


def test_cells_of_excel_keep_their_types(tmp_path: Path) -> None:
    row = [True, 3, 1.5, datetime(2024, 5, 1), datetime(2024, 5, 1, 10, 30), "1e3"]
    (found,) = read_records(write_excel(tmp_path / "t.xlsx", [["a", "b", "c", "d", "e", "f"], row]))

    assert list(found.values.values()) == row
    assert [type(one) for one in found.values.values()] == [bool, int, float, datetime, datetime, str]
    assert [plain_cell(one) for one in (2.0, *found.values.values())][:6] == [
        *(2, True, 3, 1.5, "2024-05-01", "2024-05-01T10:30:00")
    ]


def test_cells_without_a_type_in_json_become_text() -> None:
    cells = [timedelta(hours=26, minutes=30), timedelta(seconds=-5.5), b"Li\xc3\xadma", b"\xff\x00", b"\x00"]

    assert [plain_cell(cell) for cell in cells] == [
        "26:30:00",
        "-0:00:05.500000",
        "Li\u00edma",
        "[2 bytes]",
        "[1 bytes]",
    ]


def test_maps_of_parquet_are_objects(tmp_path: Path) -> None:
    kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    maps = pyarrow.array([[("a", 1), ("b", 2)], [], None], kind)
    inner = [[{"m": [("a", 1)]}, None], [], [{"m": []}]]
    lists = pyarrow.array(inner, pyarrow.list_(pyarrow.struct({"m": kind})))
    pyarrow.parquet.write_table(pyarrow.table({"m": maps, "l": lists}), tmp_path / "t.parquet")

    assert read(tmp_path / "t.parquet") == [
        *({"m": {"a": 1, "b": 2}, "l": [{"m": {"a": 1}}, None]}, {"m": {}, "l": []}, {"m": None, "l": [{"m": {}}]})
    ]


def test_rows_of_parquet_are_read_as_written(tmp_path: Path) -> None:
    rows = [
        {"q": f"Which {n}?", "n": n, "d": date(2024, 5, 1), "x": Decimal("1.50"), "l": ["a", None]} for n in range(2500)
    ]
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=700)
    with read_records(path) as records:
        assert records.columns == ("q", "n", "d", "x", "l")
        found = list(records)

    assert [one.value for one in found] == rows
    assert [one.where for one in found] == [f"row {number}" for number in range(1, 2501)]
    assert read(path, only=["n"])[:2] == [{"n": 0}, {"n": 1}]


def test_rows_below_objects_know_their_surroundings(tmp_path: Path) -> None:
    path = write(str(tmp_path), "squad.json", json.dumps(SQUAD).encode())
    found = list(read_records(path, rows="data.*.paragraphs.*.qas"))

    assert [one.where for one in found] == [
        f"data.{n}" for n in ("0.paragraphs.0.qas.0", "0.paragraphs.0.qas.1", "1.paragraphs.0.qas.0")
    ]
    assert [one.number for one in found] == [1, 2, 3]
    assert [(one.get("ID"), one.get("context"), one.get("title")) for one in found] == [
        ("a", "It is BCL2.", "Cells"),
        ("b", "It is BCL2.", "own"),
        ("c", "It is TP53.", "Genes"),
    ]
    assert found[1].get("data.title") == "Cells"
    assert dict(found[0].outer) == {"version": "1.1", "data.title": "Cells", "data.paragraphs.context": "It is BCL2."}
    assert str(found[2]) == f"{path}, data.1.paragraphs.0.qas.0"
    assert read(path, rows="data.*.paragraphs.*.qas.*") == [one.value for one in found]
    assert read(path, rows="data.1.paragraphs.0.qas.0") == [{"id": "c"}]


def test_rows_by_their_ids_know_their_keys(tmp_path: Path) -> None:
    path = write(str(tmp_path), "ids.json", b'{"q1": {"question": "a"}, "q2": {"question": "b"}}')
    found = list(read_records(path, rows="*"))

    assert [(one.key, one.where, one.get("question")) for one in found] == [("q1", "q1", "a"), ("q2", "q2", "b")]
    with pytest.raises(
        FileError, match=r"the document is not a list of rows; specify the path to the rows, such as \*"
    ):
        read(path)


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"examples": [{"a": 1}], "name": "x"}, ["examples.*"]),
        (SQUAD, ["data.*.paragraphs.*.qas.*", "data.*", "data.*.paragraphs.*"]),
        ({"q1": {"a": 1}, "q2": {"a": 2}}, ["*"]),
        ({"a": {"b": 1}, "c": {"d": 1}}, []),
        ([{"a": 1}], ["*"]),
        ("text", []),
    ],
    ids=str,
)
def test_paths_to_rows_are_suggested(document: Any, paths: list[str]) -> None:
    assert suggest_rows(document) == paths


def test_names_are_found_without_case() -> None:
    assert find_column(["ID", "Question", "question"], "question") == "question"
    assert find_column(["ID", "Question", "QUESTION"], "question") == "Question"
    assert find_column(["Straße"], "STRASSE") == "Straße"
    assert find_column(["ID"], "question") is None


WRONG: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "no content": ("t.csv", b"", {}, "the file is empty; write the column names in the first row"),
    "no columns": ("t.csv", b"\n,,\n", {}, "all rows are empty; write the column names"),
    "two characters between cells": (
        *("t.csv", b"q\n", {"delimiter": ",,"}),
        "the delimiter must be a single character other than a quote or line break, not ',,'; use a delimiter such as",
    ),
    "a quote between cells": ("t.csv", b"q\n", {"delimiter": '"'}, "the delimiter must be a single character"),
    "a path of many digits": (
        "t.json",
        b"[{}]",
        {"rows": "9" * 5000},
        "9…; correct the file, or correct the path to the rows",
    ),
    "a column twice": ("t.csv", b"q,q\n1,2\n", {}, "line 1: two columns are named 'q'; rename one of them"),
    "a long row": ("t.csv", b"q,a\n\n1,2,3\n", {}, "line 3: the row has 3 cells, but the file has 2 columns"),
    "a wrong quote": ("t.csv", b'q\n"a" b\n', {}, "line 2: the CSV is not valid"),
    "a byte of cp1252": (
        "t.csv",
        b"q\n" + b"a" * 70_000 + b"\xe9\n",
        {},
        "byte 70002: the text is not valid UTF-8; save the file as UTF-8",
    ),
    "a byte after a mark": ("t.csv", b"\xef\xbb\xbfq\n\xe9\n", {}, "byte 5: the text is not valid UTF-8"),
    "half of UTF-16": ("t.csv", b"\xff\xfeq\0\n", {}, "byte 4: the text is not valid UTF-16-LE"),
    "UTF-16 without a mark": (
        "t.csv",
        "q\n".encode("utf-16-be"),
        {},
        "byte 0: found a zero byte, so the file is probably UTF-16",
    ),
    "a byte in a line": ("t.jsonl", b'{}\n{"a": "\xe9"}', {}, "line 2, byte 7: the text is not valid UTF-8"),
    "a byte in JSON": ("t.json", b'["\xe9"]', {}, "byte 2: the text is not valid UTF-8"),
    "another encoding": (
        "t.csv",
        b"q\n\x81\n",
        {"encoding": "cp1252"},
        "byte 2: the text is not valid cp1252; specify the encoding",
    ),
    "no encoding": (
        "t.csv",
        b"q\n",
        {"encoding": "klingon"},
        "unknown encoding 'klingon'; use an encoding such as utf-8",
    ),
    "bytes as an encoding": ("t.csv", b"q\n", {"encoding": "hex"}, "unknown encoding 'hex'"),
    "cut JSON": ("t.jsonl", b'{}\n{"a": 1', {}, "line 2, column 8: the JSON is incomplete; complete the JSON"),
    "wrong JSON": ("t.json", b"[{}\n, x]", {}, "line 2, column 3: the JSON is not valid: Expecting value"),
    "a key twice": (
        "t.jsonl",
        b'{"a": 1, "a": 2}',
        {},
        "line 1: the key 'a' occurs more than once, with different values",
    ),
    "deep JSON": ("t.json", b"[" * 100_000, {}, "the JSON cannot be parsed: maximum recursion depth exceeded"),
    "JSON of 300 levels": ("t.json", b"[" * 300 + b"]" * 300, {}, "nested more than 200 levels deep"),
    "half a character": ("t.jsonl", b'{"a": "\\ud800"}', {}, "line 1: a string contains an unpaired surrogate"),
    "a long number": ("t.jsonl", b"[" + b"1" * 5000 + b"]", {}, "line 1: the JSON cannot be parsed: Exceeds the limit"),
    "an object without rows": (
        "t.json",
        b'{"a": 1}',
        {},
        "the document is not a list of rows; use a file that contains a list of rows",
    ),
    "a path to nothing": (
        "t.json",
        b'[{"a": [1]}, {}]',
        {"rows": "*.a.*"},
        ", 1: the value has no entry 'a'; correct the file, or correct the path",
    ),
    "a path through a text": (
        "t.json",
        b'[{"a": "x"}]',
        {"rows": "*.a.*"},
        ", 0.a: the value is neither a list nor an object",
    ),
    "a sheet of CSV": ("t.csv", b"q\n", {"sheet": "x"}, "only Excel files have sheets"),
    "a path in lines": ("t.jsonl", b"{}\n", {"rows": "x"}, "only JSON documents can have a path to their rows"),
    "another kind": (
        "t.txt",
        b"q\n",
        {},
        "tables with the file extension '.txt' are not supported; convert the file to .csv",
    ),
    "no Excel file": ("t.xlsx", b"PK cut", {}, "the Excel file is damaged: File is not a zip file"),
    "no Parquet file": ("t.parquet", b"PAR1 cut", {}, "the Parquet data cannot be read"),
    "many cells": (
        "t.csv",
        b"q\n" + b"," * 100_000,
        {"max_bytes": 200_000},
        "line 2: the table has more than 100,000 cells",
    ),
    "many cells that fill short rows": (
        *("t.csv", b",".join(b"%d" % column for column in range(20_000)) + b"\n1" * 9, {"max_bytes": 200_000}),
        "line 6: the table has more than 100,000 cells",
    ),
    "a quote without an end": (
        *("t.csv", b'q\n"' + b"text\n" * 3_300_000, {}),
        "line 3200001: the row is longer than 16,000,000 characters; close any open quotes in the row, or use JSONL",
    ),
    "a long line": ("t.csv", b"q\n" + b"x" * 16_000_001, {}, "line 2: the line is longer than 16 MB"),
    "a large file": ("t.csv", b"q\n" * 100, {"max_bytes": 50}, "the file size is 200 bytes, but the limit is 50 bytes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_place_and_cure(tmp_path: Path, name: str) -> None:
    file, data, options, message = WRONG[name]
    path = write(str(tmp_path), file, data)
    with pytest.raises(FileError) as found:
        read(path, **options)

    assert message in str(found.value)
    assert str(found.value).startswith(f"{path}")
    assert found.value.cure


def test_a_text_in_another_encoding_is_read(tmp_path: Path) -> None:
    text = "Größe;Wert\nµ;1\n"
    assert read(write(str(tmp_path), "t.csv", text.encode("cp1252")), encoding="cp1252") == [
        {"Größe": "µ", "Wert": "1"}
    ]
    assert read(write(str(tmp_path), "m.csv", text.encode("utf-16")), encoding="cp1252") == [
        {"Größe": "µ", "Wert": "1"}
    ]
    assert read(write(str(tmp_path), "t.jsonl", '"ä"\n"ß"'.encode("cp1252")), encoding="cp1252") == ["ä", "ß"]
    assert read(write(str(tmp_path), "t.json", '["ä"]'.encode("cp1252")), encoding="cp1252") == ["ä"]


def test_short_and_empty_rows_are_kept(tmp_path: Path) -> None:
    path = write(str(tmp_path), "t.csv", b"\n\nq,a\n1\n,\n\n2,3,,\n\n,\n")

    assert [(one.number, *one.values.values()) for one in read_records(path)] == [
        *((4, "1", None), (5, None, None), (6, None, None), (7, "2", "3"))
    ]


def test_bad_lines_are_kept_if_asked(tmp_path: Path) -> None:
    path = write(str(tmp_path), "t.jsonl", b'{"a": 1}\n\xff\n{"a": \n[1]\n')
    found = list(read_records(path, keep_problems=True))

    assert [one.where for one in found] == ["line 1", "line 2", "line 3", "line 4"]
    assert [one.problem and one.problem.what for one in found] == [
        *(None, "the text is not valid UTF-8", "the JSON is incomplete", None)
    ]
    assert found[0].get("A") == 1
    with pytest.raises(FileError, match="line 4: the line is not a JSON object; write one object per line"):
        found[3].get("a")
    with pytest.raises(FileError, match="line 2, byte 0: the text is not valid UTF-8"):
        found[1].get("a")


def test_halves_of_characters_are_read_if_asked(tmp_path: Path) -> None:
    path = write(str(tmp_path), "t.jsonl", b'"\\ud800"')
    assert read(path, surrogates=True) == ["\ud800"]
    assert read_json(path, surrogates=True) == "\ud800"
    with pytest.raises(FileError, match="unpaired surrogate"):
        parse_json('"\\ud800"', path)


def test_a_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        path.write_text("q\nWhich?\n", "utf-8")
        assert read(path) == [{"q": "Which?"}]
    finally:
        os.close(reader)


def test_a_text_of_any_length_fits_a_cell(tmp_path: Path) -> None:
    assert read(write(str(tmp_path), "t.csv", b"q\n" + b"x" * 5_000_000)) == [{"q": "x" * 5_000_000}]


def test_the_bound_of_one_file_is_not_that_of_others(tmp_path: Path) -> None:
    lines = write(str(tmp_path), "t.jsonl", b"{}\n" * 100)
    with read_records(lines, max_bytes=1000) as records, limit_file_size(10):
        assert len(list(records)) == 100
        with pytest.raises(FileError, match="the limit is 10 bytes"):
            read(lines)
        assert len(read(lines, any_size=True)) == 100


LARGE: dict[str, Callable[[int], bytes]] = {
    "t.csv": lambda count: b"q,a\n" + b'"Which gene, then?",BCL2\n' * count,
    "t.jsonl": lambda count: b'{"q": "Which gene, then?"}\n' * count,
    "t.parquet": lambda count: b"",
}


@pytest.mark.parametrize("name", LARGE)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    def peak(count: int) -> int:
        path = write(str(tmp_path), name, LARGE[name](count))
        if name == "t.parquet":
            table = pyarrow.table({"q": [f"Which {n}?" for n in range(count)]})
            pyarrow.parquet.write_table(table, path, row_group_size=1000)
        tracemalloc.start()
        try:
            assert sum(1 for _ in read_records(path)) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)  # imports the libraries
    assert peak(30_000) < 2 * peak(3000)


def test_float32_of_parquet_is_read_as_the_number_that_was_written(tmp_path: Path) -> None:
    numbers = [1.1, None, 123456.79, -0.1, 1e-40]
    columns = {"q": ["a", "b", "c", "d", "e"], "single": pyarrow.array(numbers, pyarrow.float32()), "double": numbers}
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert [record.values["single"] for record in read_records(path)] == numbers
    assert [record.values for record in read_records(path, only=["double"])] == [{"double": one} for one in numbers]


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.Array.from_buffers(
            pyarrow.string(), 1, [None, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0"), pyarrow.py_buffer(b"\xff")]
        ),
        pyarrow.array([2**31 - 1], pyarrow.int32()).cast(pyarrow.date32()),
        pyarrow.array([2**62], pyarrow.int64()).cast(pyarrow.timestamp("us")),
    ],
    ids=["text", "date", "time"],
)
def test_cells_of_parquet_that_are_no_values_are_an_error(tmp_path: Path, column: Any) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"q": column}), path)
    with pytest.raises(FileError, match="the Parquet data cannot be read: "):
        read(path)


def test_few_bytes_of_parquet_do_not_become_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"q": pyarrow.array(["same"] * 2_000_000).dictionary_encode()}), path)
    assert path.stat().st_size < 10_000
    with pytest.raises(FileError, match="the table has more than 5,000,000 cells"):
        for _ in read_records(path):
            pass


SHEET, TEXTS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
BOMBS = {
    "cells in one row": (
        *(SHEET, f"<worksheet {MAIN}><sheetData><row>{'<c/>' * 400_000}</row></sheetData></worksheet>"),
        "the part has more than 250,000 XML elements in a single row or string; save the table as .csv",
    ),
    "rows": (
        *(SHEET, f"<worksheet {MAIN}><sheetData>{'<row/>' * 210_000}</sheetData></worksheet>"),
        "the table has more than 1,000,000 cells; delete empty rows and columns",
    ),
    "rows of another format": (
        *(SHEET, f"<worksheet><sheetData>{'<row><c/></row>' * 130_000}</sheetData></worksheet>"),
        "the part has more than 250,000 XML elements outside its rows",
    ),
    "merged cells": (
        *(SHEET, f"<worksheet {MAIN}><mergeCells>{'<mergeCell/>' * 260_000}</mergeCells></worksheet>"),
        "the part has more than 250,000 XML elements outside its rows (for example, for formats and merged cells)",
    ),
    "parts of a text": (
        *(TEXTS, f"<sst {MAIN}><si>{'<r/>' * 260_000}</si></sst>"),
        "the part has more than 250,000 XML elements in a single row or string",
    ),
}


def write_part(path: Path, name: str, content: str) -> Path:
    """Write an Excel file with one part replaced."""
    write_excel(path, [["q"], ["Which gene?"]])
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in {**parts, name: content.encode()}.items():
            archive.writestr(part, data)
    return path


@pytest.mark.parametrize("name", BOMBS)
def test_few_bytes_of_excel_do_not_become_many_elements(tmp_path: Path, name: str) -> None:
    part, content, message = BOMBS[name]
    path = write_part(tmp_path / "t.xlsx", part, content)
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=re.escape(f"t.xlsx, {part}: {message}")):
            read(path, max_bytes=20_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_entities_in_excel_are_refused(tmp_path: Path) -> None:
    path = write_part(tmp_path / "t.xlsx", SHEET, '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>')
    with pytest.raises(FileError, match="the XML declares entities, which spreadsheet programs never do"):
        read(path)


def test_many_rows_of_excel_are_read(tmp_path: Path) -> None:
    names = f"<row>{''.join(f'<c><v>{number}</v></c>' for number in range(26))}</row>"
    rows = f"<row>{'<c><v>1</v></c>' * 26}</row>" * 5000
    sheet = f"<worksheet {MAIN}><sheetData>{names}{rows}</sheetData></worksheet>"
    assert len(read(write_part(tmp_path / "t.xlsx", SHEET, sheet))) == 5000


@given(st.binary(max_size=300), st.sampled_from([".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet"]))
def test_any_bytes_are_read_or_refused(data: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, f"t{suffix}", data)
        try:
            found = list(read_records(path, surrogates=True))
        except FileError as error:
            str(error).encode("utf-8")
        else:
            assert all(isinstance(one, Record) and str(one).startswith(str(path)) for one in found)


def test_importing_files_imports_no_library() -> None:
    program = "import sys, karenina_toolkit.files\nprint(*{one.partition('.')[0] for one in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {"openpyxl", "pyarrow", "numpy", "pandas", "yaml", "zipfile"} & set(done.stdout.split()) == set()


@pytest.mark.parametrize(("suffix", "extra"), [(".xlsx", "excel"), (".parquet", "parquet")])
def test_a_missing_library_is_named_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, extra: str
) -> None:
    for name in ("openpyxl", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FileError, match=rf"which is not installed; install it with: pip install 'mine\[{extra}\]'"):
        read_records(write(str(tmp_path), f"t{suffix}", b""), package="mine")


def read_auto(path: Path) -> tuple[list[Any], str]:
    with read_records(path, encoding=AUTO) as records:
        return [one.value for one in records], records.encoding_note


RECOGNIZED: dict[str, tuple[str, str, str]] = {
    "German": ("cp1252", "q\nWie heißt der größte Fluß?\n", "'heißt'"),
    "French": ("cp1252", "q\nOù est une œuvre prête à Noël ?\n", "'Où'"),
    "Spanish": ("cp1252", "q\n¿Qué año fue?\n", "'¿Qué'"),
    "signs": ("cp1252", "q\nWhat is 20 °C ± 1 in “F” at 5 €?\n", "'°C'"),
    "UTF-16": ("utf-16-le", "q\nWie groß?\n", "UTF-16-LE"),
    "UTF-16 of the other order": ("utf-16-be", "q\nWie groß?\n", "UTF-16-BE"),
}


@pytest.mark.parametrize("name", RECOGNIZED)
def test_an_encoding_that_is_certain_is_recognized_and_named(tmp_path: Path, name: str) -> None:
    encoding, text, shown = RECOGNIZED[name]
    for file, content in (("t.csv", text), ("t.jsonl", json.dumps({"q": text[2:-1]}, ensure_ascii=False) + "\n")):
        found, note = read_auto(write(str(tmp_path), file, content.encode(encoding)))
        assert found == [{"q": text[2:-1]}]
        assert shown in note or file == "t.jsonl"
        assert note


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "q\nKto napisał Pana Tadeusza? Łódź i Gdańsk\n"),
        ("cp1251", "q\nЩЮЯ ждёшь\n"),
        ("iso8859_7", "q\nΓΔΘΛ ΞΠΣ ΦΨΩ γδ\n"),
        ("mac_roman", "q\nQui a écrit Émile ? Molière\n"),
        ("cp850", "q\nQui a écrit Émile ? Molière\n"),
        ("shift_jis", "q\n日本の首都は何ですか\n"),
        ("gb18030", "q\n中国的首都是哪里\n"),
    ],
)
def test_an_encoding_that_is_not_certain_must_be_named(tmp_path: Path, encoding: str, text: str) -> None:
    path = write(str(tmp_path), "t.csv", text.encode(encoding))
    with pytest.raises(
        FileError, match="its encoding could not be determined reliably; set the encoding with --encoding"
    ):
        read_auto(path)
    assert [one.value for one in read_records(path, encoding=encoding)] == [{"q": text[2:-1]}]


def test_utf_8_with_one_other_byte_is_not_taken_for_cp1252(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="byte 9: the text is not UTF-8, and its encoding could not be determined"):
        read_auto(write(str(tmp_path), "t.csv", "q\nGröße".encode() + b"\xe9\n"))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_utf_8_is_always_read_as_utf_8(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found, note = read_auto(write(folder, "t.jsonl", json.dumps({"q": text}, ensure_ascii=False).encode()))
    assert (found, note) == ([{"q": text}], "")


def test_a_table_in_markdown_is_not_separated_by_bars(tmp_path: Path) -> None:
    path = write(str(tmp_path), "t.csv", b"| q | a |\n| --- | --- |\n| Who? | Ann |\n")
    with read_records(path) as records:
        assert records.columns == ("| q | a |",)


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    path = write(str(tmp_path), "t.csv", b",q,\n0,a,b\n")
    with read_records(path) as records:
        assert records.columns == ("Unnamed: 0", "q", "Unnamed: 2")
        assert [one.value for one in records] == [{"Unnamed: 0": "0", "q": "a", "Unnamed: 2": "b"}]
    assert (is_unnamed("Unnamed: 0"), is_unnamed("Unnamed")) == (True, False)
