"""`karenina check`: every fault of a benchmark is reported at once, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina
from faulty_benchmarks import FILES, GOOD, HEAD_FAULTS, TENFOLD, find_marks, make_file


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    file = Path(name)
    file.write_text(text, "utf-8")
    return file


def findings(file: Path, *options: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = run_karenina("check", file, "--json", *options).json["findings"]
    return listed


def reported(file: Path, *options: str) -> list[tuple[int | None, str]]:
    return [(finding["line"], f"{finding['what']}; {finding['cure']}") for finding in findings(file, *options)]


def test_there_are_forty_kinds_of_faults() -> None:
    assert len(FILES) >= 40
    assert {len(find_marks(text)) for text in FILES.values()} == {1}
    assert [len(find_marks(text)) for text in TENFOLD.values()] == [10] * 5


@pytest.mark.parametrize("name", [*FILES, *TENFOLD])
def test_every_fault_is_named_with_its_line(name: str) -> None:
    text = {**FILES, **TENFOLD}[name]
    marks = find_marks(text)

    faults = reported(write("genes.yaml", text))

    assert [line for line, _ in faults] == [line for line, _ in marks], faults
    assert [(words, what) for (_, words), (_, what) in zip(marks, faults, strict=True) if words not in what] == []


def test_rows_of_tables_are_named_with_their_lines() -> None:
    rows = 'question,answer\nWhich?,BCL2\n,KRAS\nWhich?,TP53\n"Why, then?",A\n'
    csv = write("rows.csv", rows)
    assert reported(csv) == [
        (3, "the column 'question' is empty; write a question there, or delete the row; nothing was imported"),
        (
            4,
            "the question in line 2 has the same text; delete one of them, or map `id` to a column with unique values; "
            "nothing was imported",
        ),
    ]
    head = "questions_from:\n  file: rows.csv\n  columns: {question: question}\n  answer:\n    a: {description: Gene}"
    listed = findings(write("genes.yaml", make_file([head], [])))
    assert {Path(finding["file"]).name for finding in listed} == {"rows.csv"}
    assert [finding["line"] for finding in listed if finding["level"] == "error"] == [2, 3, 4, 5]


def test_templates_of_rows_are_checked() -> None:
    write("rows.csv", "question,gold\nWhich?,5\nWhy?,soon\n")
    fields = "a: {description: The date, type: str, ground_truth: {column: gold}, verify_with: DateMatch}"
    head = f"questions_from:\n  file: rows.csv\n  columns: {{question: question}}\n  answer:\n    {fields}"

    faults = reported(write("genes.yaml", make_file([head], [])))

    assert [line for line, _ in faults] == [2, 3]
    assert all("DateMatch requires a complete date" in what for _, what in faults)


def test_lines_of_json_are_named() -> None:
    lines = [
        '{"karenina": 1, "nam": "Genes"}',
        '{"question": "Which?", "answer": {"a": {"description": "One", "ground_truth": "b"}}}',
        '{"question": "Why?", "answer": {"a": {"description": "One"}, "b": {"ground_truth": 1}}}',
        '{"question": "Why?"',
        '{"question": "When?", "template": "class Answer(BaseAnswer):\\n    a: str = VerifiedField()"}',
        '{"answer": {}}',
    ]
    faults = reported(write("genes.jsonl", "\n".join(lines)))
    assert [line for line, _ in faults] == [1, 3, 3, 4, 5, 6]
    assert "field 'a': verify_with must be a primitive" in faults[4][1]


def test_a_checkpoint_names_the_questions(tmp_path: Path) -> None:
    from karenina_benchmark import Benchmark

    benchmark = Benchmark.create("Genes")
    benchmark.add_question("Which?", question_id="one", answer_template="class Answer(BaseAnswer)")
    benchmark.save("genes.jsonld")
    (finding,) = findings(Path("genes.jsonld"))
    assert (finding["where"], finding["level"]) == ("question 1 (one)", "error")


def test_all_faults_of_one_template_are_named() -> None:
    template = (
        "- question: q\n  template: |\n    class Answer(BaseAnswer):\n"
        "        a: str = VerifiedField(ground_truth='b', verify_with=Exact())  #! unknown primitive 'Exact'\n"
        "        b: int = VerifiedField(ground_truth='b', verify_with=NumericExact())  #! finite number\n"
        "        c: int = VerifiedField(ground_truth=1, verify_with=NumericExact(), weight=-1)  #! weight must be\n"
        "        class VerificationStrategy:\n            verify_strategy = AnyOf(conditions=[FieldCheck('a')])"
    )
    text = make_file([], [template])
    faults = reported(write("genes.yaml", text))
    assert [line for line, _ in faults] == [line for line, _ in find_marks(text)]


def test_a_correct_file_has_no_finding() -> None:
    done = run_karenina("check", write("genes.yaml", make_file([], [])))
    assert (done.code, done.out) == (0, "1 question read: 0 errors, 0 warnings.\n")


def test_warnings_exit_with_2_only_if_strict() -> None:
    file = write("genes.yaml", make_file([HEAD_FAULTS["a trait that the mode does not use"]], []))
    done = run_karenina("check", file)
    assert (done.code, run_karenina("check", file, "--strict").code) == (0, 2)
    assert done.out.startswith("! genes.yaml, line 4: the trait 'a' is not used")
    assert run_karenina("check", file, "--set", "evaluation_mode=template_and_rubric", "--strict").code == 0


def test_fields_that_cannot_be_checked_are_listed() -> None:
    question = (
        "- question: Says it KRAS?\n  answer:\n"
        "    a: {ground_truth: true, verify_with: {type: TraceContains, substring: KRAS}}"
    )
    done = run_karenina("check", write("genes.yaml", make_file([], [question])))
    assert (
        "? genes.yaml, line 6: the ground truth of field 'a' cannot be checked because TraceContains reads the"
        in done.out
    )
    assert done.out.endswith("2 questions read: 0 errors, 0 warnings, 1 field could not be checked.\n")
    assert done.code == 0


@pytest.mark.parametrize(("count", "more"), [(5, "1 more place"), (20, "16 more places")])
def test_a_repeated_finding_is_printed_once(count: int, more: str) -> None:
    rows = "".join(f"Question {number}?,{number}\n" for number in range(100, 100 + count))
    write("rows.csv", "question,gold\n" + rows)
    field = "a: {description: One, ground_truth: {column: gold}, verify_with: Exact}"
    head = f"questions_from:\n  file: rows.csv\n  columns: {{question: question}}\n  answer:\n    {field}"
    done = run_karenina("check", write("genes.yaml", make_file([head], [])))
    assert "line 2: field 'a': unknown primitive 'Exact'" in done.out
    assert f"(also in line 3, line 4, line 5 and {more})" in done.out
    assert len(done.out.splitlines()) == 2


CODE = """
  - question: Which code?
    template: |
      class Answer(BaseAnswer):
          gene: str = VerifiedField(description="The gene", ground_truth="KRAS", verify_with=ExactMatch())
          def verify(self):
              open("ran", "w").close()
              return {verdict}
"""


@pytest.mark.parametrize(
    ("verdict", "what"),
    [
        ("self.gene == 'TP53'", "verify() does not accept the ground truth"),
        ("True", "verify() accepts an answer in which every field is wrong"),
    ],
)
def test_code_is_checked_only_with_trust(verdict: str, what: str) -> None:
    file = write("genes.yaml", make_file([], []) + CODE.format(verdict=verdict))
    assert [line for line, _ in reported(file)] == [11]
    assert not Path("ran").exists()
    listed = findings(file, "--trust-all")
    assert Path("ran").exists()
    assert [finding["what"] for finding in listed] == [what]


def test_an_untrusted_table_elsewhere_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.csv"
    outside.write_text("question\n\n,\n", "utf-8")
    file = write("genes.yaml", make_file([f"questions_from: {{file: {outside}, columns: {{question: question}}}}"], []))
    (finding,) = findings(file)
    assert "it is outside the benchmark's folder and is not trusted" in finding["what"]


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["plan"]], ids=" ".join)
def test_run_and_plan_make_the_same_checks(command: list[str]) -> None:
    file = write("genes.yaml", TENFOLD["ten questions"])
    errors = [f"genes.yaml, line {line}: {what}".removesuffix("; ") for line, what in reported(file)]
    stopped = run_karenina(*command, file)
    assert stopped.code == 2
    assert stopped.err.removeprefix("Error: ").splitlines() == errors


def test_a_truth_that_fails_its_own_template_stops_a_run() -> None:
    file = write("genes.yaml", make_file([], []) + CODE.format(verdict="False"))
    stopped = run_karenina("run", file, "--trust-all")
    assert (stopped.code, "verify() does not accept the ground truth" in stopped.err) == (2, True)


def test_a_benchmark_in_memory_is_checked() -> None:
    from karenina_benchmark import Benchmark

    write("genes.yaml", "karenina: 1\nname: Genes\nquestions:" + GOOD)
    benchmark = Benchmark.load("genes.yaml")
    assert benchmark.check().findings == ()
    benchmark.add_question("Which else?", question_id="else")
    (error,) = benchmark.check().errors
    assert (error.question, error.where) == ("else", "question 2 (else)")
    assert Benchmark.check_file("genes.yaml").errors == ()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "question,answer\n", "the table has the columns question, answer but no rows; write a question"),
        ("b.yaml", "karenina: 1\nname: b\nquestions: []\n", "the file contains no questions; add a question"),
        ("c.json", "[]", "the file is empty; write one JSON object per line"),
    ],
)
def test_a_file_without_questions_is_an_error(name: str, text: str, said: str) -> None:
    file = write(name, text)
    assert run_karenina("check", file).code == 2
    assert [said in what for _, what in reported(file)] == [True]


def test_what_columns_and_rows_were_taken_for_is_printed() -> None:
    file = write("a.json", '{"examples": [{"Prompt": "Which?", "Gold": "BCL2"}]}')
    done = run_karenina("check", file)
    assert done.code == 0
    assert "question is 'Prompt', answer is 'Gold'" in done.err
    assert run_karenina("check", file, "--json").json["notes"] == [
        "the rows were read from `examples.*` in a.json; to read other rows, use --rows",
        "question is 'Prompt', answer is 'Gold'",
        "'Gold': 1 name or short text (ExactMatch), such as 'BCL2' (examples.0)",
    ]


def test_rows_and_an_encoding_are_given_by_options() -> None:
    file = write("a.json", '{"a": [{"q": "Which?", "b": 1}], "c": [{"q": "Why?", "b": 2}]}')
    assert "--rows 'a.*' or --rows 'c.*'" in reported(file)[0][1]
    assert findings(file, "--rows", "c", "--columns", "question=q,answer=b") == []
    twice = run_karenina("check", file, "--rows", "c", "--columns", "question=q,answer=b", "--columns", "answer=q")
    assert (twice.code, "--columns answer was given more than once" in twice.err) == (2, True)
    table = Path("t.csv")
    table.write_bytes("question,answer\nKto?,Łódź\n".encode("cp1250"))
    assert "set the encoding with --encoding" in reported(table)[0][1]
    assert findings(table, "--encoding", "cp1250") == []


def test_a_long_check_reports_its_progress_outside_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_cli.commands.check_command._EVERY", 0.001)
    fields = "answer: {gene: {description: The gene, ground_truth: BCL2}}"
    questions = "".join(f"  - {{question: Name gene {number}, {fields}}}\n" for number in range(300))

    checked = run_karenina("check", write("genes.yaml", f"karenina: 1\nname: Genes\nquestions:\n{questions}"))

    assert "Reading genes.yaml" in checked.err
    assert "Checking genes.yaml: " in checked.err
    assert "of 300 questions checked" in checked.err
