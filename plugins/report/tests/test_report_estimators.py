"""The estimators agree with other programs."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests

from karenina_report.estimators.paired import (
    adjust_by_holm,
    mean_difference,
    questions_needed,
    sign_flip,
    t_quantile,
    t_two_sided,
    within_question_share,
)


@pytest.mark.parametrize("degrees", [1, 2, 7, 49, 149, 999, 100_000])
def test_the_quantile_of_t_is_that_of_scipy(degrees: int) -> None:
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-10)
    for t in (0.0, 0.01, 1.18, 3.0, 8.0):
        assert t_two_sided(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_difference_without_pseudo_questions_is_that_of_statsmodels(seed: int) -> None:
    random = np.random.default_rng(seed)
    differences = random.choice([-1.0, -0.5, 0.0, 0.0, 0.0, 1.0], 60)
    units = random.integers(0, 25, 60)
    fitted = OLS(differences, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": units}, use_t=True)

    difference = mean_difference(list(differences), list(units), pseudo=False)

    assert (difference.low, difference.high) == pytest.approx(tuple(fitted.conf_int()[0]))
    assert difference.p == pytest.approx(fitted.pvalues[0])
    assert difference.error == pytest.approx(fitted.bse[0])


def test_an_interval_never_has_a_width_of_zero() -> None:
    difference = mean_difference([0.0] * 50, range(50), replicates=5)

    assert difference.mean == 0
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < 0 < difference.high


def test_pseudo_questions_do_not_move_the_difference() -> None:
    difference = mean_difference([1.0, 1.0, 1.0, 0.0], range(4))

    assert difference.low is not None
    assert difference.high is not None
    assert (difference.low + difference.high) / 2 == pytest.approx(difference.mean) == pytest.approx(0.75)
    assert difference.high - difference.low > 2 * stats.t.ppf(0.975, 3) * stats.sem([1, 1, 1, 0])


def test_one_question_has_no_interval() -> None:
    difference = mean_difference([1.0, 0.0], ["same", "same"])

    assert (difference.error, difference.low, difference.high, difference.p) == (None, None, None, None)


@given(st.integers(0, 40), st.integers(0, 40))
def test_with_one_observation_each_the_exact_p_is_mcnemars(better: int, worse: int) -> None:
    flips = better + worse
    tested = sign_flip([Fraction(1)] * better + [Fraction(-1)] * worse + [Fraction(0)] * 7)
    tail = [comb(flips, count) / 2**flips for count in range(min(better, worse) + 1)]

    assert tested.exact
    assert tested.p == pytest.approx(min(1.0, 2 * sum(tail)))
    if better != worse:
        assert tested.mid_p == pytest.approx(2 * sum(tail) - tail[-1])
        assert tested.p == pytest.approx(stats.binomtest(better, flips).pvalue)


def parts_of(whole: int) -> st.SearchStrategy[Fraction]:
    return st.integers(-whole, whole).map(lambda one: Fraction(one, whole))


@given(st.integers(1, 60).flatmap(lambda whole: st.lists(parts_of(whole), min_size=1, max_size=10)))
def test_the_exact_p_counts_every_pattern_of_signs(scores: list[Fraction]) -> None:
    sums = [Fraction(0)]
    for score in scores:
        sums = [total + sign * score for total in sums for sign in (1, -1)]
    seen = abs(sum(scores, Fraction(0)))

    tested = sign_flip(scores)

    assert tested.exact
    assert tested.p == pytest.approx(sum(abs(total) >= seen for total in sums) / len(sums))


def test_scores_without_small_denominators_use_reproducible_draws() -> None:
    scores = [Fraction(value) for value in np.random.default_rng(3).normal(0.3, 1, 30)]

    tested = sign_flip(scores)

    assert not tested.exact
    assert tested == sign_flip(scores)
    assert tested.p == pytest.approx(
        stats.permutation_test(
            ([float(score) for score in scores],),
            np.mean,
            permutation_type="samples",
            n_resamples=20_000,
            rng=np.random.default_rng(1),
        ).pvalue,
        abs=0.02,
    )
    assert sign_flip([Fraction(1, 10_007)] * 30 + [Fraction(1, 10_009)]).p == pytest.approx(1 / 100_001)


def test_no_difference_at_all_has_a_p_of_one() -> None:
    assert sign_flip([Fraction(0)] * 5).p == 1
    assert sign_flip([]).p == 1


@pytest.mark.parametrize("seed", range(4))
def test_p_values_of_several_pairs_are_adjusted_as_by_statsmodels(seed: int) -> None:
    p_values = list(np.random.default_rng(seed).random(1 + 3 * seed) ** 3)

    assert adjust_by_holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_a_tenth_of_the_difference_needs_hundredfold_questions() -> None:
    assert questions_needed(0.01, 100, 0.028) == 100
    assert questions_needed(0.01, 100, 0.0028) == 10_000


def test_the_share_of_replicates_in_the_variance() -> None:
    assert within_question_share([0.1] * 4, [0.0, 0.0, 0.0, 0.0]) is None
    assert within_question_share([0.1] * 4, [0.0, 1.0, 0.0, 1.0]) == pytest.approx(0.3)
