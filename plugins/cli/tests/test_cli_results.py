"""The printing of results, and `karenina show`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from command_runs import make_result, run_karenina, write_results
from rich.console import Console

from karenina_benchmark import Benchmark
from karenina_cli.output.result_output import MAX_ROWS, print_result, print_table
from karenina_cli.output.summary_output import print_summary
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import VerificationResultDeepJudgment, VerificationResultRubric, VetoRecord
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.result_text import field_rows
from karenina_engine.results.summary_text import MAX_TRAITS
from karenina_template.question_template import template_of
from karenina_toolkit.printable import clean, shorten

JUDGED: dict[str, Any] = {
    "parsed_llm_response": {"gene": "TP53", "year": None},
    "parsed_gt_response": {"gene": "BCL2", "year": 1984, "says_so": True},
    "field_results": {"gene": False, "year": False, "says_so": True},
    "verify_result": False,
    "template_verification_performed": True,
}


def printed(item: VerificationResult, **options: Any) -> str:
    console = Console(width=300, record=True, quiet=True, force_terminal=False)
    console.quiet = False
    with console.capture() as captured:
        print_result(console, item, **options)
    return captured.get()


def summarized(*results: VerificationResult) -> str:
    console = Console(width=300)
    with console.capture() as captured:
        print_summary(console, VerificationResultSet(results))
    return captured.get()


def test_a_result_shows_answer_extracted_fields_truth_verdict_and_why() -> None:
    text = printed(make_result("q7", Outcome.WRONG, "It is TP53.", template=JUDGED), position="3/12")

    for words in (
        "wrong",
        "3/12",
        "What is q7?",
        "It is TP53.",
        "TP53",
        "BCL2",
        "1984",
        "differ from the ground truth",
    ):
        assert words in text


def test_field_rows_pair_what_was_extracted_with_the_truth() -> None:
    assert field_rows(make_result(template=JUDGED)) == [
        ("gene", "TP53", "BCL2", False),
        ("year", "nothing", "1984", False),
        ("says_so", "(compares the answer itself)", "true", True),
    ]


def test_a_long_answer_is_cut_with_a_note() -> None:
    item = make_result(answer="x" * 5000)

    assert "(3,800 more characters: `karenina show --full`)" in printed(item)
    assert printed(item, detailed=True).count("x") >= 5000


def test_a_very_long_answer_is_printed_whole_only_on_request() -> None:
    item = make_result(answer="x" * 50_000)

    assert "(30,000 more characters: `karenina show --full`)" in printed(item, detailed=True)
    assert printed(item, detailed=True, full=True).count("x") >= 50_000


@pytest.mark.parametrize(
    ("outcome", "answer", "said"),
    [
        (Outcome.MODEL_ERROR, "", "(none)"),
        (Outcome.WRONG, "", "(empty)"),
        (Outcome.WRONG, " \n", "(only white space)"),
    ],
)
def test_an_empty_answer_is_told_from_none(outcome: Outcome, answer: str, said: str) -> None:
    assert said in printed(make_result(outcome=outcome, answer=answer))


def test_details_show_vetoes_and_what_each_stage_did() -> None:
    item = make_result(
        outcome=Outcome.ABSTAINED,
        vetoes=[VetoRecord(stage="AbstentionCheck", reason="it refuses", outcome=Outcome.ABSTAINED)],
        stages=[
            {"name": "Say", "status": "failed", "error": "no luck", "calls": 2, "distribution": "d", "version": "1"}
        ],
    )

    text = printed(item, detailed=True)

    assert "AbstentionCheck: it refuses" in text
    assert "no luck" in text


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_can_be_printed_without_unicode(outcome: Outcome) -> None:
    class Ascii(Console):
        encoding = "ascii"

    console = Ascii(width=200)
    with console.capture() as captured:
        print_result(console, make_result(outcome=outcome))

    assert outcome.value in captured.get()
    assert captured.get().isascii()


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    text = printed(make_result(answer="red \x1b[31m bell \x07 [bold]markup[/bold] [/nothing]"))

    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]markup[/bold] [/nothing]" in text


def test_the_name_of_an_item_cannot_steer_the_terminal() -> None:
    hostile = make_result()
    hostile.metadata.result_id = "q\x1b[31m"
    hostile.metadata.timestamp = "\x1b[2J"

    assert "\x1b" not in printed(hostile)


def test_texts_are_shortened_to_one_line() -> None:
    assert shorten("a\n b\t c", 20) == "a b c"
    assert shorten("abcdefgh", 5) == "abcd…"
    assert clean("a\x00b\u202ec") == "a\\x00b\\x202ec"


def test_the_summary_has_denominators_and_bounds() -> None:
    outcomes = [Outcome.CORRECT] * 6 + [Outcome.WRONG] * 2 + [Outcome.MODEL_ERROR, Outcome.PARSE_ERROR]
    text = summarized(*(make_result(f"q{number}", outcome) for number, outcome in enumerate(outcomes)))

    assert "6 of 8 judged items correct (75.0%, rough 95% CI 40.9%-92.9%)" in text
    assert "2 of 10: 1 model_error, 1 parse_error" in text
    assert "60.0% if every unjudged item were wrong, 80.0% if right" in text


def test_the_summary_tells_models_apart_where_there_are_several() -> None:
    text = summarized(
        make_result(metadata={"answering_id": "small"}),
        make_result(outcome=Outcome.WRONG, metadata={"answering_id": "large"}),
    )

    rows = [line.split() for line in text.splitlines()]
    assert ["small", "j", "100.0%", "rough", "20.7%-100.0%", "1", "1"] in rows
    assert ["large", "j", "0.0%", "rough", "0.0%-79.3%", "0", "1"] in rows
    assert "50.0%" not in text


def test_a_long_table_shows_incorrect_results_and_their_number() -> None:
    results = [make_result(f"q{number}") for number in range(MAX_ROWS)] + [make_result("odd", Outcome.WRONG)]
    console = Console(width=200)
    with console.capture() as captured:
        print_table(console, results)

    assert "What is odd?" in captured.get()
    assert "What is q1?" not in captured.get()
    assert f"Of {len(results)} results, at most {MAX_ROWS} that are not correct" in captured.get()


def test_show_prints_each_result_and_the_summary(tmp_path: Path) -> None:
    file = write_results(tmp_path / "r.jsonl", make_result("a"), make_result("b", Outcome.WRONG))

    done = run_karenina("show", file)

    assert done.code == 0
    assert "What is a?" in done.out
    assert "What is b?" in done.out
    assert "1 of 2 judged" in done.out


def test_show_refuses_a_file_that_is_given_twice(tmp_path: Path) -> None:
    file = write_results(tmp_path / "r.jsonl", make_result("a"))
    (tmp_path / "link.jsonl").symlink_to(file)

    for other, message in (
        (file, "was given more than once"),
        (tmp_path / "link.jsonl", f"is the same file as {file}"),
    ):
        done = run_karenina("show", file, other, "--quiet")
        assert (done.code, done.out) == (2, "")
        assert message in done.err


@pytest.mark.parametrize("line", ["x" * 2_700_000, "It is BCL2, I think.\n" * 130_000])
def test_show_lays_out_the_beginning_of_a_huge_answer(line: str, tmp_path: Path) -> None:
    file = write_results(
        tmp_path / "r.jsonl", make_result("a", answer=line, template={"parsed_llm_response": {"g": line}})
    )
    shown = run_karenina("show", file, width=80)
    assert shown.code == 0
    assert len(shown.out) < 200_000
    assert f"({len(line) - 20_000:,} more characters: `karenina show --full`)" in " ".join(shown.out.split())
    whole = run_karenina("show", file, "--full", width=80)
    assert line in whole.out
    assert len(whole.out) < len(line) + 200_000


def test_a_huge_answer_cannot_steer_the_terminal(tmp_path: Path) -> None:
    file = write_results(tmp_path / "r.jsonl", make_result("a", answer="\x1b[2J" + "x" * 20_000 + "\x1b]0;t\x07"))
    assert "\x1b" not in run_karenina("show", file, "--full").out


def test_show_reports_its_selection(tmp_path: Path) -> None:
    file = write_results(
        tmp_path / "r.jsonl", make_result("a"), make_result("b", Outcome.WRONG), make_result("c", Outcome.WRONG)
    )

    wrong = run_karenina("show", file, "--outcome", "wrong", "--json").json
    assert [result["question_id"] for result in wrong["results"]] == ["b", "c"]
    assert wrong["summary"]["items"] == 2
    assert [result["question_id"] for result in run_karenina("show", file, "-q", "a", "--json").json["results"]] == [
        "a"
    ]
    assert "the selected 2 of 3 results" in run_karenina("show", file, "--outcome", "wrong").err


def test_show_reads_several_files_as_one_run(tmp_path: Path) -> None:
    first = write_results(tmp_path / "1.jsonl", make_result("a"))
    second = write_results(tmp_path / "2.jsonl", make_result("b"))

    assert run_karenina("show", first, second, "--json").json["summary"]["items"] == 2


COUNTED_WRONGLY = json.dumps(
    make_result().model_dump(mode="json") | {"template": {"usage_metadata": {"x": {"calls": []}}}}
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{}\n", "line 1 is not a result"),
        (COUNTED_WRONGLY, "the field 'template.usage_metadata' is invalid: calls must be an integer"),
        (make_result().model_dump_json() + "\nnonsense\n", "line 2 is not valid JSON"),
    ],
)
def test_a_file_of_something_else_is_bad_input(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "r.jsonl"
    if content is not None:
        file.write_text(content, "utf-8")

    done = run_karenina("show", file)

    assert done.code == 2
    assert said in done.err


def test_show_refuses_unknown_questions_and_outcomes(tmp_path: Path) -> None:
    file = write_results(tmp_path / "r.jsonl", make_result("alpha"))

    assert "did you mean 'alpha'?" in run_karenina("show", file, "-q", "alpa").err
    assert run_karenina("show", file, "--outcome", "fine").code == 2


def test_a_trait_that_was_not_scored_says_why(tmp_path: Path) -> None:
    from karenina_core.data.sections import VerificationResultRubric

    item = make_result("a").model_copy(
        update={
            "rubric": VerificationResultRubric(
                llm_trait_scores={"clarity": None, "depth": 4}, trait_errors={"clarity": "the judge said 10 of 1..5"}
            )
        }
    )
    shown = run_karenina("show", str(write_results(tmp_path / "r.jsonl", item)))
    assert "clarity: not scored: the judge said 10 of 1..5" in shown.out
    assert "depth = 4" in shown.out


def scored(number: int, outcome: Outcome = Outcome.SCORED, **rubric: Any) -> VerificationResult:
    item = make_result(f"q{number}", outcome)
    item.rubric = VerificationResultRubric(**rubric)
    return item


def test_a_summary_of_scores_has_traits_but_no_pass_rate() -> None:
    text = summarized(
        scored(1, llm_trait_scores={"clear": True, "depth": 4}, metric_trait_scores={"facts": {"recall": 0.5}}),
        scored(2, llm_trait_scores={"clear": False, "depth": 3}),
        scored(3, Outcome.RUBRIC_ERROR, llm_trait_scores={"depth": None}, trait_errors={"depth": "away"}),
    )

    assert "Pass rate" not in text
    assert "Bounds" not in text
    for line in ("clear: 50.0% true of 2", "depth: mean 3.5 of 2, 1 not scored", "facts: recall 0.5 of 1"):
        assert line in text


def test_a_summary_of_verdicts_has_pass_rate_and_traits() -> None:
    item = scored(1, Outcome.CORRECT, llm_trait_scores={"tone": 1}, llm_trait_labels={"tone": "kind"})
    text = summarized(item)

    assert "Pass rate" in text
    assert "tone: kind 1 of 1" in text


def test_a_long_list_of_traits_is_cut() -> None:
    text = summarized(scored(1, regex_trait_scores={f"t{number}": True for number in range(MAX_TRAITS + 2)}))

    assert "and 2 more, in `summary().traits` and --json" in text


def test_show_prints_the_rule_excerpts_and_reasons(tmp_path: Path) -> None:
    benchmark = tmp_path / "numbers.yaml"
    benchmark.write_text(
        "karenina: 1\nname: Numbers\nquestions:\n  - id: q1\n    question: How many?\n    answer:\n      number: "
        "{type: float, description: N, ground_truth: 40, verify_with: {type: NumericTolerance, tolerance: 0.5}}\n",
        "utf-8",
    )
    bound = template_of(next(iter(Benchmark.load(benchmark))))
    assert bound is not None
    item = make_result(
        outcome=Outcome.WRONG,
        metadata={"template_id": bound.template_id},
        template={
            "parsed_llm_response": {"number": 6},
            "parsed_gt_response": {"number": 40},
            "field_results": {"number": False},
        },
    )
    judged = VerificationResultDeepJudgment(
        extracted_excerpts={"number": [{"text": "It is 6.", "confidence": "high"}]},
        attribute_reasoning={"number": "The response says six."},
    )
    file = write_results(tmp_path / "r.jsonl", item.model_copy(update={"deep_judgment": judged}))

    shown = run_karenina("show", file, "--benchmark", benchmark).out

    assert "number  6          40     NumericTolerance (tolerance 0.5)" in shown
    assert "number: The response says six." in shown
    assert "number: \u201cIt is 6.\u201d (high confidence)" in shown
    assert "NumericTolerance" not in run_karenina("show", file).out


@pytest.mark.parametrize("printing", ["table", "summary"])
def test_errors_are_printed_whole(printing: str) -> None:
    cause = "the server refused the request " + "because of this and that " * 20 + "set the key: the cure"
    item = make_result(outcome=Outcome.MODEL_ERROR, metadata={"error": cause})
    if printing == "summary":
        text = summarized(item)
    else:
        console = Console(width=200, record=True, file=io.StringIO())
        print_table(console, [item])
        text = console.export_text()
    assert "cure" in text
    assert "\u2026" not in text


def test_show_prints_every_reason_and_does_not_send_to_itself(tmp_path: Path) -> None:
    results = [
        make_result(f"q{at}", Outcome.PARSE_ERROR, metadata={"error": f"reason {'abcdefgh'[at]}"}) for at in range(8)
    ]
    file = write_results(tmp_path / "results.jsonl", *results)
    done = run_karenina("show", file, "--quiet")

    assert "1 x reason h" in done.out
    assert "other reasons" not in done.out
    assert "3 x 3 other reasons, in `failures()` and `karenina show`" in summarized(*results)
