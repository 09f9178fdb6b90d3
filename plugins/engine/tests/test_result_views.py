"""Results and plans at the Python prompt and in notebooks."""

from __future__ import annotations

from typing import Any

from command_runs import make_plugins, make_result
from shown_html import HOSTILE, ShownHTML

from karenina_core import Question, VerificationConfig
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import VerificationResultRubric
from karenina_engine.check.planner import Planner
from karenina_engine.results.result_set import VerificationResultSet

JUDGED: dict[str, Any] = {
    "parsed_llm_response": {"gene": "TP53"},
    "parsed_gt_response": {"gene": "BCL2"},
    "field_results": {"gene": False},
    "verify_result": False,
    "template_verification_performed": True,
}


def results(right: int, wrong: int) -> VerificationResultSet:
    """Return results of which the first ones are right."""
    found = [make_result(f"q{number}") for number in range(right)]
    return VerificationResultSet(
        [
            *found,
            *(make_result(f"q{right + number}", Outcome.WRONG, "TP53.", template=JUDGED) for number in range(wrong)),
        ]
    )


def hostile() -> VerificationResult:
    """Return a result in which every text of a model, file or server is hostile and long."""
    text = HOSTILE * 1000
    template = {name: {HOSTILE: text} for name in ("parsed_llm_response", "parsed_gt_response")}
    return make_result(
        HOSTILE,
        Outcome.MODEL_ERROR,
        text,
        metadata={"question_text": text, "error": text, "answering_id": HOSTILE, "raw_answer": text},
        template={**template, "field_results": {HOSTILE: True}},
        rubric=VerificationResultRubric(
            llm_trait_scores={HOSTILE: True}, trait_errors={f"{HOSTILE}{number}": text for number in range(100)}
        ),
    )


def test_a_result_set_is_its_pass_rate_with_the_interval() -> None:
    assert repr(results(8, 2)).splitlines() == [
        "VerificationResultSet of 10 results",
        "Pass rate  8 of 10 judged items correct (80.0%, rough 95% CI 49.0%-94.3%)",
        "Outcomes   8 correct, 2 wrong",
    ]


def test_an_empty_result_set_can_be_shown() -> None:
    assert "none: no item has a verdict" in repr(VerificationResultSet())
    assert "0 results" in ShownHTML(VerificationResultSet()._repr_html_()).text


def test_a_notebook_shows_the_summary_and_a_row_for_each_result() -> None:
    seen = ShownHTML(results(1, 1)._repr_html_())

    assert seen.tags.count("tr") == 2 + 1 + 2
    for text in (
        "1 of 2 judged items correct (50.0%",
        "✗ wrong",
        "gene: TP53",
        "BCL2",
        "gene differs from the ground truth",
    ):
        assert text in seen.text


def test_of_many_results_a_notebook_shows_those_that_are_not_correct() -> None:
    seen = ShownHTML(results(100, 2)._repr_html_())

    assert seen.tags.count("td") == 2 + 2 * 6
    assert "The table shows the 2 of 102 results that are not correct." in seen.text
    assert "the first 20 of those that are not correct" in ShownHTML(results(0, 90)._repr_html_()).text
    assert "All 30 results are correct." in ShownHTML(results(30, 0)._repr_html_()).text


def test_several_judges_are_named_in_the_table() -> None:
    both = [make_result(metadata={"parsing_id": judge}) for judge in ("strict", "lenient")]

    assert "judged by lenient" in ShownHTML(VerificationResultSet(both)._repr_html_()).text


def test_a_result_is_its_outcome_and_the_reason() -> None:
    found = make_result("q7", Outcome.WRONG, "It is TP53.", template=JUDGED)

    assert repr(found) == "<VerificationResult 'q7', wrong: 'gene differs from the ground truth'>"
    seen = ShownHTML(found._repr_html_())
    for text in ("✗ wrong q7", "What is q7?", "It is TP53.", "TP53", "BCL2", "gene differs from the ground truth"):
        assert text in seen.text


def test_hostile_results_are_shown_as_text_of_limited_length() -> None:
    found = hostile()

    for shown in (found, VerificationResultSet([found] * 200)):
        html, text = shown._repr_html_() or "", repr(shown)
        assert "<script>alert(1)</script>" in ShownHTML(html).text
        assert len(html) < 150_000
        assert len(text) < 6_000
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_plan_is_its_stages_and_a_table_of_their_reasons() -> None:
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    config = VerificationConfig(answering_models=[model], evaluation_mode="rubric_only")
    plan = Planner(config, make_plugins()).plan(Question(question="Which?"))

    assert repr(plan).startswith(f"<Plan of {len(plan.stages)} stages: Say, ")
    seen = ShownHTML(plan._repr_html_())
    assert seen.tags.count("tr") == 1 + len(plan.stages)
    assert "Waits for" in seen.text
    assert "reads everything" in seen.text


def test_an_undecided_field_has_a_mark_and_the_item_a_reason() -> None:
    template = {
        "parsed_llm_response": {"day": "01/02/2024"},
        "parsed_gt_response": {"day": "2024-02-01"},
        "field_results": {"day": None},
        "field_verification_error": "field day: 01/02/2024 can be two dates",
    }
    one = make_result("q1", Outcome.UNDECIDED, template=template)
    shown = ShownHTML(one._repr_html_())

    assert "? undecided" in shown.text
    assert "? day 01/02/2024 2024-02-01" in " ".join(shown.text.split())
    assert "field day: 01/02/2024 can be two dates" in shown.text
    (row,) = VerificationResultSet([one]).table("fields")
    assert (row["passed"], row["score"]) == (None, None)
