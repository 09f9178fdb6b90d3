"""Workbooks: which sheet is read, and hidden problems: formulas without values, errors, and hidden columns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.comments import Comment

from karenina_benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.output_files import read_outputs

HEAD = ["question", "answer"]
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHARED_STRINGS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


def workbook(path: Path, *sheets: tuple[str, Sequence[Sequence[Any]]], hidden: str = "") -> Path:
    """Write a workbook with these sheets."""
    book = openpyxl.Workbook()
    for number, (title, rows) in enumerate(sheets):
        page = book.active if number == 0 else book.create_sheet()
        page.title = title
        for row in rows:
            page.append(list(row))
        if hidden:
            page.column_dimensions[hidden].hidden = True
    book.save(path)
    return path


def loaded(path: Path, **columns: str) -> Benchmark:
    return Benchmark.load(path, columns=columns or None)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return workbook(
        tmp_path / "genes.xlsx",
        ("Genes", [HEAD, ["Which gene?", "BCL2"]]),
        ("Empty", []),
        ("Years", [HEAD, ["Which year?", 1985], ["And then?", 1986]]),
    )


def test_other_sheets_with_rows_are_named(two: Path) -> None:
    benchmark = loaded(two)

    assert len(benchmark) == 1
    (note,) = [note for note in benchmark.load_notes if "sheet" in note]
    assert (
        note
        == "only the first sheet of genes.xlsx was read, but other sheets also have rows: 'Years' (use --sheet NAME)"
    )


@pytest.mark.parametrize("first", [True, False])
def test_a_chart_sheet_is_skipped_and_refused_by_name(tmp_path: Path, first: bool) -> None:
    """A chart sheet has no rows; the library cannot read the sheet of a chart without data."""
    book = openpyxl.Workbook()
    book.active.append(HEAD)
    book.active.append(["Which gene?", "BCL2"])
    book.create_chartsheet("Plot", 0 if first else None)
    book.save(tmp_path / "genes.xlsx")

    assert len(loaded(tmp_path / "genes.xlsx")) == 1
    with pytest.raises(
        BenchmarkFileError, match=r"the sheet 'Plot' is a chart and has no rows.*choose one of these sheets: Sheet"
    ):
        loaded(tmp_path / "genes.xlsx", sheet="Plot")


def test_a_named_sheet_is_read(two: Path) -> None:
    benchmark = loaded(two, sheet="Years")

    assert len(benchmark) == 2
    assert not [note for note in benchmark.load_notes if "sheet" in note]
    with pytest.raises(BenchmarkFileError, match=r"no sheet 'Ages'.*Genes, Empty, Years"):
        loaded(two, sheet="Ages")


def test_a_sheet_of_another_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("question,answer\nWho?,x\n", "utf-8")

    with pytest.raises(BenchmarkFileError, match="only Excel files have sheets"):
        loaded(file, sheet="Years")


def test_outputs_are_read_from_a_named_sheet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [["id", "response"], ["a", "Yes."]]
    file = workbook(tmp_path / "o.xlsx", ("Old", rows), ("New", [["id", "response"], ["b", "No."]]))

    with caplog.at_level(logging.WARNING):
        assert [output.id for output in read_outputs(file)] == ["a"]
    assert "other sheets also have rows: 'New' (use --sheet NAME)" in caplog.text
    assert [output.id for output in read_outputs(file, {"sheet": "New"})] == ["b"]


def test_a_formula_without_a_stored_value_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", ("A", [HEAD, ["How many?", "=20+3"], ["Who?", "Ann"]]))

    (warning,) = [one for one in loaded(file).load_warnings if "formula" in one]
    assert warning.startswith(
        "B2: the formula has no stored value and was read as empty "
        "(the program that wrote the file does not calculate formulas)"
    )
    assert "open the file in a spreadsheet program and save it" in warning


def test_formulas_with_values_are_no_warning(tmp_path: Path) -> None:
    """Spreadsheet programs store the value of a formula in its cell and, for strings, also its type."""
    file = workbook(tmp_path / "t.xlsx", ("A", [HEAD, ["How many?", "=20+3"], ["Who?", '="An"&"n"'], ["And?", "x"]]))
    rewrite(file, ("<f>20+3</f><v></v>", "<f>20+3</f><v>23</v>"), ("<f>20+3</f><v />", "<f>20+3</f><v>23</v>"))
    rewrite(file, ('<c r="B3">', '<c r="B3" t="str">'))

    benchmark = loaded(file)

    assert not [warning for warning in benchmark.load_warnings if "formula" in warning]
    assert next(question.raw_answer for question in benchmark) == "23"


def rewrite(file: Path, *pairs: tuple[str, str], shared: str = "") -> None:
    """Replace strings in the first sheet. `shared` is the XML of a string that sheets refer to."""
    import zipfile

    with zipfile.ZipFile(file) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    text = parts["xl/worksheets/sheet1.xml"].decode()
    for old, new in pairs:
        text = text.replace(old, new)
    parts["xl/worksheets/sheet1.xml"] = text.encode()
    if shared:
        parts["xl/sharedStrings.xml"] = f'<sst xmlns="{SHEETS}"><si>{shared}</si></sst>'.encode()
        part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{SHARED_STRINGS}"/></Types>'
        parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(b"</Types>", part.encode())
    with zipfile.ZipFile(file, "w") as book:
        for name, data in parts.items():
            book.writestr(name, data)


def test_hidden_columns_are_named(tmp_path: Path) -> None:
    rows = [["question", "Gold", "Answer"], ["Which gene?", "TP53", "BCL2"]]
    file = workbook(tmp_path / "t.xlsx", ("A", rows), hidden="B")

    (warning,) = [text for text in loaded(file).load_warnings if "hidden" in text]
    assert warning == "hidden columns were read like visible ones: 'Gold'; delete any columns that should not be used"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ((("10", ""), ("5", "superscript")), "10⁵"),
        ((("10", ""), ("-", "superscript"), ("4", "superscript"), (" m", ""), ("2", "superscript")), "10⁻⁴ m²"),
        ((("H", ""), ("2", "subscript"), ("O", "")), "H2O"),
        ((("101", ""), ("2", "subscript")), "101₂"),
        ((("Ca", ""), ("2+", "superscript")), "Ca2+"),
        ((("Ca", ""), ("+2", "superscript")), "Ca+2"),
        ((("14", "superscript"), ("C", "")), "14C"),
        ((("[", ""), ("18", "superscript"), ("F]FDG, (a+b)", ""), ("2", "superscript")), "[18F]FDG, (a+b)²"),
        ((("the 5", ""), ("th", "superscript")), "the 5th"),
        ((("one_x000D_\n", ""), ("two", "")), "one\r\ntwo"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_superscripts_that_are_exponents_are_read(runs: Sequence[tuple[str, str]], text: str, tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", ("A", [HEAD, ["Which?", "PLACE"]]))
    font = {align: f'<rPr><vertAlign val="{align}"/></rPr>' for align in ("superscript", "subscript")}
    rich = "".join(f'<r>{font.get(align, "")}<t xml:space="preserve">{part}</t></r>' for part, align in runs)
    rewrite(file, ('t="inlineStr"><is><t>PLACE</t></is>', 't="s"><v>0</v>'), shared=rich)

    assert [question.raw_answer for question in loaded(file)] == [text]


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ("mmm-yy", "March 2024"),
        ("mmmm yyyy", "March 2024"),
        ("[$-409]mm/yyyy;@", "March 2024"),
        ("d-mmm", "5 March"),
        ("yyyy", "2024"),
        ("dd.mm.yyyy", "2024-03-05"),
        ("[$-F800]dddd, mmmm dd, yyyy", "2024-03-05"),
        ("yyyy-mm-dd h:mm", "2024-03-05"),
    ],
)
def test_dates_are_read_as_their_format_shows_them(shape: str, shown: str, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(HEAD)
    book.active.append(["When?", datetime(2024, 3, 5)])
    book.active["B2"].number_format = shape
    book.save(tmp_path / "t.xlsx")

    assert [question.raw_answer for question in loaded(tmp_path / "t.xlsx")] == [shown]


def test_hidden_rows_are_named_and_a_hidden_sheet_is_not_the_first(tmp_path: Path) -> None:
    file = workbook(
        tmp_path / "t.xlsx", ("notes", [HEAD, ["Which?", "no"]]), ("B", [HEAD, ["Who?", "Ann"], ["What?", "tin"]])
    )
    book = openpyxl.load_workbook(file)
    book["notes"].sheet_state = "hidden"
    for row in (3, 9):  # the last one is empty
        book["B"].row_dimensions[row].hidden = True
    book.active = book["B"]
    book.save(file)
    benchmark = loaded(file)

    assert [question.question for question in benchmark] == ["Who?", "What?"]
    (warning,) = [text for text in benchmark.load_warnings if "hidden" in text]
    assert warning == "hidden rows were read like visible ones: 3; delete any rows that should not be used"


def test_cells_merged_over_several_rows_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    for row in (["question", "answer", "topic", ""], ["Who?", "Ann", "people", ""], ["What?", "tin", None, ""]):
        book.active.append(row)
    book.active.merge_cells("C2:C3")
    book.active.merge_cells("C1:D1")
    book.save(file)

    (warning,) = [text for text in loaded(file).load_warnings if "merged" in text]
    assert warning == (
        "merged cells have a value only in their first row, and were read as empty in the others: C2:C3; unmerge "
        "them, and fill in the value if it belongs to all rows"
    )


@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_the_error_of_a_formula_is_no_truth(tmp_path: Path, suffix: str) -> None:
    rows = [HEAD, ["How many?", "#DIV/0!"], ["Who?", "Ann"], ["And?", "Ben"]]
    if suffix == "xlsx":
        file = workbook(tmp_path / "t.xlsx", ("A", rows))
    else:
        file = tmp_path / "t.csv"
        file.write_text("\n".join(map(",".join, rows)), "utf-8")

    benchmark = loaded(file)

    assert [question.answer_template is None for question in benchmark] == [True, False, False]
    assert any("1 placeholder in place of an answer: '#DIV/0!'" in warning for warning in benchmark.load_warnings)


def test_the_error_of_a_formula_is_no_question(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", ("A", [HEAD, ["#REF!", "Ann"], ["Who?", "Ben"]]))

    with pytest.raises(BenchmarkFileError, match=r"row 2.*the column 'question' contains the formula error #REF!"):
        loaded(file)


@pytest.mark.parametrize("column", ["B", "keywords", "id", "context"])
def test_the_error_of_a_formula_is_nothing_that_a_question_uses(tmp_path: Path, column: str) -> None:
    head = ["question", "A", "B", "answer", "id", "keywords", "context"]
    row = dict(zip(head, ["Which one?", "Lima", "Rome", "Lima", "q1", "towns", "It is a town."], strict=True))
    file = workbook(tmp_path / "t.xlsx", ("S", [head, [*(row | {column: "#VALUE!"}).values()]]))

    with pytest.raises(BenchmarkFileError, match=rf"row 2.*the column '{column}' contains the formula error #VALUE!"):
        loaded(file)


def test_a_cover_sheet_alone_names_the_sheets_with_rows(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", ("Cover", [["Made by", "me"]]), ("Set A", [HEAD, ["Who?", "Ben"]]))

    with pytest.raises(BenchmarkFileError, match=r"no rows.*other sheets also have rows: 'Set A' \(use --sheet NAME\)"):
        loaded(file)


def test_sheets_and_titles_that_hide_the_questions_are_named(tmp_path: Path) -> None:
    rows = [["Frage", "Antwort"], ["Which gene?", "BCL2"]]
    file = workbook(tmp_path / "a.xlsx", ("Notes", [["Read me"], ["Thanks"]]), ("Fragen", rows))
    with pytest.raises(BenchmarkFileError, match=r"no question column.*other sheets also have rows: 'Fragen'"):
        loaded(file)
    titled = workbook(tmp_path / "b.xlsx", ("Fragen", [["Questions of May"], *rows]))
    with pytest.raises(BenchmarkFileError, match="the file has 1 column; delete rows above the column names, such as"):
        loaded(titled)


def test_notes_on_cells_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = workbook(tmp_path / "a.xlsx", ("A", [HEAD, ["Which gene?", "BCL2"]]))
    book = openpyxl.load_workbook(file)
    book["A"]["B2"].comment = Comment("or BCL-XL?", "Ann")
    book.save(file)
    assert len(loaded(file)) == 1
    assert "notes or comments on cells that are not read" in caplog.text


def test_a_question_that_is_a_formula_without_a_value_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", ("A", [HEAD, ["Who?", "Ben"], ["=A9", "Ann"]]))

    with pytest.raises(BenchmarkFileError, match=r"row 3.*'question' is empty.*A3: the formula has no stored value"):
        loaded(file)
