"""The summary of rubric traits: the figures of each trait, with the number of scores."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from result_metadata import metadata

from karenina_core import Outcome, VerificationResult
from karenina_core.data.sections import VerificationResultRubric
from karenina_engine.results.rates import MAX_TRAITS, TraitSummary
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.summary_text import trait_text


def result(judge: str = "j", **rubric: Any) -> VerificationResult:
    """Return a result with this rubric section."""
    return VerificationResult(
        metadata=metadata(judge=judge, replicate=None),
        outcome=Outcome.SCORED,
        rubric=VerificationResultRubric(**rubric) if rubric else None,
    )


def summaries(*results: VerificationResult) -> dict[str, TraitSummary]:
    return VerificationResultSet(results).summary().traits


def test_each_kind_of_score_has_its_figure() -> None:
    found = summaries(
        result(
            llm_trait_scores={"clear": True, "depth": 4, "tone": 1, "table": {"count": 3, "name": "x"}},
            llm_trait_labels={"tone": "kind"},
            callable_trait_scores={"length": 0.5},
            metric_trait_scores={"facts": {"recall": 1.0, "precision": 0.5}},
            other_trait_scores={"tasting_trait_scores": {"sweet": "very"}},
        ),
        result(
            llm_trait_scores={"clear": False, "depth": 1, "tone": 0, "table": {"count": 4}},
            llm_trait_labels={"tone": "rude"},
            callable_trait_scores={"length": 1.0},
            metric_trait_scores={"facts": {"recall": 0.5, "precision": 0.5}},
            other_trait_scores={"tasting_trait_scores": {"sweet": "very"}},
        ),
    )
    assert found == {
        "clear": TraitSummary(n=2, share=0.5),
        "depth": TraitSummary(n=2, mean=2.5),
        "tone": TraitSummary(n=2, labels={"kind": 1, "rude": 1}),
        "table": TraitSummary(n=2, parts={"count": 3.5}),
        "length": TraitSummary(n=2, mean=0.75),
        "facts": TraitSummary(n=2, parts={"recall": 0.75, "precision": 0.5}),
        "sweet": TraitSummary(n=2, labels={"very": 2}),
    }


def test_parts_that_some_scores_lack_have_their_own_count() -> None:
    found = summaries(
        result(llm_trait_scores={"table": {"count": 3, "price": None}}),
        result(llm_trait_scores={"table": {"count": 4, "price": 2}}),
    )["table"]

    assert found == TraitSummary(n=2, parts={"count": 3.5, "price": 2.0}, fewer={"price": 1})
    assert trait_text(found) == "count 3.5, price 2 (of 1) of 2"


def test_an_integer_that_no_float_can_hold_is_not_averaged() -> None:
    found = summaries(result(other_trait_scores={"size_trait_scores": {"atoms": 10**400, "parts": {"all": 10**400}}}))
    assert found == {"atoms": TraitSummary(not_scored=1), "parts": TraitSummary(n=1)}


def test_traits_without_a_score_are_counted_separately() -> None:
    found = summaries(
        result(llm_trait_scores={"clear": True}),
        result(llm_trait_scores={"clear": None}, trait_errors={"clear": "away", "gone": "no plugin"}),
        result(llm_trait_scores={"sure": None}, dynamic_rubric_skipped_traits={"clear": "not present"}),
        result(),
    )
    assert found["clear"] == TraitSummary(n=1, not_scored=1, skipped=1, share=1.0)
    assert found["gone"] == found["sure"] == TraitSummary(not_scored=1)


def test_each_pair_of_models_has_its_own_summary() -> None:
    results = VerificationResultSet(
        [result("j", regex_trait_scores={"doi": True}), result("k", regex_trait_scores={"doi": False})]
    )
    assert {pair[1]: one.traits["doi"].share for pair, one in results.by_models().items()} == {"j": 1.0, "k": 0.0}
    assert results.summary().traits == {}
    assert results.summary().groups[0].traits["doi"] == TraitSummary(n=1, share=1.0)


@given(st.lists(st.floats(-1e9, 1e9) | st.integers(-(10**6), 10**6)), st.randoms(use_true_random=False))
def test_the_order_of_results_does_not_matter(scores: list[float], draw: Any) -> None:
    given_scores = [result(callable_trait_scores={"x": score}) for score in scores]
    first = summaries(*given_scores)
    draw.shuffle(given_scores)
    assert summaries(*given_scores) == first


def test_the_number_of_counted_traits_is_limited() -> None:
    many = [result(regex_trait_scores={f"t{number}": True}) for number in range(MAX_TRAITS + 5)]
    assert len(summaries(*many)) == MAX_TRAITS
