"""`karenina export`: sources, formats, outputs and errors."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import jsonschema
import pytest
from command_runs import CommandResult, run_karenina, write_benchmark
from journal_runs import ScriptedRuns, interrupted_at
from result_builders import result, save

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.hooks import hookimpl
from karenina_core.plugins import Plugins
from karenina_engine.journal.schema import row_digest
from karenina_engine.results.kept_files import FileStore
from karenina_engine.results.result_set import read_results
from karenina_report.commands import commands
from karenina_report.exports.exporter import Exporter, ExportRequest
from karenina_report.exports.json_lines import DIALECT
from karenina_toolkit.files import read_records

pytestmark = pytest.mark.usefixtures("own_folder")
MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
HALF = {"raw_llm_response": "\ud800", "trace_messages": []}


def export(*arguments: str | Path, more: object | None = None) -> CommandResult:
    plugins = Plugins()
    plugins.register(commands)
    if more is not None:
        plugins.register(more, distribution="third-party", version="3")
    return run_karenina("export", *arguments, plugins=plugins)


def run(world: ScriptedRuns, file: Path, *more: str) -> CommandResult:
    return run_karenina("run", file, *MODELS, *more, plugins=world.plugins())


@pytest.fixture
def results() -> Path:
    hard = "=1+1\n\x07\u202e\ufffe<b>,\"'" + "x" * 40_000
    return save(
        Path("run.results.jsonl"),
        [
            result("q1", True, answer=hard, extracted={"gene": "=cmd()", "n": 1.5}, keywords=["a", "b"]),
            result("q2", False, model="other", traits={"clear": 4}),
            result("q3", Outcome.MODEL_ERROR),
        ],
    )


def test_the_results_of_a_journal_equal_those_of_the_run(tmp_path: Path) -> None:
    run(ScriptedRuns(), write_benchmark(tmp_path, *"abc"), "--full")

    lines = Path("words.results.jsonl").read_text().splitlines()[1:]
    assert export("words.journal").out.splitlines()[1:] == lines
    written = export("words.journal", "-o", "all.jsonl")
    assert written.err == "The export was written to all.jsonl.\n"
    assert Path("all.jsonl").read_text().splitlines()[1:] == lines


def test_each_answer_is_exported_once(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    run(interrupted_at(4), file, "-a", "talkative:n", "--set", "replicate_count=2")
    recordings = [json.loads(line) for line in export("words.journal", "--format", "recording").out.splitlines()]
    of_n = export("words.journal", "--format", "recording", "--model", "n").out.splitlines()

    answers = {(recording["question_id"], recording["replicate"], recording["model"]) for recording in recordings}
    assert len(answers) == len(recordings) >= 2
    assert all(recording["text"].startswith("an answer to What is") for recording in recordings)
    assert {json.loads(line)["model"] for line in of_n} <= {"n"}


def test_the_last_of_several_unused_answers_is_exported(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a")
    run(ScriptedRuns(), file)
    file.write_text(file.read_text("utf-8").replace("What is a?", "What was a?"), "utf-8")
    run(ScriptedRuns(), file)
    with closing(sqlite3.connect("words.journal", isolation_level=None)) as database:
        database.execute("DELETE FROM results")  # as if no answer had been judged

    recordings = export("words.journal", "--format", "recording").out.splitlines()
    assert [json.loads(line)["text"] for line in recordings] == ["an answer to What was a?"]


def test_half_of_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    run(ScriptedRuns(), write_benchmark(tmp_path, "a"))
    with closing(sqlite3.connect("words.journal", isolation_level=None)) as database:
        for *row, _ in database.execute("SELECT * FROM results").fetchall():
            row[-1] = json.dumps({**(saved := json.loads(row[-1])), "template": {**saved["template"], **HALF}})
            database.execute("UPDATE results SET result = ?, digest = ?", (row[-1], row_digest("results", row)))

    assert export("words.journal", "--format", "recording", "-o", "answers.jsonl").code == 0
    assert json.loads(Path("answers.jsonl").read_text("utf-8"))["text"] == "\ufffd"


@pytest.mark.parametrize("suffix", ["json", "jsonl", "csv", "xlsx", "parquet"])
def test_an_export_is_read_back_exactly(results: Path, suffix: str) -> None:
    assert export(results, "-o", f"out.{suffix}").code == 0
    back = export(f"out.{suffix}", "-o", "back.jsonl")

    assert back.code == 0, back.err
    assert list(read_results("back.jsonl")) == list(read_results(results))


def test_cells_cannot_be_formulas(results: Path) -> None:
    from openpyxl import load_workbook

    table = export(results, "--table", "results", "--format", "csv", "--no-whole").out
    assert export(results, "-o", "out.xlsx").code == 0
    sheet = load_workbook("out.xlsx")["results"]
    column = [cell.value for cell in sheet[1]].index("response")
    cell = sheet[2][column]

    assert "'=1+1" in table
    assert ",=1+1" not in table
    assert '"=1+1' not in table
    assert (cell.data_type, cell.quotePrefix, str(cell.value)[:4]) == ("s", True, "=1+1")


FULL_WIDTH = ["\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}", "\N{FULLWIDTH HYPHEN-MINUS}", "\uff20"]
BLANKS = [" =", "\u3000=", "\u00a0@", "\u200b=", "\ufeff=", " \N{FULLWIDTH EQUALS SIGN}", "\N{MINUS SIGN}"]


def test_the_reason_of_an_undecided_item_is_no_formula() -> None:
    from openpyxl import load_workbook

    reasons = [f"{first}cmd()" for first in ["=", "+", "-", "@", "\t", "\r", "\n", *FULL_WIDTH, *BLANKS]]
    results = [result(f"q{number}", Outcome.UNDECIDED) for number in range(len(reasons))]
    for undecided, why in zip(results, reasons, strict=True):
        undecided.template.field_verification_error = why
    file = save(Path("run.results.jsonl"), results)
    assert export(file, "-o", "out.csv", "--table", "results").code == export(file, "-o", "out.xlsx").code == 0
    with Path("out.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    names, *cells = load_workbook("out.xlsx")["results"].iter_rows()
    column = [cell.value for cell in names].index("reason")

    assert [row["reason"] for row in rows] == [f"'{why}" for why in reasons]
    for why, row in zip(reasons, cells, strict=True):
        assert (row[column].data_type, row[column].quotePrefix) == ("s", True), repr(why)


def test_what_a_cell_cannot_hold_is_reported(results: Path) -> None:
    done = export(results, "-o", "out.xlsx")

    assert "with more than 32,000 characters" in done.err


def test_cells_of_excel_hold_no_more_characters_than_it_reads() -> None:
    from openpyxl import load_workbook

    file = save(Path("run.results.jsonl"), [result("q1", True, answer="\N{GRINNING FACE}" * 20_000)])
    assert "truncated 1 cell" in export(file, "-o", "out.xlsx").err
    for sheet in load_workbook("out.xlsx"):
        cells = [cell.value for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str)]
        assert max(len(text.encode("utf-16-le")) // 2 for text in cells) <= 32_767
    assert export("out.xlsx", "-o", "back.jsonl").code == 0
    assert list(read_results("back.jsonl")) == list(read_results(file))


def test_markdown_contains_no_control_characters() -> None:
    file = save(Path("run.results.jsonl"), [result("q\x1b[31m", False, model="m\x07", judge="\u202ej")])

    assert export(file, "-o", "out.md").code == 0
    text = Path("out.md").read_text("utf-8")
    assert text.replace("\n", "").isprintable()
    assert r"q\\x1b\[31m" in text


def test_cells_that_are_too_long_with_their_escapes_are_counted_as_truncated() -> None:
    file = save(Path("run.results.jsonl"), [result("q1", True, answer="_x000D_" * 4000)])

    assert "truncated 1 cell" in export(file, "-o", "out.xlsx").err


@pytest.mark.parametrize("text", ["a_x000D_b", "_x005F_x000d_", "x_x0041_y"])
def test_excel_shows_what_looks_like_its_notation_for_characters(text: str) -> None:
    file = save(Path("run.results.jsonl"), [result("q1", True, answer=text)])

    assert export(file, "-o", "out.xlsx").code == 0
    with read_records(Path("out.xlsx"), sheet="results") as (row,):
        assert row.values["response"] == text
    assert export("out.xlsx", "-o", "back.jsonl").code == 0
    assert list(read_results("back.jsonl")) == list(read_results(file))


@pytest.mark.parametrize("name", ["out.xlsx", "out.parquet", "out.csv"])
def test_scores_that_no_float_can_hold_are_exported_without_a_number(tmp_path: Path, name: str) -> None:
    results = save(tmp_path / "r.results.jsonl", [result(f"q{at}", True, traits={"t": 10**400}) for at in range(2)])

    assert export(results, "--table", "traits", "-o", name).code == 0


def test_tables_are_exported(results: Path) -> None:
    rows = [json.loads(line) for line in export(results, "--table", "fields").out.splitlines()]

    assert {row["field"]: row["extracted"] for row in rows} == {"gene": '"=cmd()"', "n": "1.5"}
    assert export(results, "--table", "traits", "--format", "csv").out.splitlines()[1].split(",")[5] == "clear"
    assert len(json.loads(export(results, "--table", "results", "--format", "json").out)) == 3


def test_calls_come_from_the_journal(tmp_path: Path) -> None:
    run(ScriptedRuns(), write_benchmark(tmp_path, "a"))
    calls = [json.loads(line) for line in export("words.journal", "--table", "calls").out.splitlines()]

    assert [(call["task"], call["model"], call["failed"]) for call in calls] == [
        ("answer_generation", "m", False),
        ("counting", "j", False),
    ]
    assert json.loads(calls[0]["reply"])["text"].startswith("an answer to")


def test_one_model_is_chosen(results: Path) -> None:
    assert len(export(results, "--model", "other").out.splitlines()) == 2


def test_an_earlier_file_is_kept(results: Path) -> None:
    Path("out.csv").write_text("mine", "utf-8")
    done = export(results, "-o", "out.csv")

    assert "the earlier file was renamed to out-1.csv" in done.err
    assert Path("out-1.csv").read_text("utf-8") == "mine"


@pytest.mark.parametrize("arguments", [("-o", "notes.txt", "--format", "csv"), ("-o", "notes.jsonl")])
def test_another_file_is_not_replaced(results: Path, arguments: Sequence[str]) -> None:
    Path(arguments[1]).write_text("mine", "utf-8")
    done = export(results, *arguments)

    assert done.code == 2
    assert "was not changed" in done.err
    assert Path(arguments[1]).read_text("utf-8") == "mine"
    assert sorted(path.name for path in Path().iterdir()) == sorted([arguments[1], results.name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run.results.jsonl", "--format", "cvs"),
            "there is no export format 'cvs'; the formats are jsonl, json, csv, excel, parquet, junit, "
            "markdown, recording; did you mean 'csv'?",
        ),
        (("run.results.jsonl", "-o", "out.doc"), "the format of out.doc is not known; use one of the suffixes .jsonl"),
        (("run.results.jsonl", "--table", "field"), "there is no table 'field'; did you mean 'fields'"),
        (("run.results.jsonl", "--table", "calls"), "there is no table 'calls'|calls are stored in the journal"),
        (
            ("run.results.jsonl", "--table", "fields", "--format", "junit"),
            "--table has no effect with the 'junit' format",
        ),
        (("missing.jsonl",), "missing.jsonl"),
        (("words.csv",), "contains a table but no whole results"),
        (("words.json",), "is not a result file"),
        (("words.xlsx",), "cannot be read as an Excel workbook"),
        (("words.parquet",), "cannot be read as Parquet"),
        (("words.journal",), "is not a result file"),
    ],
)
def test_bad_input_ends_with_2_and_a_cure(results: Path, arguments: Sequence[str], message: str) -> None:
    for name in ("words.csv", "words.json", "words.xlsx", "words.parquet", "words.journal"):
        Path(name).write_text("a,b\n1,2\n", "utf-8")
    done = export(*arguments)

    assert done.code == 2
    assert any(part in done.err for part in message.split("|")), done.err
    assert not Path("out.doc").exists()


class Counting:
    """A third party's export format."""

    @hookimpl
    def karenina_exporters(self) -> Sequence[Exporter]:
        def write(request: ExportRequest, file: BinaryIO) -> None:
            file.write(f"{sum(1 for _ in request.results)} results".encode())

        def read(path: Path) -> Iterator[VerificationResult]:
            return iter([])

        return [Exporter("count", "the number of results", (".count", ".count.csv"), write, read=read)]


def test_a_third_party_adds_a_format(results: Path) -> None:
    assert export(results, "--format", "count", more=Counting()).out == "3 results"
    assert export(results, "-o", "out.count", more=Counting()).code == 0
    assert Path("out.count").read_text("utf-8") == "3 results"
    assert export("out.count", "--format", "markdown", more=Counting()).code == 0
    assert export(results, "-o", "out.count.csv", more=Counting()).code == 0
    assert Path("out.count.csv").read_text("utf-8") == "3 results"
    assert export("out.count.csv", "--format", "markdown", more=Counting()).code == 0


def test_an_earlier_export_is_known_by_its_whole_first_line(results: Path) -> None:
    class Headed:
        @hookimpl
        def karenina_exporters(self) -> Sequence[Exporter]:
            def write(_request: ExportRequest, file: BinaryIO) -> None:
                file.write(b"# headed\nresults")

            return [Exporter("headed", "with a header", (".headed",), write, first_bytes=(b"# headed\n",))]

    Path("other.headed").write_text("# headed differently\n", "utf-8")

    assert [export(results, "-o", "out.headed", more=Headed()).code for _ in range(2)] == [0, 0]
    assert export(results, "-o", "other.headed", more=Headed()).code == 2


def fail(request: ExportRequest, file: BinaryIO) -> None:
    file.write(b"half")
    raise LookupError("no such thing")


def generate(request: ExportRequest, file: BinaryIO) -> Iterator[bytes]:
    yield b"never"


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (fail, "LookupError: no such thing"),
        (lambda request, file: file.write("text"), "TypeError: a bytes-like object is required, not 'str'"),
        (lambda request, file: b"everything", "write returned bytes, but has to write to the file"),
        (generate, "write returned generator, but has to write to the file, without async"),
    ],
)
def test_a_format_that_fails_is_named_and_leaves_no_file(results: Path, write: Any, why: str) -> None:
    class Failing:
        @hookimpl
        def karenina_exporters(self) -> Sequence[Exporter]:
            return [Exporter("failing", "fails", (".failing",), write)]

    done = export(results, "-o", "out.failing", more=Failing())
    assert (done.code, Path("out.failing").exists()) == (2, False)
    assert "the export format 'failing' failed: " in done.err
    assert why in done.err


@pytest.mark.parametrize("suffixes", [".lines", ("lines",), (".Lines",)])
def test_suffixes_that_would_fit_other_files_are_refused(suffixes: Any) -> None:
    with pytest.raises(ValueError, match="suffixes must be a tuple of suffixes in lower case"):
        Exporter("odd", "odd", suffixes, fail)


def test_two_formats_of_one_name_are_an_error(results: Path) -> None:
    class Second:
        @hookimpl
        def karenina_exporters(self) -> Sequence[Exporter]:
            return [Exporter("csv", "another", (".csv",), lambda _request, _file: None)]

    done = export(results, "--format", "csv", more=Second())
    assert done.code == 2
    assert "several plugins provide the export format 'csv'" in done.err
    assert '[plugins] block = ["third-party"]' in done.err


def test_the_published_schema_is_that_of_the_results(results: Path) -> None:
    published = json.loads(export("--schema").out)

    assert published == {"$schema": DIALECT, **VerificationResult.model_json_schema(mode="serialization")}
    for line in results.read_text("utf-8").splitlines():
        jsonschema.validate(json.loads(line), published)


def with_work(item: VerificationResult) -> VerificationResult:
    """Return a result whose agent changed a file, and whose check failed."""
    report = {"passed": ["t::a"], "failed": ["t::b"], "errors": [], "skipped": []}
    check = {"exit": 1, "seconds": 2.5, "stopped_by": None, "output": "E \x1b[31m1 != 2", "report": report}
    item.extensions["karenina-sandbox"] = {
        "workspace": {"patch": "--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-1\n+2\n", "changes": [], "left_out": []},
        "checks": {"tests": {"run": ["pytest"], "results": [check]}},
    }
    return item


def test_files_and_patches_are_exported_under_their_names(tmp_path: Path) -> None:
    file = save(Path("run.results.jsonl"), [result("q1", True), with_work(result("../q2", False))])

    done = export(file, "-o", "out.csv", "--files", "work")

    assert done.code == 0, done.err
    (written,) = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert written.relative_to(tmp_path / "work").as_posix() == "2-q2/workspace.patch"
    assert "+2\n" in written.read_text("utf-8")
    assert export(file, "-o", "again.csv", "--files", "work").code == 2


def test_exported_files_with_similar_names_are_numbered(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "run.files", 10**6, 10**6)
    item = result("q", True)
    long = f"{'x' * 96}.txt"
    names = ["log.txt", "LOG.txt", long, long.replace(".txt", "-2.txt")]  # names are shortened to 100 characters
    item.metadata.files = [store.add(name, name.encode(), "text/plain", None, "q") for name in names]

    done = export(save(tmp_path / "run.results.jsonl", [item]), "-o", "out.csv", "--files", "work")

    assert done.code == 0, done.err
    assert "4 files written to work" in done.err
    written = {path.name: path.read_text("utf-8") for path in (tmp_path / "work").rglob("*.txt")}
    assert written == dict(zip(["log.txt", "LOG-2.txt", long, f"{'x' * 96}-2.txt"], names, strict=True))


def test_the_page_shows_patches_and_checks() -> None:
    from karenina_report.page.items import make_item

    work = make_item(with_work(result("q", False)), {}, [], {}, [])["work"]

    assert "+2\n" in work["patch"]
    (check,) = work["checks"]
    assert check["ended"] == "ended with 1 after 2.5 s; 1 passed, 1 failed (t::b)"
    assert "\x1b" not in check["output"]
    assert "could forge their report" in check["note"]


@pytest.mark.parametrize("value", [{"workspace": 3, "checks": [1]}, {"checks": {"a": {"results": {}}}}])
def test_odd_work_in_a_result_file_is_not_shown(value: dict[str, object]) -> None:
    from karenina_report.page.items import make_item

    item = result("q", False)
    item.extensions["karenina-sandbox"] = value
    assert "work" not in make_item(item, {}, [], {}, [])
