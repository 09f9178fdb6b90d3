"""Tables from other tools as benchmarks: their questions, contexts, options and right answers."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_template.question_template import template_of


def written(folder: Path, name: str, content: Any) -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


def truths(benchmark: Benchmark) -> list[object]:
    templates = [template_of(question) for question in benchmark]
    ids = benchmark.ids
    return [
        None if template is None else template.for_question(id).expected()
        for template, id in zip(templates, ids, strict=True)
    ]


def texts(benchmark: Benchmark) -> list[str]:
    return [question.question for question in benchmark]


OPTIONS: dict[str, tuple[str, Any]] = {
    "columns": ("a.csv", "Nr,Question,Option A,Option B,Correct Answer\n1,Liquid at 20 °C?,iron,mercury,B\n"),
    "letters": ("b.csv", "question,A,B,answer\nLiquid at 20 °C?,iron,mercury,mercury\n"),
    "a list in a cell": ("c.csv", "question,choices,answer\nLiquid at 20 °C?,\"['iron', 'mercury']\",mercury\n"),
    "numbered columns": (
        "d.csv",
        "ctx,ending0,ending1,label\nLiquid at 20 °C?,iron,mercury,1\nSolid?,iron,mercury,0\n",
    ),
    "own letters": ("e.jsonl", {"question": "Liquid at 20 °C?", "options": ["A. iron", "B. mercury"], "answer": "B"}),
    "one text": ("h.jsonl", {"Problem": "Liquid at 20 °C?", "options": "a ) iron , b ) mercury", "correct": "b"}),
    "an object": ("f.json", [{"question": "Liquid at 20 °C?", "choices": {"A": "iron", "B": "mercury"}, "key": "B"}]),
    "in the question": ("g.json", [{"input": "Liquid at 20 °C?\n\nA. iron\nB. mercury", "target": "(B)"}]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_become_letters_and_a_choice(name: str, tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, *OPTIONS[name]))
    question = next(iter(benchmark))
    assert question.question == "Liquid at 20 °C?\n\nA. iron\nB. mercury"
    assert question.raw_answer == "B. mercury"
    assert truths(benchmark)[0] == {"answer": "B"}
    assert "Choice(options={'A': 'iron', 'B': 'mercury'})" in str(question.answer_template)


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ("a ) rs . 1,400 , b ) rs . 300 , c ) none", "A. rs . 1,400\nB. rs . 300\nC. none"),
        ("1,400, 1,300, 1,200", "A. 1,400\nB. 1,300\nC. 1,200"),
        ("140,130,120", "A. 140\nB. 130\nC. 120"),
        ("red, blue,green", "A. red\nB. blue\nC. green"),
    ],
)
def test_a_comma_in_a_number_separates_no_options(options: str, listed: str, tmp_path: Path) -> None:
    row = {"question": "Which?", "options": options, "answer": "B"}
    (question,) = Benchmark.load(written(tmp_path, "a.jsonl", row))
    assert question.question == f"Which?\n\n{listed}"


def test_possible_answers_without_a_right_one_are_alternatives(tmp_path: Path) -> None:
    row = {"question": "What does he do?", "possible_answers": '["politician", "political leader"]'}
    (alone,) = Benchmark.load(written(tmp_path, "a.jsonl", row))
    (chosen,) = Benchmark.load(written(tmp_path, "b.jsonl", {**row, "answer": "A"}))
    (hidden,) = Benchmark.load(written(tmp_path, "c.jsonl", {**row, "label": -1}))
    assert alone.question == "What does he do?"
    assert "'political leader': 'politician'" in str(alone.answer_template)
    assert chosen.question.endswith("A. politician\nB. political leader")
    assert hidden.answer_template is None


def test_a_question_with_several_right_options_needs_all_of_them(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", 'question,A,B,C,answer\nEven?,1,2,4,"B, C"\nOdd?,1,2,4,A\n')
    template = template_of(next(iter(Benchmark.load(file))))
    assert template is not None
    bound = template.for_question("q")
    assert bound.bind({"answer": ["C", "B"]}).verify()
    assert not bound.bind({"answer": ["B"]}).verify()


def test_places_of_options_that_are_not_clear_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "question,A,B,C,answer\nWhich?,x,y,z,1\n")
    with pytest.raises(BenchmarkFileError, match=r"index or number of an option; add --columns choice_by=number"):
        Benchmark.load(file)
    assert truths(Benchmark.load(file, columns={"choice_by": "number"})) == [{"answer": "A"}]
    assert truths(Benchmark.load(file, columns={"choice_by": "index"})) == [{"answer": "B"}]
    with pytest.raises(BenchmarkFileError, match="did you mean 'number'"):
        Benchmark.load(file, columns={"choice_by": "numbers"})


def test_a_mapping_of_options_names_choices(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "question,Wahl,answer\nWhich?,x; y,x\n")
    with pytest.raises(BenchmarkFileError, match="no column can be mapped to 'options'; did you mean 'choices'"):
        Benchmark.load(file, columns={"options": "Wahl"})


def test_a_right_answer_that_is_no_option_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path, "a.csv", "question,A,B,answer\nWhich?,x,y,tin\n")
    assert truths(Benchmark.load(file)) == [{"answer": "tin"}]
    assert "the correct answer matches none of the options and is compared as text in line 2" in caplog.text


def test_an_answer_that_keeps_others_from_being_options_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Benchmark.load(written(tmp_path, "a.csv", "question,A,B,answer\nWhich?,x,y,B\nWhat?,x,y,z\nWho?,Bo,Al,Bo\n"))
    assert "none of the options in line 3, so none of the 3 questions with options is compared by its" in caplog.text


def test_one_question_with_several_contexts_is_several_questions(tmp_path: Path) -> None:
    file = written(
        tmp_path, "a.csv", "question,text,answer\nMay I sell it?,Yes you may.,Yes\nMay I sell it?,Never.,No\n"
    )
    benchmark = Benchmark.load(file)
    assert texts(benchmark) == ["Yes you may.\n\nMay I sell it?", "Never.\n\nMay I sell it?"]
    assert "'text' is prepended to each question" in benchmark.load_notes


CONTEXTS = {
    "a mentioned passage": ({"question": "What does the passage say of Bo?", "passage": "Bo is a cat."}, True),
    "a context of its own": ({"question": "What is Bo?", "context": "Bo is a cat."}, False),
    "retrieved texts": ({"question": "What is Bo?", "retrieved_contexts": ["Bo is a cat."]}, False),
    "the input of an instruction": ({"instruction": "Summarize.", "input": "Bo is a cat."}, True),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_are_joined_if_questions_need_them(name: str, tmp_path: Path) -> None:
    row, joined = CONTEXTS[name]
    benchmark = Benchmark.load(written(tmp_path, "a.json", [{**row, "expected": "a cat"}]))
    asked, context = list(row)[:2]
    assert texts(benchmark) == [f"Bo is a cat.\n\n{row[asked]}" if joined else row[asked]]
    (note,) = [text for text in benchmark.load_notes if text.startswith(repr(context))]
    assert joined or f"--columns 'question={{{context}}}\\n\\n{{{asked}}}'" in note


def test_a_short_input_of_an_instruction_is_joined(tmp_path: Path) -> None:
    rows = "instruction,input,expected\nTranslate into English.,Hallo,Hello\nAdd 1 and 1.,,2\n"
    benchmark = Benchmark.load(written(tmp_path, "a.csv", rows))
    assert texts(benchmark) == ["Hallo\n\nTranslate into English.", "Add 1 and 1."]


def test_the_cure_for_a_context_that_is_not_joined_works(tmp_path: Path) -> None:
    file = written(
        tmp_path, "a.csv", "question,context,answer\nWhat is Bo?,\"['Bo is a cat.', 'A small one.']\",a cat\n"
    )
    benchmark = Benchmark.load(file, columns={"question": "{context}\\n\\n{question}"})
    assert texts(benchmark) == ["Bo is a cat.\n\nA small one.\n\nWhat is Bo?"]
    with pytest.raises(BenchmarkFileError, match="no column 'contxt'"):
        Benchmark.load(file, columns={"question": "{contxt} {question}"})


def test_questions_that_share_a_context_are_about_it(tmp_path: Path) -> None:
    shape = {"paragraphs": [{"context": "Bo, 5, is a cat.", "qas": [
        {"id": "a", "question": "What is Bo?", "answers": [{"text": "a cat", "answer_start": 10}]},
        {"id": "b", "question": "How old is Bo?", "answers": []},
    ]}]}  # fmt: skip
    benchmark = Benchmark.load(written(tmp_path, "squad.json", {"version": "2", "data": [shape]}))
    assert benchmark.ids == ("a", "b")
    assert benchmark.get("a").question == "Bo, 5, is a cat.\n\nWhat is Bo?"
    assert [question.raw_answer for question in benchmark] == ["a cat", None]
    assert benchmark.load_notes[0].startswith("the rows were read from `data.*.paragraphs.*.qas.*` in squad.json")


def test_a_question_of_messages_is_asked_as_text(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": "What is 1 + 1?"}]
    several = [{"role": "system", "content": "Be short."}, *asked]
    rows = [{"input": asked, "target": 2}, {"input": several, "target": 2}]
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    questions = [question.question for question in Benchmark.load(tmp_path / "a.json")]
    assert questions == ["What is 1 + 1?", "System: Be short.\n\nUser: What is 1 + 1?"]

    image = [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]
    (tmp_path / "b.json").write_text(json.dumps([{"input": image, "target": 2}]), "utf-8")
    with pytest.raises(BenchmarkFileError, match="the value contains a part of type 'image', not only text"):
        Benchmark.load(tmp_path / "b.json")


def test_blank_rows_of_a_table_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer\nHow many?,2\n\n,\nWhich gas?,NO\n", "utf-8")
    benchmark = Benchmark.load(tmp_path / "a.csv")
    assert [question.question for question in benchmark] == ["How many?", "Which gas?"]
    assert "blank rows were left out: line 3, line 4" in benchmark.load_notes


def test_rows_that_are_too_short_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text("id,question,answer,category\n1,How many?,2,x\n2,Which gas?,geo\n", "utf-8")
    Benchmark.load(tmp_path / "a.csv")
    assert "in rows with fewer cells than the header, the missing cells are treated as empty: line 3" in caplog.text


@pytest.mark.parametrize(
    ("column", "cells", "right", "wrong"),
    [
        ("report_contains", ["orders", "users"], "Users and orders", "orders"),
        ("must_include_any", ["orders", "users"], "the users", "none"),
        ("expected_keywords", [["20", "twenty"], ["days"]], "Twenty days", "20 weeks"),
    ],
)
def test_names_of_columns_say_how_a_response_is_searched(
    column: str, cells: list[Any], right: str, wrong: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"question": "What?", column: cells}]), "utf-8")
    (question,) = Benchmark.load(tmp_path / "a.json", columns={"answer": column})
    template = template_of(question)
    assert template is not None
    bound = template.for_question(question.id)
    verdicts = [bound.bind({"answer": None}, text).verify() for text in (right, wrong)]
    assert verdicts == [True, False]


@pytest.mark.parametrize("cell", [None, [], [None], [""], ""])
def test_a_row_without_texts_to_search_has_no_template(cell: Any, tmp_path: Path) -> None:
    rows = [{"question": "What?", "must_include": ["orders"]}, {"question": "Who?", "must_include": cell}]
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    first, second = Benchmark.load(tmp_path / "a.json")
    assert (first.answer_template is None, second.answer_template is None) == (False, True)


def test_file_names_are_no_right_answers(tmp_path: Path) -> None:
    row = {"question": "How many days?", "expected_docs": ["leave_2026.md"], "expected_files": ["a.md"]}
    (tmp_path / "a.json").write_text(json.dumps([row]), "utf-8")
    assert Benchmark.load(tmp_path / "a.json").check().errors


def test_a_column_with_an_empty_name_is_no_context(tmp_path: Path) -> None:
    rows = [{"question": "Which city is it?", "answer": "Paris", "": text} for text in ("It is so.", "It is not so.")]
    rows[1] |= {"question": "Which town is it?"}
    (tmp_path / "a.json").write_text(json.dumps([*rows, {"question": "Which city is it?", "answer": "Lyon"}]), "utf-8")
    with pytest.raises(BenchmarkFileError, match="the question in row 0 has the same text"):
        Benchmark.load(tmp_path / "a.json")


def test_names_of_files_are_no_contexts(tmp_path: Path) -> None:
    rows = [{"document": f"part-{n % 2}.md", "question": f"What does the document say of {n}?"} for n in range(6)]
    (tmp_path / "a.json").write_text(json.dumps([{**row, "answer": 7} for row in rows]), "utf-8")

    assert [question.question for question in Benchmark.load(tmp_path / "a.json")] == [row["question"] for row in rows]


def test_a_part_of_an_object_can_be_the_right_answer(tmp_path: Path) -> None:
    rows = [{"description": f"What is {n} + {n}?", "evaluation": {"match": str(2 * n)}} for n in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    benchmark = Benchmark.load(tmp_path / "a.json", columns={"question": "description", "answer": "evaluation.match"})

    assert [question.raw_answer for question in benchmark] == ["0", "2", "4"]
    with pytest.raises(BenchmarkFileError, match=r"the file has no column 'evaluation\.mtch'"):
        Benchmark.load(tmp_path / "a.json", columns={"question": "description", "answer": "evaluation.mtch"})


def test_rows_of_a_json_document_are_found_or_named(tmp_path: Path) -> None:
    by_id = Benchmark.load(written(tmp_path, "a.json", {"7": {"QUESTION": "A?", "final_decision": "yes"}, "8": {"QUESTION": "B?", "final_decision": "no"}}))  # fmt: skip  # noqa: E501
    assert by_id.ids == ("7", "8")
    two = written(
        tmp_path, "b.json", {"dev": [{"question": "A?", "answer": "1"}], "test": [{"question": "B?", "answer": "2"}]}
    )
    with pytest.raises(
        BenchmarkFileError, match=r"several lists of rows; specify the path to the rows with --rows 'dev\.\*' or"
    ):
        Benchmark.load(two)
    assert texts(Benchmark.load(two, columns={"rows": "test"})) == ["B?"]
    with pytest.raises(BenchmarkFileError, match="the value has no entry 'train'"):
        Benchmark.load(two, columns={"rows": "train"})
    lines = written(tmp_path, "c.jsonl", {"input": "A?", "ideal": "1"})
    with pytest.raises(BenchmarkFileError, match="--rows applies only to JSON documents"):
        Benchmark.load(lines, columns={"rows": "x"})


def test_a_benchmark_in_json_is_not_taken_for_a_table(tmp_path: Path) -> None:
    benchmark = Benchmark.create("b")
    benchmark.add_question("Who?", raw_answer="Ann", question_id="q")
    for name in ("b.json", "b.jsonl"):
        benchmark.save(tmp_path / name)
        assert Benchmark.load(tmp_path / name).ids == ("q",)
        with pytest.raises(BenchmarkFileError, match="the file is a benchmark, which has no columns"):
            Benchmark.load(tmp_path / name, columns={"question": "question"})
    declared = {"question": "Who?", "answer": {"name": {"description": "The name", "ground_truth": "Ann"}}}
    assert truths(Benchmark.load(written(tmp_path, "d.jsonl", declared))) == [{"name": "Ann"}]


def test_bytes_in_parquet_are_text_or_refused(tmp_path: Path) -> None:
    rows = [
        {"question": "Capital of Peru?", "answer": b"Lima"},
        {"question": "Capital of Chad?", "answer": b"\xff\x00"},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[:1]), tmp_path / "t.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "u.parquet")

    assert [question.raw_answer for question in Benchmark.load(tmp_path / "t.parquet")] == ["Lima"]
    with pytest.raises(BenchmarkFileError, match="bytes that are not text"):
        Benchmark.load(tmp_path / "u.parquet")


def test_parquet_and_excel_have_their_own_types(tmp_path: Path) -> None:
    rows = [{"question": "When?", "answer": datetime.date(2024, 1, 15)}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["question", "answer"])
    book.active.append(["When?", datetime.datetime(2024, 1, 15)])
    book.save(tmp_path / "t.xlsx")
    for name in ("t.parquet", "t.xlsx"):
        assert truths(Benchmark.load(tmp_path / name)) == [{"answer": "2024-01-15"}]


def test_texts_that_parquet_stores_as_bytes_are_read(tmp_path: Path) -> None:
    rows = [{"question": "Wo fließt der Rhein?".encode(), "answer": "Köln".encode()}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    benchmark = Benchmark.load(tmp_path / "t.parquet")
    assert [(each.question, each.raw_answer) for each in benchmark] == [("Wo fließt der Rhein?", "Köln")]


def test_a_table_of_another_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes("Frage,answer\nWie heißt der größte Fluß?,Rhein\n".encode("cp1252"))
    benchmark = Benchmark.load(file, columns={"question": "Frage"})
    assert texts(benchmark) == ["Wie heißt der größte Fluß?"]
    assert "was read as cp1252 (for example, 'heißt')" in benchmark.load_notes[0]
    file.write_bytes("question,answer\nЩЮЯ?,ЖФ\n".encode("cp1251"))
    with pytest.raises(
        BenchmarkFileError, match="encoding could not be determined reliably; set the encoding with --encoding"
    ):
        Benchmark.load(file)
    assert texts(Benchmark.load(file, columns={"encoding": "cp1251"})) == ["ЩЮЯ?"]


def test_html_entities_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Benchmark.load(written(tmp_path, "t.csv", "question,answer\nA &amp; B?,x &lt; 5\nAT&T;?,R&D\n"))
    assert "HTML entities, which are not decoded: &amp;, &lt; (2 in total)" in caplog.text


def test_unused_columns_are_named_and_an_index_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Benchmark.load(written(tmp_path, "t.csv", ",question,answer,level,\n0,A?,x,1,\n1,B?,y,2,\n"))
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "unused columns: 'level'; map them with --columns"
    ]


def test_templates_from_answers_are_told_from_those_of_a_row(tmp_path: Path) -> None:
    rows = [
        {"question": "A?", "answer": "x"},
        {"question": "B?", "answer": "y", "answer_template": "class Answer: ..."},
    ]
    benchmark = Benchmark.load(written(tmp_path, "t.json", rows))
    assert benchmark.made_templates == {"q1-a"}


@pytest.mark.parametrize(
    ("column", "passing", "failing"),
    [
        ("must_include", "RAIN makes wet (very), and more", "rain, and wet"),
        ("should_not_contain", "The sun shines.", "It is wet (very)."),
    ],
)
def test_texts_that_a_response_must_have_are_searched_in_it(
    tmp_path: Path, column: str, passing: str, failing: str
) -> None:
    rows = [{"question": "Write about the weather.", column: ["rain", "wet (very)"]}]
    benchmark = Benchmark.load(written(tmp_path, "t.json", rows), columns={"answer": column})
    (question,) = benchmark
    template = template_of(question)
    assert template is not None
    checked = template.for_question("q")
    assert [checked.bind({}, response=text).verify() for text in (passing, failing)] == [True, False]


_CELL = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_VALUE = st.recursive(_CELL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
_NAMES = st.sampled_from(["question", "answer", "choices", "A", "B", "context", "label", "id", "text", "rows", "data"])


@given(st.lists(st.dictionaries(_NAMES, _VALUE, max_size=6), max_size=3) | st.dictionaries(_NAMES, _VALUE, max_size=4))
def test_any_json_is_a_benchmark_or_an_error_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(value), "utf-8")
    try:
        benchmark = Benchmark.load(file)
    except BenchmarkFileError as error:
        place = str(error)
    else:
        place = str(benchmark.path)
        assert all(question.question.strip() for question in benchmark)
    assert place.startswith(str(file))


def test_an_id_is_no_guess_for_the_right_answer(tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, "a.csv", "rec_uid,question,metal\nx1,Liquid at 20?,mercury\n"))
    assert "if 'metal' contains the correct answers" in benchmark.missing_answers


def test_letters_alone_are_not_appended_as_options(tmp_path: Path) -> None:
    rows = [{"question": "Liquid?\n1) iron 2) mercury (A is 1, B is 2)", "choices": ["A", "B"], "answer": "B"}]
    benchmark = Benchmark.load(written(tmp_path, "a.json", rows))
    assert texts(benchmark) == [rows[0]["question"]]
    assert truths(benchmark) == [{"answer": "B"}]


def test_lists_of_labels_are_no_right_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"question": f"Which metal {n}?", "labels": ["chemistry", "metals"]} for n in range(3)]
    benchmark = Benchmark.load(written(tmp_path, "a.json", rows))
    assert truths(benchmark) == [None, None, None]
    assert "if 'labels' contains the correct answers, add --columns answer=labels" in benchmark.missing_answers
    assert truths(Benchmark.load(written(tmp_path, "b.csv", "question,labels\nMetal?,gold\n"))) == [{"answer": "gold"}]


@pytest.mark.parametrize(
    "text",
    [
        "copper,29\nsilver,47\ncobalt,29\n",
        "pictures/oak.png,masks/oak.png\npictures/elm.png,masks/elm.png\n",
        "How many legs has a spider?,8\nHow many legs has an ant?,6\n",
    ],
)
def test_a_table_without_a_header_is_refused(text: str, tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", text)
    first, second = text.splitlines()[0].split(",")
    for columns in (None, {"question": first, "answer": second}):
        with pytest.raises(BenchmarkFileError, match="the first row looks like data") as refused:
            Benchmark.load(file, columns=columns)
        assert "karenina: 1" not in str(refused.value)


def test_lines_above_the_header_are_named(tmp_path: Path) -> None:
    file = written(
        tmp_path, "a.csv", "Metals of our course,,\n,,\nid,question,answer\n1,Liquid at 20 \u00b0C?,mercury\n"
    )
    with pytest.raises(BenchmarkFileError, match="the header seems to be in line 3; delete the lines above it"):
        Benchmark.load(file)


def test_a_header_of_other_names_is_a_header(tmp_path: Path) -> None:
    for header in ("word,2024", "metal,0"):
        file = written(tmp_path, "a.csv", f"{header}\ncopper,29\nsilver,47\n")
        first, second = header.split(",")
        assert truths(Benchmark.load(file, columns={"question": first, "answer": second}))[0] == {"answer": "29"}


def test_pictures_in_a_workbook_are_named(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["question", "answer"])
    book.active.append(["Which dose?", 42])
    book.save(tmp_path / "a.xlsx")
    with ZipFile(tmp_path / "a.xlsx", "a") as parts:
        parts.writestr("xl/media/image1.png", b"")

    (warning,) = Benchmark.load(tmp_path / "a.xlsx").load_warnings

    assert "the workbook contains 1 picture that is not read" in warning


def test_a_workbook_with_the_name_of_a_csv_is_named(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["question", "answer"])
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "a.xlsx").rename(tmp_path / "a.csv")
    with pytest.raises(
        BenchmarkFileError, match=r"the file is an Excel workbook; rename the file so that its name ends in \.xlsx"
    ):
        Benchmark.load(tmp_path / "a.csv")
    with pytest.raises(BenchmarkFileError, match="the file is not an Excel workbook; it may be a CSV file"):
        Benchmark.load(written(tmp_path, "b.xlsx", "question,answer\nLiquid?,mercury\n"))


def test_a_second_expected_column_is_named_and_holds_no_grades(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"input": text, "expected_topic": topic, "expected_closed": closed}
        for text, topic, closed in [("My parcel is wet", "damage", True), ("Where is it?", "late_delivery", False)] * 2
    ]
    rows = [{**row, "id": str(place)} for place, row in enumerate(rows)]
    file = written(tmp_path, "a.json", rows)
    Benchmark.load(file)
    columns = "answer.expected_topic=expected_topic,answer.expected_closed=expected_closed"
    assert f"use --columns {columns} with `karenina check` and `run` to compare all of them" in caplog.text
    assert "grades, not correct answers" not in caplog.text
    assert "the answers are labels (damage, late_delivery) that no question mentions" in caplog.text
    both = Benchmark.load(file, columns=dict(pair.split("=") for pair in columns.split(",")))
    assert truths(both)[0] == {"expected_topic": "damage", "expected_closed": True}


def test_labels_that_the_question_names_are_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"question": f"Is text {n} spam or not_spam?", "answer": "not_spam"} for n in range(4)]
    Benchmark.load(written(tmp_path, "a.json", rows))
    assert "the answers are labels" not in caplog.text


def test_options_whose_texts_are_letters_stay_letters(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "question,A,B,C,answer\nWhich vitamin?,B,C,D,A\n")

    assert "Literal['A', 'B', 'C']" in str(
        next(iter(Benchmark.load(file, columns={"choice_by": "letter"}))).answer_template
    )


def test_lines_with_options_and_a_key_are_a_table(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Gas?", "choices": {"text": ["iron", "neon"], "label": ["A", "B"]}, "answerKey": "B"}
    benchmark = Benchmark.load(written(tmp_path, "arc.jsonl", row))
    assert (benchmark.ids, texts(benchmark), truths(benchmark)) == (
        ("a",),
        ["Gas?\n\nA. iron\nB. neon"],
        [{"answer": "B"}],
    )


@pytest.mark.parametrize("key", ["answers", "correct_answer"])
def test_a_misspelt_answer_with_fields_is_not_a_table(tmp_path: Path, key: str) -> None:
    fields = {"gene": {"description": "The gene", "ground_truth": "BCL2"}}
    with pytest.raises(BenchmarkFileError, match=f"unknown key '{key}'"):
        list(Benchmark.load(written(tmp_path, "a.jsonl", {"question": "Gene?", key: fields})))
