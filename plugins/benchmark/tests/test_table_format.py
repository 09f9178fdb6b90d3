"""A table of questions and answers as a benchmark, without a YAML file."""

from __future__ import annotations

import json
from datetime import time, timedelta
from pathlib import Path

import openpyxl
import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.checking import check_file
from karenina_benchmark.question_ids import make_question_id
from karenina_template.question_template import template_of


def written(folder: Path, text: str, name: str = "genes.csv") -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def expected(benchmark: Benchmark, id: str) -> object:
    template = template_of(benchmark.get(id))
    return None if template is None else template.for_question(id).expected()


def test_a_row_is_a_question_with_its_answer(tmp_path: Path) -> None:
    benchmark = Benchmark.load(
        written(tmp_path, "Question;ANSWER;id;keywords\nWhich gene?;BCL2;gene;a, b\nIn which year?;2016;;\nWhy?;;;\n")
    )
    assert benchmark.name == "genes"
    assert benchmark.ids == ("gene", "q2-in-which-year", "q3-why")
    assert [question.raw_answer for question in benchmark] == ["BCL2", "2016", None]
    assert benchmark.get("gene").keywords == ("a", "b")
    assert expected(benchmark, "gene") == {"answer": "BCL2"}
    assert expected(benchmark, "q2-in-which-year") == {"answer": "2016"}
    assert expected(benchmark, "q3-why") is None


def test_rows_without_an_answer_are_errors_that_name_the_cell(tmp_path: Path) -> None:
    benchmark, report = check_file(written(tmp_path, "question,answer\nWhich gene?,BCL2\nWhy?,\nHow?,N/A\n"))

    assert benchmark is not None
    errors = [str(finding) for finding in report.findings if finding.level == "error"]
    cure = "; write the answer, leave the question out (`karenina run --skip-broken`), or "
    for error, what in zip(
        errors, ("3: the correct answer is empty in 'answer'", "4: the correct answer is 'N/A'"), strict=True
    ):
        assert f"genes.csv, line {what}{cure}" in error


def test_the_answer_is_compared_as_text_without_regard_to_case(tmp_path: Path) -> None:
    template = template_of(Benchmark.load(written(tmp_path, "question,answer\nWhich?,BCL2\n")).get("q1-which"))
    assert template is not None
    assert template.for_question("q").bind({"answer": " bcl2"}).verify()
    assert not template.for_question("q").bind({"answer": "TP53"}).verify()


def test_an_excel_table_is_read_like_csv(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["Question", "Answer"], ["In which year?", 2016.0], ["Is it?", True]):
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    benchmark = Benchmark.load(tmp_path / "t.xlsx")
    assert [expected(benchmark, id) for id in benchmark.ids] == [{"answer": "2016"}, {"answer": True}]


def test_an_answer_with_other_names_is_right_by_each_of_them(tmp_path: Path) -> None:
    rows = [{"value": "Bob", "aliases": ["Robert", "Bob"]}, {"value": "NYC", "aliases": []}]
    lines = [json.dumps({"question": f"Who is {at}?", "answer": row}) for at, row in enumerate(rows)]
    benchmark = Benchmark.load(written(tmp_path, f"[{','.join(lines)}]", "t.json"))
    assert [expected(benchmark, id) for id in benchmark.ids] == [{"answer": "Bob"}, {"answer": "NYC"}]
    template = template_of(benchmark.get(benchmark.ids[0]))
    assert template is not None
    assert [template.for_question("q").bind({"answer": name}).verify() for name in ("bob", "Robert", "NYC")] == [
        *(True, True, False)
    ]


@pytest.mark.parametrize("truth", ["March 2024", "Mar. 2024", "März 2024", "mars 2024"])
def test_a_month_of_a_year_may_be_written_in_other_ways(truth: str, tmp_path: Path) -> None:
    template = template_of(Benchmark.load(written(tmp_path, f"id,question,answer\nq,When?,{truth}\n")).get("q"))
    assert template is not None
    bind = template.for_question("q").bind

    for right in (truth, "march 2024", "MAR 2024", "March, 2024", "2024-03", "03/2024", "3/2024"):
        assert bind({"answer": right}).verify(), right
    for wrong in ("April 2024", "March 2023", "2024-04", "2024", "March"):
        assert not bind({"answer": wrong}).verify(), wrong


@pytest.mark.parametrize("truth", ["Windows 2000", "Mars 2020"])
def test_words_before_a_year_are_no_month(truth: str, tmp_path: Path) -> None:
    template = template_of(Benchmark.load(written(tmp_path, f"id,question,answer\nq,Which?,{truth}\n")).get("q"))

    assert template is not None
    assert "SynonymMap" not in template.source


def test_numbers_of_excel_are_read_as_shown(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    shown = [
        (0.05, "0.0%"),
        (0.07, "0%"),
        (1234.5, '"$"#,##0.00'),
        (-3, "#,##0 [$\u20ac-407]"),
        (5, "[$-409]0.0"),
        (6, "0"),
        (99.5, '0.0"%"'),
        (12, "0\\%"),
        (0.05, '0% "of 100%"'),
        (1200, '_-* #,##0.00\\ _\u20ac_-;-* #,##0.00\\ _\u20ac_-;_-* "-"??\\ _\u20ac_-;_-@_-'),
        (8, '_-* #,##0.00\\ "\u20ac"_-'),
        (9, "_($* #,##0_)"),
        (5, '0 "mg"'),
        (36.6, '0.0"\u00a0\u00b0C"'),
        (7, "[Red]0\\ \\k\\g;[Blue]-0\\ \\k\\g"),
        (3, 'General" mL"'),
        (5000, '0,"k"'),
        (4, '0 "up";-0 "down"'),
        (2, '"No. "0'),
        (11, '0 "people"'),
        (13, '0 "(mg)"'),
        (2020, '0"\u5e74"'),
    ]
    sheet.append(["Question", "Answer"])
    for number, (value, shape) in enumerate(shown, 2):
        sheet.append([f"What is {number}?", value])
        sheet.cell(number, 2).number_format = shape
    book.save(tmp_path / "t.xlsx")
    benchmark = Benchmark.load(tmp_path / "t.xlsx")
    answers = ["5%", "7%", "$ 1234.5", "\u20ac -3", "5", "6", "99.5%", "12%", "5%", "1200", "\u20ac 8", "$ 9"]
    answers += ["5 mg", "36.6 \u00b0C", "7 kg", "3 mL", "5000", "4", "2", "11", "13", "2020"]
    assert [expected(benchmark, id) for id in benchmark.ids] == [{"answer": answer} for answer in answers]


@pytest.mark.parametrize(
    ("value", "shape", "shown"),
    [
        (time(12, 30), "h:mm", "12:30"),
        (time(9, 5), "hh:mm", "09:05"),
        (time(9, 5, 7), "h:mm", "9:05:07"),
        (time(0, 5), "h:mm AM/PM", "12:05 AM"),
        (time(14, 5), "[$-409]h:mm AM/PM", "2:05 PM"),
        (time(0, 3, 5), "mm:ss", "3:05"),
        (timedelta(hours=26, minutes=30), "[h]:mm", "26:30"),
        (timedelta(minutes=90), "[mm]:ss", "90:00"),
        (timedelta(minutes=3), "[h]:mm:ss", "0:03:00"),
    ],
)
def test_times_of_excel_are_read_as_shown(value: object, shape: str, shown: str, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["Question", "Answer"])
    book.active.append(["When is it?", value])
    book.active.cell(2, 2).number_format = shape
    book.save(tmp_path / "t.xlsx")

    assert [question.raw_answer for question in Benchmark.load(tmp_path / "t.xlsx")] == [shown]


def test_a_title_above_the_header_is_named_once(tmp_path: Path) -> None:
    file = written(tmp_path, "Exam of 2024\n\nquestion,answer\nWhich gene?,BCL2\nWhich other?,TP53\n")

    with pytest.raises(ValueError, match=r"line 3: the row has 2 cells.*delete lines above the column names") as found:
        Benchmark.load(file)
    assert str(found.value).count("the row has") == 1


def test_columns_of_other_names_are_mapped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path, "Prompt,Gold,Level\nWhich gene?,BCL2,3\n")
    benchmark = Benchmark.load(file, columns={"question": "Prompt", "answer": "Gold"})
    assert expected(benchmark, "q1-which-gene") == {"answer": "BCL2"}
    assert "unused columns: 'Level'" in caplog.text


@pytest.mark.parametrize(("type", "meant"), [("nmber", "number"), ("numericc", "numeric"), ("lst", "list")])
def test_an_unknown_type_among_known_ones_is_an_error(type: str, meant: str, tmp_path: Path) -> None:
    file = written(tmp_path, f"question,answer,type\nHow many?,1,number\nWhen?,2,number\nHow long?,3,{type}\n")
    with pytest.raises(ValueError, match=f"line 4: unknown answer type '{type}'; did you mean '{meant}'"):
        Benchmark.load(file)


@pytest.mark.parametrize(
    ("column", "types", "is_named"),
    [
        ("typ", ("quantity", "quantity"), True),
        ("tpye", ("number", "number"), True),
        ("unit kind", ("molecule", "text"), True),
        ("modality", ("text", "text"), False),
        ("typ", ("easy", "hard"), False),
    ],
)
def test_a_column_of_types_with_another_name_is_named(
    column: str, types: tuple[str, str], is_named: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Benchmark.load(written(tmp_path, f"question,answer,{column}\nHow much?,1,{types[0]}\nHow many?,2,{types[1]}\n"))
    message = f"the column '{column}' contains types of answers, but is not used; did you mean 'type'?"
    assert (message in caplog.text) is is_named


def test_a_column_type_with_other_words_is_unused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Benchmark.load(written(tmp_path, "question,answer,type\nHow many?,1,easy\nWhen?,2,hard\nWhich?,3,text\n"))
    assert "unused columns: 'type'" in caplog.text


def test_another_column_that_could_be_the_right_answer_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path, "question,answer,reference\nWhich gene?,BCL2,p. 12\n")
    Benchmark.load(file)
    cure = "to choose another column, add --columns answer=answer"
    assert f"'reference' was chosen as the column with the correct answers, not 'answer'; {cure}" in caplog.text
    caplog.clear()
    assert expected(Benchmark.load(file, columns={"answer": "answer"}), "q1-which-gene") == {"answer": "BCL2"}
    assert "is the right answer" not in caplog.text


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("Frage,Antwort\na,b\n", {}, "--columns question=COLUMN,answer=COLUMN"),
        ("question,answer\na,b\n", {"qestion": "question"}, "did you mean 'question'"),
        ("question,answer\na,b\n", {"answer": "gold"}, "no column 'gold'; use one of its columns: question, answer"),
        ("question,answer\na,b\na,c\n", {}, "line 3: the question in line 2 has the same text"),
    ],
)
def test_a_wrong_table_is_refused_with_the_cure(text: str, columns: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError) as caught:
        Benchmark.load(written(tmp_path, text), columns=columns)
    assert says in str(caught.value)


def test_columns_of_another_format_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "karenina: 1\nname: b\nquestions: []\n", "b.yaml")
    with pytest.raises(BenchmarkFileError, match="columns cannot be mapped"):
        Benchmark.load(file, columns={"question": "q"})


def test_the_yaml_example_of_a_notice_reads_the_table(tmp_path: Path) -> None:
    table = Benchmark.load(written(tmp_path, "question,answer\nWhich gene?,BCL2\n"))
    shown = table.load_notice.partition("\n")[2]
    assert shown.startswith("karenina: 1\n")
    again = Benchmark.load(written(tmp_path, shown, "genes.yaml"))
    assert again.ids == table.ids
    assert expected(again, "q1-which-gene") == expected(table, "q1-which-gene")


def test_a_table_without_answers_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = Benchmark.load(written(tmp_path, "question\nWhich gene?\n"))
    assert (benchmark.load_notice, benchmark.get("q1-which-gene").has_template) == ("", False)
    assert [record.getMessage() for record in caplog.records] == [benchmark.missing_answers]


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("Which gene is the target?", "q7-which-gene-is"),
        ("  Wie heißt's, BCL-2?", "q7-wie-heißt-s"),
        ("???", "q7"),
        ("pneumonoultramicroscopic silicovolcanoconiosis?", "q7-pneumonoultramicroscopic"),
        ("x" * 99, "q7-" + "x" * 24),
    ],
)
def test_ids_are_short_and_can_be_typed(text: str, id: str) -> None:
    assert make_question_id(7, text) == id


def test_ids_of_yaml_do_not_change_between_loads(tmp_path: Path) -> None:
    file = written(
        tmp_path, "karenina: 1\nname: b\nquestions:\n  - question: Which gene?\n  - question: Why?\n", "b.yaml"
    )
    assert Benchmark.load(file).ids == Benchmark.load(file).ids == ("q1-which-gene", "q2-why")
