"""`karenina import`: mappings, rows that cannot be converted, ambiguous formats, and existing files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from command_runs import run_karenina
from imports import import_file, karenina, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_core.errors import ConfigError
from karenina_core.hooks import hookimpl
from karenina_core.plugins import Plugins
from karenina_importing import FieldMapping, Fit, ImportFormat, make_import_format
from karenina_importing.source_files import read_lines
from karenina_template.question_template import template_of

ROWS = [
    {"question": "The capital of France?", "answer": "Paris", "country": "France"},
    {"question": "The capital of Peru?", "answer": "Lima", "country": "Peru"},
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "capitals.jsonl", ROWS)


def test_an_edited_mapping_is_used_by_the_next_import(source: Path) -> None:
    first = import_file(source, "--map", "question=Name the capital of {country}.", "--map", "metadata.where=country")
    mapping = Path("out.mapping.yaml")
    text = mapping.read_text("utf-8").replace(
        "answer: auto",
        "answer:\n  city:\n    description: The city\n    ground_truth: {column: raw_answer}\n    weight: 2",
    )
    Path("mine.yaml").write_text(text, "utf-8")
    assert (
        "--map answer was given more than once"
        in import_file(source, "--map", "answer=text", "--map", "answer=none").err
    )
    again = import_file(source, "--map-file", "mine.yaml")

    assert first.code == 0, first.err
    assert again.code == 0, again.err
    question, _ = Benchmark.load("out.yaml")
    assert question.question == "Name the capital of France."
    assert question.metadata == {"where": "France"}
    assert "ground_truth='Paris'" in str(question.answer_template)
    assert "weight=2" in str(question.answer_template)


def test_earlier_files_are_renamed_and_others_not_touched(source: Path) -> None:
    import_file(source, "--map", "answer=none")
    again = import_file(source, "--map", "answer=text")
    Path("notes.yaml").write_text("mine: yes\n", "utf-8")
    refused = karenina("import", source, "-o", "notes.yaml")

    assert "out.yaml (the earlier file is now out-1.yaml)" in again.out
    assert "template" not in Path("out-1.yaml").read_text("utf-8")
    assert refused.code == 2
    assert "notes.yaml" in refused.err
    assert Path("notes.yaml").read_text("utf-8") == "mine: yes\n"


def test_questions_without_templates_are_announced(source: Path) -> None:
    done = import_file(source, "--map", "answer=none")

    assert done.code == 0
    note = "The questions have neither a template nor traits, so answers to them cannot be judged yet"
    assert f"{note}; add --map answer=text" in done.err


def test_answers_are_typed_by_their_kinds(tmp_path: Path) -> None:
    rows = [
        {"question": "How long is it in km?", "answer": "1,234 km"},
        {"question": "When was it?", "answer": "9 November 1989"},
        {"question": "Which genes?", "answer": "BRCA1; BRCA2"},
        {"question": "Is it a metal?", "answer": True},
        {"question": "Which gas?", "answer": "NO"},
        {"question": "Which city?", "answer": "N/A"},
    ]
    done = import_file(write_lines(tmp_path / "typed.jsonl", rows))

    assert done.code == 0, done.err
    assert "answer: 1 number, with or without a unit (" in done.err
    assert "1 placeholder in place of an answer: 'N/A'" in done.err
    assert "1 question with neither a template nor traits" in done.err
    read = [template_of(question) for question in Benchmark.load("out.yaml")]
    truths = [None if template is None else template.for_question("q").expected()["answer"] for template in read]
    assert truths == ["1,234 km", "1989-11-09", ["BRCA1", "BRCA2"], True, "NO", None]


def test_sentences_can_be_graded_by_a_judge_that_sees_them(tmp_path: Path) -> None:
    rows = [
        {"question": "Why is the sky blue?", "reference": "Short waves of light are scattered more than long ones."}
    ]
    done = import_file(write_lines(tmp_path / "why.jsonl", rows), "--map", "answer=graded")

    assert done.code == 0, done.err
    benchmark = Benchmark.load("out.yaml")
    (question,) = benchmark
    assert question.answer_template is None
    assert question.rubric is not None
    (trait,) = question.rubric.llm_traits
    assert str(trait.description).endswith(
        "contradicts none of it: Short waves of light are scattered more than long ones."
    )
    assert not benchmark.check().errors


def test_sentences_get_a_trait_and_others_a_template(tmp_path: Path) -> None:
    answer = "It blocks the receptor, so that the cell stops growing."
    rows = [{"question": "Why?", "answer": answer}, {"question": "Which gene?", "answer": "BCL2"}]
    done = import_file(write_lines(tmp_path / "prose.jsonl", rows))

    assert done.code == 0, done.err
    assert "1 of 2 answers is the sentence 'It blocks the receptor" in done.err
    assert "a judge that sees the sentence scores whether a response agrees with it" in done.err
    assert "--map answer=text to compare word for word" in done.err
    benchmark = Benchmark.load("out.yaml")
    why, gene = benchmark
    assert why.answer_template is None
    assert why.rubric is not None
    assert str(why.rubric.llm_traits[0].description).endswith(answer)
    assert gene.answer_template is not None
    assert gene.rubric is None
    assert not benchmark.check().errors


@pytest.mark.parametrize(("column", "word", "joined"), [("acceptable_answers", "or", " or "), ("facts", "and", "; ")])
def test_lists_of_sentences_are_sentences(column: str, word: str, joined: str, tmp_path: Path) -> None:
    facts = ["It melts because its bonds are weak.", "Its atoms move more and more when it is heated."]
    source = write_lines(tmp_path / "prose.jsonl", [{"question": "Why?", column: facts}])
    done = import_file(source, "--map", f"raw_answer={column}")

    assert done.code == 0, done.err
    (question,) = Benchmark.load("out.yaml")
    assert question.answer_template is None
    assert question.rubric is not None
    assert str(question.rubric.llm_traits[0].description).endswith(f"{facts[0]}\n{word}: {facts[1]}")
    assert question.raw_answer == joined.join(facts)


def test_any_item_of_a_column_of_aliases_is_right(tmp_path: Path) -> None:
    done = import_file(write_lines(tmp_path / "any.jsonl", [{"question": "Who?", "answers": ["JFK", "Kennedy"]}]))

    assert done.code == 0, done.err
    (question,) = Benchmark.load("out.yaml")
    template = template_of(question)
    assert template is not None
    assert [template.for_question("q").bind({"answer": name}).verify() for name in ("kennedy", "JFK", "Nixon")] == [
        True,
        True,
        False,
    ]


def test_other_names_that_some_rows_lack_are_named_and_no_row_is_lost(tmp_path: Path) -> None:
    rows = [{"value": "Bob", "aliases": ["Robert"]}, {"value": "NYC", "aliases": []}]
    lines = [{"question": f"Who is {at}?", "answer": row} for at, row in enumerate(rows)]
    done = import_file(write_lines(tmp_path / "any.jsonl", lines))

    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == ["Bob", "NYC"]
    assert (
        "not used: 'answer.aliases', which some rows lack; to use it, add --map raw_answer=answer.aliases" in done.err
    )


def test_a_benchmark_needs_no_import(tmp_path: Path) -> None:
    benchmark = tmp_path / "genes.yaml"
    field = "{description: The gene, ground_truth: BCL2, verify_with: ExactMatch}"
    question = f"{{question: Which gene is it, answer: {{gene: {field}}}}}"
    benchmark.write_text(f"karenina: 1\nname: Genes\nquestions: [{question}]\n")

    done = import_file(benchmark)

    assert done.code == 2
    assert f"{benchmark} is a benchmark already; it needs no import: karenina run {benchmark}" in done.err


def test_a_table_with_a_column_of_this_name_is_no_benchmark(tmp_path: Path) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("model,karenina,inspect\nm,0.5,0.6\n")

    done = import_file(scores)

    assert done.code == 2
    assert "the row has no question" in done.err
    assert "is a benchmark already" not in done.err


def test_rows_that_cannot_be_converted_are_named(tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    lines = [json.dumps(ROWS[0]), "{broken", "[1]", '{"other": 1}', json.dumps({**ROWS[1], "question": {"a": 1}})]
    source.write_text("\n".join([*lines, '{"question": "\\ud800"}']) + "\n", "utf-8")

    refused = import_file(source, "--from", "huggingface")
    assert refused.code == 2
    assert "5 of 6 rows could not be converted; nothing was written" in refused.err
    assert not Path("out.yaml").exists()

    done = import_file(source, "--from", "huggingface", "--partial", "--json")
    assert done.code == 0
    assert done.json["questions"] == 1
    problems = {problem["place"]: problem["problem"] for problem in done.json["problems"]}
    assert set(problems) == {"line 2, column 2", "line 3", "line 4", "line 5", "line 6"}
    assert problems["line 2, column 2"].startswith("the JSON is not valid")
    assert problems["line 4"].startswith("the row has no question (mapped paths: question)")
    assert problems["line 5"] == "question: the value is an object with the keys a, not text"
    assert "unpaired surrogate" in problems["line 6"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("question=nothing", "the rows have the keys question, answer, country"),
        ("raw_answer=gold", "no row has a value for raw_answer"),
        ("metadata.x=gold", "no row has a value for metadata.x"),
        ("raw_answers=answer", "did you mean 'raw_answer'?"),
        ("question", "--map must have the form NAME=PATH"),
        ("answer=texts", "did you mean 'text'?"),
        ("answer=number", "the correct answer 'Paris' is not a number"),
        ("answer=choice", "the row has no options; map choices to a different path"),
        ("answer_pattern=(", "does not compile"),
        ("choice_by=numbers", "letter, text, index, number"),
    ],
)
def test_changes_that_do_not_fit_are_errors(source: Path, change: str, problem: str) -> None:
    done = import_file(source, "--map", change)

    assert done.code == 2
    assert problem in done.err
    assert not Path("out.yaml").exists()


def test_an_underscore_is_no_part_of_a_number(tmp_path: Path) -> None:
    done = import_file(
        write_lines(tmp_path / "a.jsonl", [{"question": "Which?", "answer": "1_000"}]), "--map", "answer=number"
    )

    assert done.code == 2
    assert "the correct answer '1_000' is not a number" in done.err


def test_one_id_with_two_questions_is_a_problem(tmp_path: Path) -> None:
    rows = [{"id": 1, **ROWS[0]}, {"id": 1, **ROWS[1]}, {"id": 1, **ROWS[0]}]
    rows += [{"id": 2, "question": "Which gas do plants take in?", "answer": "CO2"}]
    source = write_lines(tmp_path / "a.jsonl", rows)

    done = import_file(source, "--partial", "--json")

    assert done.json["repeats"] == 2
    assert [problem["place"] for problem in done.json["problems"]] == ["line 2"]
    assert (
        "the question differs from the one in line 1, which has the same id '1'" in done.json["problems"][0]["problem"]
    )


def test_an_id_that_most_questions_share_is_none(tmp_path: Path) -> None:
    rows = [{"id": 1 + n // 3, "question": f"What is {n} + {n}?", "answer": 2 * n} for n in range(6)]
    done = import_file(write_lines(tmp_path / "a.jsonl", rows))

    assert done.code == 0, done.err
    assert "different questions have the same value in 'id', so this column is not used as the question id" in done.err
    assert len(Benchmark.load("out.yaml")) == 6


def test_options_that_could_be_meant_twice_are_a_problem(tmp_path: Path) -> None:
    row = {"question": "1 + 1?", "choices": ["1", "2", "3"], "answer": "2"}
    source = write_lines(tmp_path / "a.jsonl", [row])

    unclear = import_file(source, "--map", "answer=choice")
    done = import_file(source, "--map", "answer=choice", "--map", "choice_by=text")

    assert unclear.code == 2
    assert "could be the letter or text or index of an option; add --map choice_by=" in unclear.err
    assert done.code == 0, done.err
    assert next(iter(Benchmark.load("out.yaml"))).raw_answer == "B. 2"


def test_an_answer_with_a_known_replicate_is_not_recorded(tmp_path: Path) -> None:
    row = {**ROWS[0], "model": "m", "response": "The answer is Paris."}
    rows = [{**row, "replicate": 2}, row, {**row, "replicate": 2, "response": "Lyon."}, {**row, "model": "n"}]
    source = write_lines(tmp_path / "a.jsonl", rows)

    done = import_file(source, "--recordings", "answers.jsonl", "--json")

    assert [skipped["place"] for skipped in done.json["unanswered"]] == ["line 3"]
    assert (
        "an earlier row for the same question and model already has replicate 2"
        in done.json["unanswered"][0]["problem"]
    )
    recorded = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [(recording["model"], recording["replicate"]) for recording in recorded] == [("m", 2), ("m", 3), ("n", 1)]


def test_several_answers_of_a_model_become_replicates(tmp_path: Path) -> None:
    row = {**ROWS[0], "model": "m"}
    rows = [{**row, "response": "The answer is Paris."}, {**row, "response": ["The answer is Lyon.", "Nice."]}]
    source = write_lines(tmp_path / "a.jsonl", rows)

    done = import_file(source, "--recordings", "answers.jsonl", "--map", "answer=text")

    assert done.code == 0, done.err
    recorded = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [(recording["replicate"], recording["response"]) for recording in recorded] == [
        (1, "The answer is Paris."),
        (2, "The answer is Lyon."),
        (3, "Nice."),
    ]
    assert run_imported(tmp_path) == {"q1-the-capital-of": True}


def test_the_source_is_never_replaced(source: Path) -> None:
    mapped = import_file(source, "--recordings", source)
    Path("q.yaml").write_text("karenina: 1\n", "utf-8")
    same = karenina("import", "q.yaml", "--from", "huggingface", "-o", "q.yaml")

    assert (mapped.code, same.code) == (2, 2)
    assert "is the source" in mapped.err
    assert len(source.read_text("utf-8").splitlines()) == 2


def pipes() -> ImportFormat:
    """Return a format of another plugin whose files look like samples of OpenAI Evals."""
    mapping = FieldMapping(paths={"question": ("input",), "raw_answer": ("ideal",)})
    return make_import_format("pipes", "lines of pipes", lambda _head: Fit.YES, read_lines, mapping)


def fail(_argument: object) -> Any:
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("detect", "rows", "code", "says"),
    [
        (lambda _head: Fit.YES, fail, 2, "the format 'failing' failed to read a.jsonl: LookupError: no such thing"),
        (lambda _head: Fit.YES, lambda _path: [{}], 2, "TypeError: a row must be a SourceRow, not {}"),
        (lambda _head: Fit.YES, lambda _path: None, 2, "TypeError: 'NoneType' object is not iterable"),
        (lambda _head: Fit.YES, lambda _path: sys.exit(0), 2, "failed to read a.jsonl: SystemExit: 0"),
        (fail, fail, 0, "the format 'failing' is not considered for this file: LookupError: no such thing"),
        (lambda _head: True, fail, 0, "detect returned True; return Fit.YES, Fit.MAYBE or Fit.NO"),
    ],
)
def test_a_format_that_fails_is_named(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    detect: Callable[[object], Any],
    rows: Callable[[object], Any],
    code: int,
    says: str,
) -> None:
    class Failing:
        @hookimpl
        def karenina_formats(self) -> list[ImportFormat]:
            mapping = FieldMapping(paths={"question": ("question",)})
            return [make_import_format("failing", "lines that fail", detect, rows, mapping)]

    write_lines(tmp_path / "a.jsonl", [{"tool": "mine", "question": "Why?", "answer": "So"}])
    plugins = Plugins.discover()
    plugins.register(Failing())
    done = run_karenina("import", "a.jsonl", "-o", "out.yaml", plugins=plugins)

    assert done.code == code, done.err
    assert says in done.err + caplog.text


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ({"qestion": ("q",)}, "unknown name 'qestion' in the paths of the mapping; did you mean 'question'?"),
        ({"question": "prompt"}, r"the paths of 'question' must be a tuple, such as \('prompt',\), not 'prompt'"),
    ],
)
def test_paths_that_would_find_nothing_are_refused(paths: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        FieldMapping(paths=paths)


def test_a_format_that_cannot_be_used_is_warned_about(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Alone:
        @hookimpl
        def karenina_formats(self) -> ImportFormat:
            return pipes()

    plugins = Plugins.discover()
    plugins.register(Alone())

    done = run_karenina("import", str(source), "-o", "out.yaml", plugins=plugins)

    assert done.code == 0
    said = " ".join((done.err + caplog.text).split())
    assert "the format is chosen without those of some plugins (plugins that could not be loaded: this-program" in said
    assert "TypeError: karenina_formats must return list[Format], not ImportFormat" in said


class OwnFormat:
    @hookimpl
    def karenina_formats(self) -> list[ImportFormat]:
        return [pipes()]


def test_a_file_of_two_formats_needs_from(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [{"input": "1 + 1?", "ideal": "2"}])
    plugins = Plugins.discover()
    plugins.register(OwnFormat())

    unclear = run_karenina("import", source, "-o", "out.yaml", plugins=plugins)
    done = run_karenina("import", source, "-o", "out.yaml", "--from", "pipes", plugins=plugins)

    assert unclear.code == 2
    assert "or pipes (lines of pipes); choose one with --from" in unclear.err
    assert "1 question from 1 row of lines of pipes" in done.out


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"question,answer\n", "cannot detect the format of a.txt. If it is a table, save it as .csv"),
        ("a.jsonl", b'{"question": "Wh', "a.jsonl, line 1, column 14: the JSON is incomplete"),
        ("a.json", b'[{"question": "Why?"},\n{"q', "a.json, line 2, column 2: the JSON is incomplete"),
        ("a.yaml", b"a: 1\nb: [1, {\n", "a.yaml, line 3, column 1: the YAML is not valid"),
        ("a.eval", b"PK\x03\x04 cut", "the archive is damaged"),
        ("a.parquet", b"PAR1 cut", "the Parquet data cannot be read"),
        ("a.jsonl", b"", "a.jsonl is empty (0 bytes)"),
        ("missing.jsonl", None, "missing.jsonl: the file does not exist"),
    ],
)
def test_files_that_cannot_be_read_are_errors(name: str, content: bytes | None, problem: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)

    done = import_file(name)

    assert done.code == 2
    assert problem in done.err


def test_archives_are_bounded_by_their_unpacked_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_MAX_FILE_BYTES", "100000")
    with ZipFile(tmp_path / "a.eval", "w", ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps({"id": 1, "input": "x" * 200_000}))

    done = import_file("a.eval")

    assert done.code == 2
    assert "the unpacked size is 200,022 bytes, but the limit is 100,000 bytes" in done.err


def test_pages_of_the_dataset_server_name_classes_and_cuts(tmp_path: Path) -> None:
    page = {
        "features": [
            {"name": "question", "type": {"dtype": "string", "_type": "Value"}},
            {"name": "answer", "type": {"names": ["A", "B"], "_type": "ClassLabel"}},
        ],
        "rows": [
            {"row_idx": 0, "row": {"question": "1 + 1?", "choices": ["2", "3"], "answer": 0}, "truncated_cells": []},
            {"row_idx": 1, "row": {"question": "2 +", "answer": 1}, "truncated_cells": ["question"]},
        ],
    }
    source = write_json(tmp_path / "rows.json", page)

    done = import_file(source, "--partial", "--map", "answer=choice")

    assert "row 1: question: question was truncated by the server" in done.err
    assert next(iter(Benchmark.load("out.yaml"))).raw_answer == "A. 2"


def test_a_class_of_minus_one_is_no_correct_answer(tmp_path: Path) -> None:
    features = [{"name": "label", "type": {"names": ["no", "yes"], "_type": "ClassLabel"}}]
    rows = [{"row": {"question": f"Is it {label}?", "label": label}} for label in (-1, 1)]

    done = import_file(write_json(tmp_path / "rows.json", {"features": features, "rows": rows}))

    assert done.code == 0, done.err
    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == [None, "yes"]


def test_a_conversation_that_no_recording_can_hold_is_named(tmp_path: Path) -> None:
    response = [{"role": "narrator", "content": "It is B."}]
    source = write_lines(tmp_path / "a.jsonl", [{"question": "Which city?", "answer": "B", "response": response}])
    done = import_file(source, "--recordings", "answers.jsonl")

    assert done.code == 2
    assert "the conversation cannot be recorded: entry 1: unknown role 'narrator'" in done.err


def test_rows_with_too_few_cells_are_listed_and_left_out() -> None:
    Path("t.csv").write_text("question,answer\nWhich gene?,BCL2\nWhich other?\nWhich third?,TP53\n")

    refused = import_file("t.csv")
    done = import_file("t.csv", "--partial")

    assert refused.code == 2
    assert "1 of 3 rows could not be converted; nothing was written" in refused.err
    assert "line 3: the row has fewer cells than the header" in done.err
    assert "2 questions from 3 rows" in done.out
