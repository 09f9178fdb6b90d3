"""Replicates, components of variance and agreement between judges, compared with other programs."""

from __future__ import annotations

from collections.abc import Sequence

import krippendorff as oracle
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nq301 import available, rows
from sklearn.metrics import cohen_kappa_score
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.inter_rater import fleiss_kappa as oracle_fleiss

from karenina_report.estimators.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, raw_agreement
from karenina_report.estimators.variance_components import (
    BOTH,
    BOTH_AND_REST,
    JUDGE,
    QUESTION,
    REST,
    estimate_components,
    pass_at_k,
    pass_hat_k,
)

BINARY = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n))))
def test_pass_at_k_counts_every_draw(drawn: tuple[int, int, int]) -> None:
    from itertools import combinations

    right, judged, k = drawn
    draws = list(combinations([True] * right + [False] * (judged - right), k))

    assert pass_at_k(right, judged, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(right, judged, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_more_draws_than_replicates_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot draw 4 from 3 replicates"):
        pass_at_k(1, 3, 4)


def simulated(questions: int, judges: int, replicates: int, seed: int = 1) -> list[list[list[float]]]:
    """Draw values with components of 1 (question), .25 (judge), .5 (both), .3 (answer) and .2 (the rest)."""
    random = np.random.default_rng(seed)
    values = (
        random.normal(0, 1, (questions, 1, 1))
        + random.normal(0, 0.5, (1, judges, 1))
        + random.normal(0, np.sqrt(0.5), (questions, judges, 1))
        + random.normal(0, np.sqrt(0.3), (questions, 1, replicates))
        + random.normal(0, np.sqrt(0.2), (questions, judges, replicates))
    )
    cells: list[list[list[float]]] = values.tolist()
    return cells


def test_components_of_variance_are_found_although_judges_share_answers() -> None:
    estimated = estimate_components(simulated(3000, 40, 5))

    assert estimated is not None
    assert estimated.unknown == ()
    assert estimated.components == pytest.approx({QUESTION: 1, JUDGE: 0.25, BOTH: 0.5, REST: 0.5}, rel=0.25)
    assert estimated.components[QUESTION] == pytest.approx(1, rel=0.06)
    assert estimated.components[BOTH] == pytest.approx(0.5, rel=0.02)
    assert estimated.components[REST] == pytest.approx(0.5, rel=0.02)


def test_components_with_one_replicate_agree_with_statsmodels() -> None:
    cells = simulated(12, 4, 1)
    table = pd.DataFrame(
        [(value, q, j) for q, question in enumerate(cells) for j, judge in enumerate(question) for value in judge],
        columns=["value", "question", "judge"],
    )
    squares = anova_lm(OLS.from_formula("value ~ C(question) + C(judge)", table).fit())["mean_sq"]

    estimated = estimate_components(cells)

    assert estimated is not None
    assert estimated.unknown == (BOTH, REST)
    assert estimated.components == pytest.approx(
        {
            QUESTION: (squares["C(question)"] - squares["Residual"]) / 4,
            JUDGE: max(0.0, (squares["C(judge)"] - squares["Residual"]) / 12),
            BOTH_AND_REST: squares["Residual"],
        }
    )


def test_one_judge_or_replicate_leaves_components_unknown() -> None:
    one_judge = estimate_components(simulated(50, 1, 4))

    assert one_judge is not None
    assert one_judge.unknown == (JUDGE, BOTH)
    assert set(one_judge.components) == {QUESTION, REST}
    assert estimate_components(simulated(50, 1, 1)) is None
    assert estimate_components(simulated(1, 3, 3)) is None


def assign_units(pairs: Sequence[object]) -> range:
    """Return a unit for each item."""
    return range(len(pairs))


@given(BINARY)
def test_cohens_kappa_is_that_of_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    kappa = cohen_kappa(assign_units(pairs), pairs)
    one, other = zip(*pairs, strict=True)

    if len(set(one)) < 2 or len(set(other)) < 2:
        assert kappa is None
    else:
        assert kappa is not None
        assert kappa.value == pytest.approx(cohen_kappa_score(one, other))
        assert kappa.low is not None
        assert kappa.high is not None
        assert kappa.low <= kappa.value <= kappa.high


def test_the_interval_of_kappa_agrees_with_statsmodels() -> None:
    pairs = [(True, True)] * 40 + [(True, False)] * 6 + [(False, True)] * 3 + [(False, False)] * 21
    oracle_found = cohens_kappa(np.array([[40.5, 6.5], [3.5, 21.5]]))

    kappa = cohen_kappa(assign_units(pairs), pairs)

    assert kappa is not None
    assert (kappa.low, kappa.high) == pytest.approx((oracle_found.kappa_low, oracle_found.kappa_upp), abs=1e-9)


def test_items_of_one_question_widen_the_interval_of_kappa() -> None:
    pairs = ([(True, True)] * 9 + [(True, False)] * 3 + [(False, False)] * 8) * 5
    alike, apart = cohen_kappa([at % 20 for at in range(100)], pairs), cohen_kappa(range(100), pairs)

    assert alike is not None
    assert apart is not None
    assert alike.value == apart.value
    assert alike.low is not None
    assert apart.low is not None
    assert alike.low < apart.low - 0.1


RATINGS = st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=2, max_size=30)


@given(RATINGS)
def test_fleiss_kappa_is_that_of_statsmodels(items: list[tuple[str, str, str]]) -> None:
    kappa = fleiss_kappa(assign_units(items), items)

    if len({rating for ratings in items for rating in ratings}) < 2:
        assert kappa is None
    else:
        counts = np.array([[ratings.count(rating) for rating in "abc"] for ratings in items])
        assert kappa is not None
        assert kappa.value == pytest.approx(oracle_fleiss(counts))


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", None])] * 3), min_size=2, max_size=30))
def test_krippendorffs_alpha_is_that_of_its_package(items: list[tuple[str | None, ...]]) -> None:
    alpha = krippendorff_alpha(assign_units(items), items)
    several = [ratings for ratings in items if sum(rating is not None for rating in ratings) > 1]

    if len({rating for ratings in several for rating in ratings if rating is not None}) < 2:
        assert alpha is None
    else:
        values = [[{"a": 1.0, "b": 2.0}.get(rating or "", np.nan) for rating in ratings] for ratings in items]
        assert alpha is not None
        assert alpha.value == pytest.approx(
            oracle.alpha(reliability_data=np.array(values).T, level_of_measurement="nominal")
        )


def test_a_rare_class_has_no_interval_by_bootstrap() -> None:
    few = [("a", "a")] * 50 + [("a", "b")] * 9
    enough = [("a", "a")] * 50 + [("a", "b"), ("b", "b")] * 9

    for coefficient in (fleiss_kappa, krippendorff_alpha):
        rare, common = coefficient(assign_units(few), few), coefficient(assign_units(enough), enough)
        assert rare is not None
        assert rare.low is None
        assert common is not None
        assert common.low is not None
        assert common.high is not None
        assert common.low < common.value < common.high
        assert common == coefficient(assign_units(enough), enough), "the draws repeat"


@available
@pytest.mark.parametrize(
    ("judge", "accuracy", "kappa"),
    [("gpt4_judge", "0.848", "0.696"), ("davinci003_judge", "0.838", "0.676"), ("bem_judge", "0.806", "0.617")],
)
def test_judges_of_nq301_agree_with_people_as_published(judge: str, accuracy: str, kappa: str) -> None:
    """The published numbers are for all rows; the half in the tests was drawn by question, and may differ slightly."""
    labelled = [row for row in rows() if row[judge] is not None and row["human_label"] is not None]
    pairs = [(row[judge], row["human_label"]) for row in labelled]
    units = [row["question"] for row in labelled]

    agreed, cohen = raw_agreement(units, pairs), cohen_kappa(units, pairs)

    assert agreed.value is not None
    assert cohen is not None
    assert agreed.value == pytest.approx(float(accuracy), abs=0.02)
    assert cohen.value == pytest.approx(float(kappa), abs=0.04)
