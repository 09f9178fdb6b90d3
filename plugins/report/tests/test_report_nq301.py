"""GPT-4 against davinci-003 as judges of NQ301: 748 rows on 150 questions, with published numbers."""

from __future__ import annotations

from nq301 import available, judged

from karenina_report import compare
from karenina_report.comparison.comparison_result import Difference, Pair

pytestmark = available


def pair(cluster: str | None = None) -> tuple[Pair, Difference]:
    """Return the comparison of both judges, and the difference of the pass rates."""
    (compared,) = compare(judged("gpt4"), judged("davinci003"), cluster=cluster, any_judge=True).pairs
    difference = compared.difference()
    assert difference is not None
    return compared, difference


def test_by_row_the_exact_p_is_mcnemars() -> None:
    _, difference = pair("question_id")

    assert (difference.questions, difference.units) == (747, 747)
    assert (difference.flipped.higher_in_a, difference.flipped.higher_in_b) == (44, 32)
    assert f"{difference.p:.4f}" == "0.2067"


def test_clustered_by_question_it_is_what_other_programs_compute() -> None:
    _, difference = pair()

    assert (difference.questions, difference.units) == (747, 150)
    assert f"{100 * difference.difference:+.2f}" == "+1.61"
    assert difference.plain is not None
    assert f"[{100 * difference.plain.low:+.2f}, {100 * difference.plain.high:+.2f}]" == "[-1.08, +4.29]"
    assert f"{difference.plain.p:.3f}" == "0.239"
    assert f"{difference.p:.3f}" == "0.284"
    assert difference.p_exact


def test_the_interval_with_pseudo_questions_is_slightly_wider() -> None:
    _, difference = pair()

    assert difference.plain is not None
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < difference.plain.low
    assert difference.plain.high < difference.high < difference.plain.high + 0.001


def test_the_row_without_a_verdict_is_listed_as_unpaired() -> None:
    compared, difference = pair()

    assert compared.unpaired == ["nq301-0149"]
    assert difference.bounds is not None
    assert (difference.bounds.unjudged_a, difference.bounds.unjudged_b, difference.bounds.sign_holds) == (1, 0, True)


def test_stored_answers_and_rows_with_equal_text_are_recognised() -> None:
    compared, _ = pair()

    assert compared.same_answers
    assert any("748 questions have the same text as another question" in note for note in compared.notes)
