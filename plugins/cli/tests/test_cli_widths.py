"""Output fits narrow terminals without cutting a number, and has no padding in a pipe."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_runs import make_plugins, make_result, run_karenina, write_benchmark, write_results
from rich.console import Console

from karenina_cli.output.result_output import MAX_ROWS, print_results
from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import StageRecord
from karenina_engine.results.result_set import VerificationResultSet
from karenina_toolkit.printable import cell_width

BOXES = set("│┃┏┓└┘├┤━─╇┡┩")
MODEL = '{"id": "a-model-with-a-long-name", "interface": "scripted", "model_name": "m"}'


def stage(name: str, seconds: float, tokens: int) -> StageRecord:
    return StageRecord(
        name=name,
        status="ran",
        seconds=seconds,
        calls=1,
        input_tokens=tokens,
        output_tokens=tokens,
        distribution="karenina-generation",
        version="0.1.0",
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    stages = [stage("GenerateAnswer", 17.125, 1_234_567), stage("TraceValidationAutoFail", 0.001, 0)]
    return write_results(
        tmp_path / "r.jsonl",
        make_result("which-gene", stages=stages, metadata={"question_text": "Which gene does venetoclax target?"}),
        make_result("which-year", Outcome.WRONG, metadata={"question_text": "In which year was it approved?"}),
        *(make_result(f"q{n}", Outcome.MODEL_ERROR, answer="", metadata={"error": "no connection"}) for n in range(4)),
    )


@pytest.mark.parametrize("width", [60, 80])
def test_show_cuts_no_number_at_narrow_widths(results: Path, width: int) -> None:
    out = run_karenina("show", results, width=width).out
    assert max(map(len, out.splitlines())) <= width
    words = " ".join(out.split())
    assert "GenerateAnswer ran in 17.125 s, 1 call, 1,234,567 tokens in, 1,234,567 out" in words


def test_the_waiting_of_a_stage_is_printed_beside_its_work(tmp_path: Path) -> None:
    waiting = stage("ParseTemplate", 2.25, 10).model_copy(update={"waited": 157.9})
    results = write_results(tmp_path / "r.jsonl", make_result(stages=[waiting]))
    assert (
        "ParseTemplate ran in 2.250 s, 1 call, 10 tokens in, 10 out, 157.9 s of waiting"
        in run_karenina("show", results).out
    )


@pytest.mark.parametrize("width", [60, 80, 400])
@pytest.mark.parametrize("command", [["plan"], ["plugins"], ["primitives"], ["traits"], ["config"], ["doctor"]])
def test_piped_lists_have_neither_boxes_nor_padding(command: list[str], width: int) -> None:
    out = run_karenina(*command, plugins=make_plugins(), width=width).out
    assert not BOXES & set(out)
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_a_piped_run_has_neither_boxes_nor_padding(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b", more="config: {evaluation_mode: rubric_only}\n")
    done = run_karenina("run", file, "-a", MODEL, "-j", MODEL, "-o", tmp_path / "r.jsonl", plugins=make_plugins())
    assert done.code == 0
    for text in (done.out, run_karenina("status", tmp_path / "r.journal").out):
        assert not BOXES & set(text)
        assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [60, 80])
def test_the_ledger_keeps_every_column_and_digit(tmp_path: Path, width: int) -> None:
    file = write_benchmark(tmp_path, *"abcdef", more="config: {evaluation_mode: rubric_only}\n")
    run_karenina("run", file, "-a", MODEL, "-j", MODEL, "-o", tmp_path / "r.jsonl", plugins=make_plugins())
    out = run_karenina("status", tmp_path / "r.journal", width=width).out
    for part in ("a-model-with-a-long-name", "Calls", "Tokens in", "From cache", "Tokens out", "Cost", "60", "30"):
        assert re.search(rf"(?<!\S){re.escape(part)}(?!\S)", out), part


def test_failures_with_one_reason_are_printed_once(tmp_path: Path) -> None:
    def fails(_id: str) -> str:
        raise RuntimeError("no connection to localhost:9")

    file = write_benchmark(tmp_path, *(f"q{n}" for n in range(8)), more="config: {evaluation_mode: rubric_only}\n")
    done = run_karenina("run", file, "-a", MODEL, "-j", MODEL, "-o", tmp_path / "r.jsonl", plugins=make_plugins(fails))
    shown = run_karenina("show", tmp_path / "r.jsonl")
    for out in (done.out, shown.out):
        assert "Items 2-8 failed like item 1, for the same reason; `karenina show" in out
        assert "! stage_error  8/8  q7  failed like item 1\n" in out
        assert out.count("Question") == 1
        assert "8 x " in out
    assert run_karenina("show", tmp_path / "r.jsonl", "--full").out.count("Question") == 8


def test_of_many_equal_failures_only_the_first_numbers_are_listed(tmp_path: Path) -> None:
    failed = {"error": "no connection"}
    items = [
        make_result(f"q{n}", Outcome.MODEL_ERROR, "", metadata=failed) if n % 2 else make_result(f"q{n}")
        for n in range(60)
    ]
    out = " ".join(run_karenina("show", write_results(tmp_path / "r.jsonl", *items)).out.split())
    assert "Items 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 19 more failed like item 2, for the same reason" in out


def test_the_printed_command_prints_the_item_although_ids_are_numbers(tmp_path: Path) -> None:
    failed = {"error": "no connection"}
    items = [make_result(str(n), Outcome.MODEL_ERROR, "", metadata=failed) for n in range(4)]
    results = write_results(tmp_path / "n.results.jsonl", *items)
    hint = re.search(r"`karenina (show .*)` prints item (\d+)", run_karenina("show", results).out)
    assert hint is not None
    out = run_karenina(*shlex.split(hint[1])).out
    assert hint[2] == "2"
    assert [id for id in range(4) if f"What is {id}?" in out] == [1]
    assert "What is 2?" in run_karenina("show", results, "-q", "2").out


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        *((word, "which-year") for word in ("2", "which-year", "approved")),
        *((word, "which-gene") for word in ("#1", "r-which-gene", "WHICH-G")),
    ],
)
def test_show_finds_an_item_by_number_id_beginning_or_words(results: Path, word: str, shown: str) -> None:
    done = run_karenina("show", results, "-q", word)
    assert done.code == 0, done.err
    assert [question_id for question_id in ("which-gene", "which-year", "q0") if question_id in done.out] == [shown]
    assert "The summary covers the selected 1 of 6 results." in done.err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("which", "'which' matches 2 questions: which-gene (Which gene does venetoclax target?), which-year (In which"),
        ("7", "item 7 does not exist; there are 6 items"),
        ("which-jear", "there are no results for question 'which-jear'; did you mean 'which-year'?"),
    ],
)
def test_a_word_that_names_no_single_item_is_explained(results: Path, word: str, message: str) -> None:
    done = run_karenina("show", results, "-q", word)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_show_numbers_items_as_in_the_file(results: Path) -> None:
    assert "  2/6  which-year" in run_karenina("show", results, "--outcome", "wrong").out


@pytest.mark.parametrize("width", [60, 80])
def test_wide_characters_and_long_names_fit_the_width(tmp_path: Path, width: int) -> None:
    model = {"answering_id": "the-model-with-the-longest-name-of-all-2027-01-instruct-q4_k_m"}
    template = {"parsed_llm_response": {"答え": "🧬" * 50}, "parsed_gt_response": {"答え": 123456789012}}
    item = make_result("q1", Outcome.WRONG, "漢字🧬 " * 60, metadata=model, template=template)
    out = run_karenina("show", write_results(tmp_path / "r.jsonl", item), width=width).out

    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert max(map(cell_width, out.splitlines())) <= width
    assert "123456789012" in out


def test_a_long_list_on_a_terminal_has_the_numbers_of_the_file() -> None:
    results = [make_result(f"q{number}") for number in range(MAX_ROWS)] + [make_result("odd", Outcome.WRONG)]
    for width in (60, 120):
        console = Console(width=width, force_terminal=True, no_color=True)
        with console.capture() as captured:
            print_results(console, VerificationResultSet(results))
        assert "101" in captured.get().split("odd")[0]
        assert "Of 101 results, at most 100 that are not correct are shown" in " ".join(captured.get().split())


def test_all_equal_failures_of_a_long_run_are_counted() -> None:
    results = [
        make_result(f"q{number}", Outcome.MODEL_ERROR, "", metadata={"error": "no connection"}) for number in range(120)
    ]
    for width in (60, 120):
        console = Console(width=width, force_terminal=True, no_color=True)
        with console.capture() as captured:
            print_results(console, VerificationResultSet(results))
        assert "Items 2-120 failed like item 1," in captured.get()
