"""GPT-4 against davinci-003 as judges of NQ301: 748 rows on 150 questions, with published numbers."""

from __future__ import annotations

from nq301 import available, judged

from karenina_report import compare
from karenina_report.comparison.comparison_result import Difference, Pair

pytestmark = available


def pair(cluster: str | None = None) -> tuple[Pair, Difference]:
    """Return the comparison of both judges, and the difference of the pass rates."""
    (found,) = compare(judged("gpt4"), judged("davinci003"), cluster=cluster, any_judge=True).pairs
    difference = found.difference()
    assert difference is not None
    return found, difference


def test_by_row_the_exact_p_is_mcnemars() -> None:
    _, found = pair("question_id")

    assert (found.questions, found.units) == (747, 747)
    assert (found.flipped.higher_in_a, found.flipped.higher_in_b) == (44, 32)
    assert f"{found.p:.4f}" == "0.2067"


def test_clustered_by_question_it_is_what_other_programs_compute() -> None:
    _, found = pair()

    assert (found.questions, found.units) == (747, 150)
    assert f"{100 * found.difference:+.2f}" == "+1.61"
    assert found.plain is not None
    assert f"[{100 * found.plain.low:+.2f}, {100 * found.plain.high:+.2f}]" == "[-1.08, +4.29]"
    assert f"{found.plain.p:.3f}" == "0.239"
    assert f"{found.p:.3f}" == "0.284"
    assert found.p_exact


def test_the_interval_with_pseudo_questions_is_slightly_wider() -> None:
    _, found = pair()

    assert found.plain is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.plain.low
    assert found.plain.high < found.high < found.plain.high + 0.001


def test_the_row_without_a_verdict_is_listed_as_unpaired() -> None:
    found, difference = pair()

    assert found.unpaired == ["nq301-0149"]
    assert difference.bounds is not None
    assert (difference.bounds.unjudged_a, difference.bounds.unjudged_b, difference.bounds.sign_holds) == (1, 0, True)


def test_stored_answers_and_rows_with_equal_text_are_recognised() -> None:
    found, _ = pair()

    assert found.same_answers
    assert any("748 questions have the same text as another one" in note for note in found.notes)
