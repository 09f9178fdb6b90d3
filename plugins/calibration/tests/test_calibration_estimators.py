"""The estimators of calibration cover the true rate, and agree with other programs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score

from karenina_calibration.estimators import (
    JudgeQuality,
    Label,
    allocate,
    corrected_difference,
    merge_small,
    more_labels,
    post_stratified,
    powered_mean,
    rogan_gladen,
    weighted_rate,
)
from karenina_report.estimators.agreement import cohen_kappa

PPI = """
import json, sys
import numpy as np
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
given = [tuple(map(np.array, one)) for one in json.load(sys.stdin)]
found = [[float(ppi_mean_pointestimate(*one)[0]), *(float(np.ravel(side)[0]) for side in ppi_mean_ci(*one, alpha=0.05))]
         for one in given]
print(json.dumps(found))
"""


def simulated(
    random: np.random.Generator, *, rate: float, labels: int, questions: int = 60, replicates: int = 5
) -> tuple[list[tuple[bool, int]], list[Label], float]:
    """Return the answers of a run with an imperfect judge, labels drawn by verdict, and the raw pass rate."""
    chances = random.beta(rate, 1 - rate, questions).repeat(replicates)
    right = random.random(chances.size) < chances
    correct = random.random(chances.size) < np.where(right, 0.85, 0.3)
    answers = [(bool(verdict), at // replicates) for at, verdict in enumerate(correct)]
    sizes = {verdict: int((correct == verdict).sum()) for verdict in (True, False)}
    drawn = [
        int(at)
        for verdict, count in allocate(sizes, labels).items()
        for at in random.permutation(np.flatnonzero(correct == verdict))[:count]
    ]
    return answers, [Label(*answers[at], right=float(right[at])) for at in drawn], float(correct.mean())


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_the_corrected_interval_holds_the_true_rate(rate: float) -> None:
    """In 400 runs, three Monte Carlo errors are 3.3 points; `benchmarks/calibration.py` has the whole grid."""
    random = np.random.default_rng(16)
    held, raw_held = 0, 0
    for _ in range(400):
        answers, labels, raw = simulated(random, rate=rate, labels=40)
        corrected = post_stratified(answers, labels)
        held += corrected.low <= rate <= corrected.high
        raw_held += abs(raw - rate) < 0.05

    assert held / 400 > 0.93 - 0.033
    assert raw_held < held


def test_with_all_labels_the_rate_is_that_of_the_labels() -> None:
    answers = [(verdict, question) for question in range(200) for verdict in (True, False)]
    labels = [Label(*answer, right=float(answer[0] or answer[1] % 4 == 0)) for answer in answers]

    corrected = post_stratified(answers, labels)

    assert corrected.value == pytest.approx(0.625, abs=0.005)
    assert corrected.low < 0.625 < corrected.high
    assert more_labels(corrected, len(answers)) is None
    assert corrected.remaining == pytest.approx((corrected.high - corrected.low) / 2, rel=0.02)


def test_weights_undo_unequal_sampling() -> None:
    """Two sampling strata that were merged: 90 answers with 9 labels, all right, and 10 with 9, all wrong."""
    answers = [("merged", at) for at in range(100)]
    labels = [Label("merged", at, 1.0, weight=10.0) for at in range(9)]
    labels += [Label("merged", at + 90, 0.0, weight=10 / 9) for at in range(9)]

    assert post_stratified(answers, labels).value == pytest.approx((18 * 0.9 + 1) / 20)


def test_equal_labels_leave_an_interval() -> None:
    corrected = post_stratified([("all", at) for at in range(50)], [Label("all", at, 1.0) for at in range(30)])

    assert 0.8 < corrected.low < corrected.value < 1
    assert corrected.high == 1


def test_a_stratum_without_labels_is_an_error() -> None:
    with pytest.raises(ValueError, match="a stratum has no labels"):
        post_stratified([("a", 1), ("b", 2)], [Label("a", 1, 1.0)])


def test_more_labels_are_suggested_only_if_they_would_help() -> None:
    many = [(True, at) for at in range(5000)]
    few = [Label(True, at, float(at % 5 > 0)) for at in range(40)]

    needed = more_labels(post_stratified(many, few), len(many))

    assert needed is not None
    labels = [Label(True, at, float(at % 5 > 0)) for at in range(40 + needed)]
    assert post_stratified(many, labels).error == pytest.approx(post_stratified(many, few).error / 2, rel=0.1)
    assert more_labels(post_stratified(many[:60], few), 60) is None


def test_equal_runs_have_no_corrected_difference() -> None:
    random = np.random.default_rng(3)
    answers, labels, _ = simulated(random, rate=0.6, labels=60)
    rate = post_stratified(answers, labels)

    difference = corrected_difference(rate, rate)

    assert difference.value == 0
    assert 0 < difference.high == -difference.low < rate.high - rate.low


def test_the_corrected_difference_holds_the_true_one() -> None:
    random = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        a, b = (post_stratified(*simulated(random, rate=rate, labels=60)[:2]) for rate in (0.7, 0.5))
        difference = corrected_difference(a, b)
        held += difference.low <= 0.2 <= difference.high

    assert held / 300 > 0.93 - 0.038


@pytest.mark.parametrize(("rate", "labels"), [(0.3, 60), (0.6, 60), (0.9, 200)])
def test_the_interval_by_quality_of_another_run_holds_the_true_rate(rate: float, labels: int) -> None:
    random = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        raw = random.binomial(300, rate * 0.85 + (1 - rate) * 0.2) / 300
        quality = JudgeQuality(*random.binomial(labels, [0.85, 0.8]) / labels, labels, labels)
        corrected = rogan_gladen(raw, 300, quality)
        held += corrected is not None and corrected.low <= rate <= corrected.high

    assert held / 1000 > 0.93


def test_a_judge_no_better_than_chance_cannot_be_corrected() -> None:
    assert rogan_gladen(0.5, 100, JudgeQuality(0.6, 0.5, 30, 30)) is None
    corrected = rogan_gladen(0.5, 100, JudgeQuality(0.9, 0.8, 1e9, 1e9))
    assert corrected is not None
    assert corrected.value == pytest.approx(0.3 / 0.7)


def test_weighted_kappa_and_agreement_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(8)
    truth = random.random(200) < 0.6
    verdicts = truth ^ (random.random(200) < 0.2)
    weights = random.choice([1.0, 2.5, 9.0], 200)
    pairs = list(zip(verdicts.tolist(), truth.tolist(), strict=True))

    kappa = cohen_kappa(range(200), pairs, weights.tolist())
    agreed = weighted_rate(range(200), (truth == verdicts).tolist(), weights.tolist())
    plain = weighted_rate(range(200), (truth == verdicts).tolist(), [3.0] * 200)

    assert kappa is not None
    assert kappa.value == pytest.approx(cohen_kappa_score(truth, verdicts, sample_weight=weights))
    assert agreed.value == pytest.approx(accuracy_score(truth, verdicts, sample_weight=weights))
    assert agreed.low is not None
    assert agreed.high is not None
    assert plain.low is not None
    assert plain.high is not None
    assert agreed.high - agreed.low > plain.high - plain.low


def test_ppi_is_that_of_ppi_python() -> None:
    random = np.random.default_rng(5)
    cases = []
    for rate, flipped, others in [(0.3, 0.1, 400), (0.6, 0.3, 200), (0.9, 0.02, 1000), (0.5, 0.5, 100)]:
        truth = random.random(60 + others) < rate
        verdicts = truth ^ (random.random(truth.size) < flipped)
        cases.append([truth[:60].astype(float), verdicts[:60].astype(float), verdicts[60:].astype(float)])
    plain = [[values.tolist() for values in case] for case in cases]
    command = [sys.executable, "-W", "ignore", "-c", PPI]
    done = subprocess.run(command, input=json.dumps(plain), capture_output=True, text=True, check=True, timeout=200)

    for case, (value, low, high) in zip(plain, json.loads(done.stdout), strict=True):
        estimate = powered_mean(*case)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((value, low, high), rel=1e-9)


def test_ppi_needs_labels_and_other_answers() -> None:
    with pytest.raises(ValueError, match="two labels"):
        powered_mean([1.0], [1.0], [1.0])


@pytest.mark.parametrize("wanted", [10, 30, 60, 200])
def test_every_stratum_gets_five_labels_and_the_rest_by_size(wanted: int) -> None:
    drawn = allocate({"correct": 150, "wrong": 40, "not judged": 6, "odd": 3}, wanted)

    assert min(drawn["not judged"], drawn["wrong"]) >= 5
    assert drawn["odd"] == 3
    assert sum(drawn.values()) == max(wanted, 18) if wanted < 199 else 199
    assert drawn["correct"] >= drawn["wrong"]


def test_small_strata_are_merged() -> None:
    assert merge_small({"a": 50, "b": 3, "c": 8, "d": 0}) == {"a": ("a",), "c": ("c", "b")}
    assert merge_small({"a": 3}) == {"a": ("a",)}
    assert merge_small({"a": 1, "b": 2, "c": 2}) == {"b": ("b", "a", "c")}
