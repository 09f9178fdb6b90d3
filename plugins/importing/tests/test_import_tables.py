"""Tables and JSON of any tool: their columns, options, contexts and encodings, and the messages about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from imports import import_file, karenina, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_template.question_template import template_of

RECORD = ("--recordings", "answers.jsonl")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(file: str, content: Any, *arguments: str) -> tuple[list[str], list[str | None], str]:
    """Return the questions and right answers of a file, and the messages."""
    path = Path(file)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    done = import_file(path, *arguments)
    assert done.code == 0, done.err
    questions = list(Benchmark.load("out.yaml"))
    return [question.question for question in questions], [question.raw_answer for question in questions], done.err


def test_goldens_with_outputs_become_questions_and_recordings(tmp_path: Path) -> None:
    rows = [
        {
            "input": "Capital of Peru?",
            "actual_output": "The answer is Lima",
            "expected_output": "Lima",
            "label": "pass",
        },
        {
            "input": "Capital of Chile?",
            "actual_output": "The answer is Lima",
            "expected_output": "Santiago",
            "label": "fail",
        },
    ]
    done = import_file(write_json(tmp_path / "goldens.json", rows), *RECORD, "--map", "answer=text")
    assert done.code == 0, done.err
    assert list(run_imported(tmp_path).values()) == [True, False]


def test_a_grade_is_not_imported_as_the_right_answer() -> None:
    rows = [
        {"question": "A?", "gold": "$ 5 million", "response": "$ 7 million", "label": "Incorrect Answer"},
        {"question": "B?", "gold": "$ 1 million", "response": "$ 1 million", "label": "Correct Answer"},
    ]
    _, answers, err = imported("a.json", rows)
    assert answers == ["$ 5 million", "$ 1 million"]
    assert "'label' contains grades, not correct answers; 'gold' contains the correct answers" in err


def test_options_in_columns_are_imported_with_their_letters() -> None:
    text = "No,Question,Option A,Option B,Option C,Correct Answer\n1,Which is a gas?,neon,iron,,A\n2,Salt?,a,b,c,C\n"
    questions, answers, _ = imported("a.csv", text, "--map", "answer=choice")
    assert questions == ["Which is a gas?\n\nA. neon\nB. iron", "Salt?\n\nA. a\nB. b\nC. c"]
    assert answers == ["A. neon", "C. c"]
    assert "choices: Option A|Option B|Option C" in Path("out.mapping.yaml").read_text("utf-8")


@pytest.mark.parametrize("answer", ["auto", "choice"])
def test_the_name_of_a_column_of_options_is_the_right_answer(answer: str) -> None:
    text = "question,option_1,option_2,answer\nWhich is a gas?,iron,neon,option_2\nSalt?,a,option_2,Option_1\n"
    _, answers, _ = imported("a.csv", text, "--map", f"answer={answer}")
    assert answers == ["B. neon", "A. a"]


@pytest.mark.parametrize("answer", ["auto", "choice"])
def test_the_label_of_an_option_is_the_right_answer(answer: str) -> None:
    lettered = [
        {"question": f"{n}?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "key": "B"} for n in range(20)
    ]
    choices: list[dict[str, Any]] = [
        {"text": ["a", "b", "c"], "label": ["1", "2", "3"]},
        {"text": ["3", "2", "1"], "label": [1, 2, 3]},
        {"text": ["a", "b", "c"], "label": ["C", "B", "A"]},
    ]
    labelled = [{"question": f"No. {n}?", "choices": one, "key": "3A"[n == 2]} for n, one in enumerate(choices)]
    objects = [{"text": text, "label": label} for text, label in zip("abc", "123", strict=True)]
    rows = [*lettered, *labelled, {"question": "As objects?", "choices": objects, "key": "2"}]
    paths = ("--map", "raw_answer=key", "--map", f"answer={answer}")
    questions, answers, _ = imported("rows.json", rows, *paths)
    assert answers[19:] == ["B. b", "C. c", "C. 1", "C. c", "B. b"]
    assert questions[20].endswith("A. a\nB. b\nC. c")


@pytest.mark.parametrize("answer", [["A", "C"], "A, C", ["Helium", "Neon"]])
def test_several_right_options_are_shown_as_all_needed(tmp_path: Path, answer: Any) -> None:
    row = {"question": "Which are noble?", "choices": ["Helium", "Iron", "Neon"], "answer": answer}

    assert import_file(write_lines(tmp_path / "a.jsonl", [row])).code == 0
    (question,) = Benchmark.load("out.yaml")
    assert question.raw_answer == "A. Helium; C. Neon"


def test_an_index_in_samples_of_lm_eval_is_no_label(tmp_path: Path) -> None:
    doc = {"question": "Which?", "choices": {"text": ["a", "b", "c"], "label": ["1", "2", "3"]}, "answerKey": "3"}
    sample = {"doc_id": 7, "doc": doc, "target": "2", "resps": [[["-3.2", "False"]]] * 3}
    sample["arguments"] = [["Which?", text] for text in "abc"]
    _, answers, _ = imported("samples_arc.jsonl", json.dumps(sample), "--map", "answer=choice")
    assert answers == ["C. c"]


def test_an_option_that_is_missing_between_others_is_a_problem() -> None:
    Path("a.csv").write_text("question,A,B,C,answer\nWhich?,x,,z,C\nWhat?,x,y,z,A\n", "utf-8")
    done = import_file(Path("a.csv"))
    assert done.code == 2
    assert "line 2: choices: the option B is empty, but a later option is not" in done.err


def test_answers_that_match_no_option_are_named_by_their_lines() -> None:
    content = "question,A,B,answer\nWhich one?,zinc,iron,B\nWhich other?,zinc,iron,gold\n"
    _, _, said = imported("t.csv", content, "--partial")
    assert "the correct answer matches none of the options in line 3, so none of the 2 questions with options" in said


def test_places_of_options_are_counted_alike_in_all_rows() -> None:
    rows = [{"question": f"Which {n}?", "options": ["x", "y", "z"], "answer": n} for n in (1, 3)]
    _, answers, _ = imported("a.json", rows, "--map", "answer=choice")
    assert answers == ["A. x", "C. z"]
    assert "choice_by: number" in Path("out.mapping.yaml").read_text("utf-8")


def test_contexts_keep_questions_apart() -> None:
    text = "question,text,answer\nMay I?,\"['Yes you may.', 'Do.']\",Yes\nMay I?,Never.,No\n"
    questions, answers, err = imported("a.csv", text)
    assert questions == ["Yes you may.\n\nDo.\n\nMay I?", "Never.\n\nMay I?"]
    assert answers == ["Yes", "No"]
    assert "'text' is prepended to each question" in err
    again, _, _ = imported("a.csv", text, "--map-file", "out.mapping.yaml")
    assert again == questions


def test_a_context_is_joined_by_the_cure_that_is_printed() -> None:
    rows = [{"user_input": "Capital of Peru?", "retrieved_contexts": ["Lima is it.", "So."], "reference": "Lima"}]
    questions, _, err = imported("a.json", rows)
    assert questions == ["Capital of Peru?"]
    cure = "question={retrieved_contexts}\\n\\n{user_input}"
    assert f"to put them before the question, add --map '{cure}'" in err
    questions, _, _ = imported("a.json", rows, "--map", cure)
    assert questions == ["Lima is it.\n\nSo.\n\nCapital of Peru?"]


def test_an_empty_input_of_an_instruction_leaves_no_blank_lines() -> None:
    rows = [{"instruction": "Translate.", "input": "Hallo"}, {"instruction": "Add 1 and 1.", "input": ""}]
    assert imported("a.json", rows)[0] == ["Hallo\n\nTranslate.", "Add 1 and 1."]


def test_rows_in_a_document_are_found_or_asked_for() -> None:
    questions, _, err = imported("a.json", {"examples": [{"input": "2 + 3?", "target": "5"}], "canary": "x"})
    assert questions == ["2 + 3?"]
    assert "the rows were read from `examples.*` in a.json" in err
    two = {"dev": [{"question": "A?", "answer": "1"}], "test": [{"question": "B?", "answer": "2"}]}
    Path("b.json").write_text(json.dumps(two), "utf-8")
    asked = import_file(Path("b.json"))
    assert asked.code == 2
    assert (
        "the file contains several lists of rows; specify the path to the rows with --rows 'dev.*' or --rows 'test.*'"
        in asked.err
    )
    assert imported("b.json", two, "--rows", "test.*")[0] == ["B?"]


def test_an_encoding_is_named_or_recognized() -> None:
    Path("a.csv").write_bytes("question,answer\nWie heißt er?,Jörg\n".encode("cp1252"))
    done = import_file(Path("a.csv"))
    assert done.code == 0, done.err
    assert "a.csv is not UTF-8 and was read as cp1252 (for example, 'heißt')" in done.err
    Path("b.csv").write_bytes("question,answer\nKto to?,Łódź\n".encode("cp1250"))
    assert "set the encoding with --encoding" in import_file(Path("b.csv")).err
    assert import_file(Path("b.csv"), "--encoding", "cp1250").code == 0
    assert next(iter(Benchmark.load("out.yaml"))).raw_answer == "Łódź"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_formats_are_detected_after_a_byte_order_mark(encoding: str) -> None:
    sample = {"doc_id": 0, "doc": {"question": "Größe?"}, "target": "5", "resps": [["5"]]}
    Path("a.jsonl").write_text(json.dumps(sample, ensure_ascii=False), encoding)
    done = import_file("a.jsonl")
    assert "lm-evaluation-harness samples" in done.out, done.err


def test_rows_and_encoding_are_for_tables(tmp_path: Path) -> None:
    sample = {"id": 1, "epoch": 1, "input": "A?", "target": "x"}
    log = write_json(tmp_path / "log.json", {"version": 2, "eval": {"task": "t"}, "plan": {}, "samples": [sample]})
    done = import_file(log, "--from", "inspect", "--rows", "samples")
    assert done.code == 2
    assert "--rows, --sheet and --encoding apply only to tables" in done.err


def test_a_file_of_another_tool_is_a_benchmark_of_its_format(tmp_path: Path) -> None:
    sample = {"id": 1, "epoch": 1, "input": "A?", "target": "x", "output": {}}
    log = write_json(tmp_path / "log.json", {"version": 2, "eval": {"task": "t"}, "plan": {}, "samples": [sample]})
    benchmark = Benchmark.load(log)
    assert [question.question for question in benchmark] == ["A?"]
    assert "log.json was read as an Inspect log or dataset" in benchmark.load_notes


def test_a_first_row_of_data_is_not_imported_as_a_header() -> None:
    Path("a.csv").write_text("copper,29\nsilver,47\ncobalt,29\n", "utf-8")
    done = import_file(Path("a.csv"), "--map", "question=copper", "--map", "raw_answer=29")
    assert done.code == 2
    assert "the first row looks like data, not like a header" in done.err


def test_questions_without_right_answers_are_said_to_be_so() -> None:
    rows = [{"question": f"Write a poem of {n} lines"} for n in range(3)]
    _, _, err = imported("a.json", rows)
    assert "no correct answers were found, so map their path with --map raw_answer=PATH" in err
    assert "answer=text" not in err
    done = import_file(Path("a.json"), "--map", "answer=text")
    assert done.code == 2
    assert "Questions were found, but no correct answers; map raw_answer to a path with --map" in done.err
    assert "Map question to" not in done.err


def test_sentences_compared_as_texts_are_warned_of() -> None:
    rows = [{"question": "Why?", "answer": "It melts because the bonds between its atoms are weak."}]
    _, _, err = imported("a.json", rows, "--map", "answer=text")
    assert "1 sentence will be compared word for word, which hardly any response passes" in err


def test_alternative_sentences_are_compared_by_the_trait_that_shows_them() -> None:
    answers = ["It was the pilot who first saw the island.", "The pilot saw it before the others did."]

    _, _, messages = imported("a.json", [{"question": "Who saw it?", "answers": answers}])

    assert "are not compared with responses" not in messages


def test_a_question_with_a_stem_is_asked_with_its_choices(tmp_path: Path) -> None:
    choices = [{"text": "Oxygen", "label": "1"}, {"text": "Neon", "label": "2"}]
    row = {"id": "m", "question": {"stem": "Which do we breathe?", "choices": choices}, "answerKey": "1"}
    source = write_lines(tmp_path / "arc.jsonl", [row])

    assert "1 question read: 0 errors, 0 warnings" in karenina("check", source).out
    assert import_file(source).code == 0
    for path in (source, Path("out.yaml")):
        (question,) = Benchmark.load(path)
        assert question.question == "Which do we breathe?\n\nA. Oxygen\nB. Neon"
        assert question.raw_answer == "A. Oxygen"


def test_the_option_of_big_bench_with_the_score_1_is_right(tmp_path: Path) -> None:
    scores: list[dict[str, Any]] = [
        {"1": 0, "2": 1, "3": 0},
        {"rose": 1.0, "sun": 0.0},
        {"rose": 1, "sun": 1},
        {"rose": 0.3, "sun": 0.7},
    ]
    task = {"examples": [{"input": f"Which {at}?", "target_scores": score} for at, score in enumerate(scores)]}
    source = write_json(tmp_path / "task.json", task)

    done = import_file(source)

    assert done.code == 0, done.err
    assert "'target_scores'" in done.err
    questions = list(Benchmark.load("out.yaml"))
    assert [question.raw_answer for question in questions] == ["B. 2", "A. rose", None, None]
    assert questions[0].question == "Which 0?\n\nA. 1\nB. 2\nC. 3"


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"turns": ["Write a post.", "Rewrite it."]}, "turns.0"),
        ({"turns": [{"content": "Write a post."}]}, "turns.0.content"),
        ({"prompt": ["Write a post.", "Rewrite it."]}, "prompt.0"),
        ({"question": {"text": "Write a post.", "tokens": []}}, "question.text"),
        ({"question": {"role": "user", "content": "Write a post."}}, "question.content"),
    ],
)
def test_the_first_turn_of_a_question_is_the_cure(tmp_path: Path, row: dict[str, Any], part: str) -> None:
    source = write_lines(tmp_path / "turns.jsonl", [{"question_id": 81, **row}])

    refused = import_file(source)
    checked = karenina("check", source)

    assert refused.code == checked.code == 2
    assert f"--map question={part}" in refused.err
    assert f"--columns question={part}" in checked.out
    assert import_file(source, "--map", f"question={part}").code == 0
    for benchmark in (Benchmark.load("out.yaml"), Benchmark.load(source, columns={"question": part})):
        assert [question.question for question in benchmark] == ["Write a post."]


@pytest.mark.parametrize("orient", ["list", "dict"])
@pytest.mark.parametrize("name", ["question", "user_input"])
def test_a_table_by_columns_is_named_with_the_way_on(tmp_path: Path, orient: str, name: str) -> None:
    columns: dict[str, Any] = {name: ["Who?", "Where?"], "reference": ["Ann", "Lima"]}
    if orient == "dict":
        columns = {key: dict(zip(("0", "1"), cells, strict=True)) for key, cells in columns.items()}
    source = write_json(tmp_path / "columns.json", columns)

    done, checked = import_file(source), karenina("check", source)

    assert done.code == checked.code == 2
    for text in (done.err, checked.out):
        assert "a list for each column, not a list of rows; write one object per row, with pandas" in text


@pytest.mark.parametrize("name", ["questions", "goldens"])
def test_a_list_of_rows_beside_another_list_of_their_length_is_read(tmp_path: Path, name: str) -> None:
    document = {name: [{"input": "Who?", "expected_output": "Ann"}], "prompt": ["Be brief."]}

    assert import_file(write_json(tmp_path / "rows.json", document)).code == 0
    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == ["Ann"]


def test_a_part_that_some_rows_lack_is_no_correct_answer_there(tmp_path: Path) -> None:
    rows = [{"question": "Who?"}, {"question": "Where?", "gold": {"city": "Lima"}}]

    done = import_file(write_lines(tmp_path / "a.jsonl", rows), "--map", "raw_answer=gold.city")

    assert done.code == 0, done.err
    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == [None, "Lima"]


def test_a_finish_reason_beside_a_response_is_recorded() -> None:
    reasons = ("length", "stop", {"reason": "length"})
    rows = [{"question": f"Who {reason}?", "response": "Ann", "finish_reason": reason} for reason in reasons]

    _, _, messages = imported("a.json", rows, *RECORD)

    recorded = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [line.get("finish_reason") for line in recorded] == ["length", None, None]
    assert "not used" not in messages


@pytest.mark.parametrize(("name", "said"), [("answer", True), ("answers", False)])
def test_lists_that_may_be_alternatives_are_said_to_be_needed(name: str, said: bool) -> None:
    rows = [{"question": "who wrote it", name: ["Bobby Scott", "Bob Russell"]}]

    _, shown, messages = imported("a.json", rows)
    imported("a.json", rows, "--map", "answer=text")

    assert ("if each item is a correct answer by itself, add --map answer=text" in messages) is said
    assert shown == ["Bobby Scott; Bob Russell" if said else "Bobby Scott or Bob Russell"]
    (question,) = Benchmark.load("out.yaml")
    assert "'bob russell': 'bobby scott'" in str(question.answer_template)


def test_letters_alone_are_not_appended_to_an_imported_question() -> None:
    text = "Liquid?\n1) iron 2) mercury (A is 1, B is 2)"
    rows = [{"question": text, "choices": ["A", "B"], "answer": "B"}]
    questions, _, _ = imported("a.json", rows)
    assert questions == [text]


def test_parts_of_an_object_that_are_not_used_are_named() -> None:
    rows = [{"question": "Name metals", "criteria": {"include": ["gold", "tin"], "exclude": ["ice"]}, "level": 1}]
    _, answers, err = imported("a.json", rows, "--map", "raw_answer=criteria.include")
    assert answers == ["gold; tin"]
    assert "not used: 'criteria.exclude', 'level'" in err


def test_an_unused_column_of_answer_types_is_warned_of() -> None:
    _, _, err = imported("a.csv", "question,answer,typ\nWhat?,5 mg,quantity\nWhich?,7 mg,quantity\n")
    assert "the column 'typ' contains types of answers, which an import does not use" in err
    assert "in which this column must be called 'type'" in err


def test_yes_or_no_about_something_else_is_warned_of() -> None:
    rows = [{"question": f"How do I open box {n}?", "refuse": n > 1} for n in range(4)]
    rows += [{"question": "Is box 9 open?", "refuse": False}]
    _, _, err = imported("a.json", rows, "--map", "raw_answer=refuse")
    assert "the judge is asked whether the response answers the question with yes or true, but most" in err
    rows = [{"question": f"Is box {n} open?", "answer": n > 1} for n in range(4)]
    assert "the judge is asked whether" not in imported("b.json", rows)[2]


@pytest.mark.parametrize(
    "text",
    [
        "cases:\n  - question: Do I need a visa?\n    must_mention: [visa, passport]\n",
        "- query: Do I need a visa?\n  must_mention: [visa, passport]\n",
    ],
)
def test_cases_in_yaml_are_rows(text: str) -> None:
    Path("cases.yaml").write_text(text, "utf-8")
    done = import_file(Path("cases.yaml"))
    assert done.code == 0, done.err
    (question,) = Benchmark.load("out.yaml")
    assert (question.question, question.raw_answer) == ("Do I need a visa?", "visa; passport")
    assert question.answer_template is not None
    assert "TraceRegex" in question.answer_template


def test_right_answers_that_nothing_compares_are_named() -> None:
    cases = [{"inputs": "What is 1 + 1?", "expected_output": "2", "evaluators": [{"LLMJudge": "It is short"}]}]
    Path("cases.yaml").write_text(json.dumps({"cases": cases, "evaluators": []}), "utf-8")
    done = import_file(Path("cases.yaml"), "--from", "pydantic-evals")
    assert done.code == 0, done.err
    assert "the correct answers to 1 question are not compared with responses" in done.err


def test_the_error_of_a_formula_is_no_question(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("question,answer\nWho is it?,Ann\nAnd who?,Ben\n#REF!,Cid\n", "utf-8")

    refused = import_file(table)
    partial = import_file(table, "--partial")

    assert refused.code == 2
    assert "line 4" in refused.err
    assert "question: the cell contains the formula error #REF!" in refused.err
    assert "2 questions from 3 rows" in partial.out


def test_answers_by_the_labels_of_options_are_these_options(tmp_path: Path) -> None:
    texts = ["sun", "moon", "mars", "ice"]
    rows = [
        {"id": "a", "question": "Which is near?", "choices": {"text": texts, "label": [*"ABCD"]}, "answerKey": "B"},
        {"id": "b", "question": "Which is red?", "choices": {"text": texts, "label": [*"1234"]}, "answerKey": "3"},
        {"id": "c", "question": "Which is warm?", "choices": {"text": texts, "label": [*"FGHJ"]}, "answerKey": "F"},
    ]

    done = import_file(write_json(tmp_path / "arc.json", rows))

    assert done.code == 0, done.err
    assert "answer: 3 questions with options" in done.err
    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == ["B. moon", "C. mars", "A. sun"]
    checked = karenina("check", "arc.json")
    assert checked.code == 0, checked.out
    assert "'answerKey': 3 questions with options (Choice)" in checked.out + checked.err


GASES = [f"Which gas has the number {number}?" for number in range(1, 9)]
WRONG: dict[str, tuple[str, Any]] = {
    "numbered, as in GPQA": (
        "a.csv",
        "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2\n"
        + "".join(f"{text},neon {number},argon {number},radon\n" for number, text in enumerate(GASES)),
    ),
    "distractors, as in SciQ": (
        "b.jsonl",
        "".join(
            json.dumps({"question": text, "distractor2": "radon", "correct_answer": "1", "distractor1": "2"}) + "\n"
            for text in GASES
        ),
    ),
    "a list of them": (
        "c.json",
        [{"question": text, "correct_answer": "Ne", "incorrect_answers": ["Ar", "Rn"]} for text in GASES],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_in_columns_become_options_in_mixed_order(name: str) -> None:
    file, content = WRONG[name]
    questions, truths, messages = imported(file, content)
    assert "the options of each question are mixed" in messages
    assert len({str(truth)[0] for truth in truths}) > 1  # not always the same letter
    for question, truth in zip(questions, truths, strict=True):
        assert truth in question.splitlines()
        assert "\nC. " in question
        assert str(truth)[3:] in ("Ne", "1", *(f"neon {number}" for number in range(8)))
    table = list(Benchmark.load(file))
    assert [question.question for question in table] == questions
    assert [question.raw_answer for question in table] == truths


def test_wrong_answers_beside_lists_of_right_ones_are_no_options() -> None:
    row = {"question": "Eat seeds?", "best_answer": "Fine", "correct_answers": ["Fine"], "incorrect_answers": ["Death"]}
    questions, truths, messages = imported("a.json", [row])
    assert (questions, truths) == (["Eat seeds?"], ["Fine"])
    assert "not used: 'correct_answers', 'incorrect_answers'" in messages


def test_a_column_of_options_that_is_the_right_one_is_mixed() -> None:
    rows = [{"question": text, "right": "Ne", "other": "Ar"} for text in GASES]
    questions, truths, _ = imported("a.json", rows, "--map", "choices=right|other", "--map", "raw_answer=right")
    assert {str(truth) for truth in truths} == {"A. Ne", "B. Ne"}
    assert all(str(truth) in question for question, truth in zip(questions, truths, strict=True))


def test_words_among_expressions_are_compared_as_texts() -> None:
    truths = {r"\frac{1}{2}": "MathEqual", r"\text{even}": "ExactMatch", r"\text{6:00 p.m.}": "ExactMatch"}
    truths |= {r"6 \text{ ways}": "NumberWithUnit", r"864 \mbox{ inches}^2": "NumberWithUnit", "12 x^2": "MathEqual"}
    rows = [{"problem": f"Question {number}?", "answer": truth} for number, truth in enumerate(truths)]
    _, _, messages = imported("a.json", rows, "--map", "answer=expression")
    assert "answer: 'even' (row 1) is no expression, and is compared as text or a number" in messages
    written = Path("out.yaml").read_text()
    assert [written.count(rule) for rule in ("ground_truth: even", "ground_truth: 6 ways", "NumberWithUnit")] == [
        1,
        1,
        2,
    ]
    assert "ground_truth: 864 inches^2" in written
    assert written.count("type: expression") == 2


def test_an_expression_that_cannot_be_read_is_not_taken_for_words() -> None:
    Path("a.json").write_text(json.dumps([{"problem": "What?", "answer": r"\int_0^1 x dx"}]))
    done = import_file(Path("a.json"), "--map", "answer=expression")
    assert done.code == 2
    assert "is invalid" in done.err


def test_the_answer_in_a_box_of_a_worked_solution_is_the_truth() -> None:
    solution = r"We try $\boxed{1}$, but $\frac{3}{6} = \boxed{\frac{1}{2}}$, since {x \le 1}."
    _, shown, messages = imported("a.json", [{"problem": "What?", "solution": solution}], "--map", "answer=expression")
    assert shown == [solution]
    assert "ground_truth: \\frac{1}{2}" in Path("out.yaml").read_text()
    _, _, messages = imported("b.json", [{"problem": "What?", "solution": solution}])
    assert "1 answer is the end of a worked solution" in messages


def test_labels_of_one_item_or_beside_texts_are_right_answers() -> None:
    rows = [{"query": f"Which is highest of {label}?", "label": label} for label in (["Sweden"], ["Norway"])]
    assert imported("a.json", rows)[1] == ["Sweden", "Norway"]
    rows = [{"query": "Which is highest?", "label": "Sweden"}, {"query": "Which are lowest?", "label": "[Chad, Mali]"}]
    assert imported("b.json", rows)[1] == ["Sweden", "[Chad, Mali]"]
    rows = [{"query": f"Which {number}?", "label": ["one", "two"]} for number in range(2)]
    assert imported("c.json", rows)[1] == [None, None]


def test_options_about_the_others_come_last_and_equal_ones_are_one() -> None:
    others = ("All of the above", "None of these options.")
    rows = [
        {"question": text, "correct_answer": others[number % 2], "distractor1": "Ne", "distractor2": "Ne"}
        for number, text in enumerate(GASES)
    ]
    questions, _, _ = imported("a.json", rows)
    assert [text.splitlines()[-2:] for text in questions] == [["A. Ne", f"B. {others[n % 2]}"] for n in range(8)]


def test_options_that_differ_only_by_case_are_told_apart() -> None:
    rows = [{"question": text, "correct_answer": "m", "distractor1": "M", "distractor2": "k"} for text in GASES]
    questions, truths, _ = imported("a.json", rows)
    assert {str(truth)[3:] for truth in truths} == {"m"}
    assert all(str(truth) in text for text, truth in zip(questions, truths, strict=True))


def test_empty_wrong_answers_are_left_out() -> None:
    rows = [{"question": text, "correct_answer": "Ne", "distractor1": "", "distractor2": "Ar"} for text in GASES]
    questions, _, _ = imported("a.json", rows)
    assert all("\nB. " in text and "\nC. " not in text for text in questions)
    assert [question.question for question in Benchmark.load("a.json")] == questions


def test_mixed_options_that_are_too_many_are_warned_of() -> None:
    wrong = [f"element {number}" for number in range(30)]
    Path("a.json").write_text(json.dumps([{"question": "Gas?", "correct_answer": "Ne", "incorrect_answers": wrong}]))
    assert "1 of 1 question has no options" in karenina("check", "a.json").out


@pytest.mark.parametrize(
    ("solution", "truth"),
    [
        (r"It is $\boxed 5$.", "5"),
        (r"It is $\fbox{7}$.", "7"),
        (r"Thus $\boxed{\begin{pmatrix}1\\{2}\end{pmatrix}}$.", r"\begin{pmatrix}1\\{2}\end{pmatrix}"),
        (r"The set is $\boxed{\{1, 2\}}$.", r"\{1, 2\}"),
    ],
)
def test_boxes_of_worked_solutions_are_read_to_their_end(solution: str, truth: str) -> None:
    imported("a.json", [{"problem": "What?", "solution": solution}], "--map", "answer=expression")
    assert f"ground_truth: {truth}" in Path("out.yaml").read_text().replace("'", "").replace('"', "")


def test_labels_of_several_questions_with_one_tag_each_are_no_right_answers() -> None:
    rows = [{"question": f"Which {number}?", "labels": ["easy"]} for number in range(3)]
    assert imported("a.json", rows)[1] == [None] * 3


@pytest.mark.parametrize(("value", "right"), [("even", True), (r"\text{Even}", True), (r"\text{odd}", False)])
def test_words_may_be_copied_in_latex(value: str, right: bool) -> None:
    imported("a.json", [{"problem": "Is it?", "answer": r"\text{even}"}], "--map", "answer=expression")
    benchmark = Benchmark.load("out.yaml")
    (question,) = benchmark
    template = template_of(question)
    assert template is not None
    bound = template.for_question(benchmark.ids[0]).bind({"answer": value}, f"It is {value}.")
    assert bound.field_results() == {"answer": right}
