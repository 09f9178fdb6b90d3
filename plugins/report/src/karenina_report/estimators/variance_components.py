"""Means over questions, pass@k and pass^k, and variance components.

Means are of values between 0 and 1. The variance of verdicts is split into parts for questions, judges and replicates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from statistics import fmean
from typing import Final

from karenina_engine.results.rates import effective_size, wilson


def mean_interval(values: Iterable[tuple[Hashable, Fraction]]) -> tuple[float, float, float]:
    """Return the mean of the values and the bounds of its 95% interval. `values` are pairs of a statistical unit and a
    value from 0 to 1. Raises `ValueError` if there are none.

    The interval is Wilson's at the effective sample size, as for a rate. It is wider if values of a unit are alike.
    """
    sums: dict[Hashable, Fraction] = {}
    sizes: dict[Hashable, int] = {}
    for unit, value in values:
        sums[unit] = sums.get(unit, Fraction(0)) + value
        sizes[unit] = sizes.get(unit, 0) + 1
    items, total = sum(sizes.values()), sum(sums.values(), Fraction(0))
    if not items:
        raise ValueError("there are no values to average")
    size = effective_size(
        len(sizes),
        items,
        total,
        sum((unit_total * unit_total for unit_total in sums.values()), Fraction(0)),
        sum((sums[unit] * sizes[unit] for unit in sums), Fraction(0)),
        sum(unit_size * unit_size for unit_size in sizes.values()),
        graded=True,
    )
    mean = float(total / items)
    low, high = wilson(mean * size, size)
    return mean, min(low, mean), max(high, mean)


def pass_at_k(right: int, judged: int, k: int) -> float:
    """Return pass@k: the probability that at least one of `k` judged replicates is right. Raises `ValueError` if fewer
    than `k` replicates were judged.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021.
    """
    _check(right, judged, k)
    return 1 - comb(judged - right, k) / comb(judged, k)


def pass_hat_k(right: int, judged: int, k: int) -> float:
    """Return pass^k: the probability that `k` replicates, drawn from the `judged` ones, of which `right` are right, are
    all right. Raises `ValueError` if fewer than `k` replicates were judged.

    Source: S. Yao et al., tau-bench, 2024.
    """
    _check(right, judged, k)
    return comb(right, k) / comb(judged, k)


def _check(right: int, judged: int, k: int) -> None:
    """Raise `ValueError` unless `k` is from 1 to `judged` and `right` is from 0 to `judged`."""
    if not 0 <= right <= judged or not 1 <= k <= judged:
        raise ValueError(f"cannot draw {k} from {judged} replicates, of which {right} are right")


QUESTION: Final = "question"
JUDGE: Final = "judge"
BOTH: Final = "question x judge"
REST: Final = "rest"
BOTH_AND_REST: Final = "question x judge, and rest"
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """The components of variance, each at least 0, and the names of those that cannot be separated.

    With one judge, the components for judges are unknown. With one replicate, the question-by-judge interaction and the
    residual are one component.
    """

    components: dict[str, float]
    unknown: tuple[str, ...]

    @property
    def shares(self) -> dict[str, float]:
        """Each component's share of the total variance. The mapping is empty if nothing varies."""
        total = sum(self.components.values())
        return {name: component / total for name, component in self.components.items()} if total else {}


def estimate_components(cells: Sequence[Sequence[Sequence[float]]]) -> VarianceComponents | None:
    """Estimate the variance components by question, judge and replicate from the values in
    `cells[question][judge][replicate]`, none of which may be missing. Returns None for fewer than two questions, or for
    one judge and one replicate, because nothing can be separated then.

    The estimates are from mean squares. All judges judge the same answers, so replicates are crossed with judges within
    each question. Differences between the answers to a question belong to the residual, not to the interaction.
    """
    questions, judges, replicates = len(cells), len(cells[0]) if cells else 0, len(cells[0][0]) if cells else 0
    if questions < 2 or judges * replicates < 2:
        return None
    mean = fmean(value for question in cells for judge in question for value in judge)
    of_question = [fmean(value for judge in question for value in judge) for question in cells]
    of_judge = [fmean(value for question in cells for value in question[at]) for at in range(judges)]
    between = judges * replicates * sum((value - mean) ** 2 for value in of_question) / (questions - 1)
    answers = _answers(cells, of_question)
    if judges == 1:
        assert answers is not None
        return VarianceComponents(
            _at_least_0({QUESTION: (between - answers) / replicates, REST: answers}), (JUDGE, BOTH)
        )
    by_judge = questions * replicates * sum((value - mean) ** 2 for value in of_judge) / (judges - 1)
    interaction = _interaction(cells, of_question, of_judge, mean)
    judge = (by_judge - interaction) / (questions * replicates)
    if answers is None:
        components = {QUESTION: (between - interaction) / judges, JUDGE: judge, BOTH_AND_REST: interaction}
        return VarianceComponents(_at_least_0(components), (BOTH, REST))
    noise = _noise(cells, of_question)
    components = {
        QUESTION: (between - answers - interaction + noise) / (judges * replicates),
        JUDGE: judge,
        BOTH: (interaction - noise) / replicates,
        REST: noise + max(0.0, (answers - noise) / judges),
    }
    return VarianceComponents(_at_least_0(components), ())


def _at_least_0(components: dict[str, float]) -> dict[str, float]:
    """Replace negative estimates by 0, and those that are only rounding errors."""
    return {name: component if component > _ROUNDING else 0.0 for name, component in components.items()}


def _answers(cells: Sequence[Sequence[Sequence[float]]], of_question: Sequence[float]) -> float | None:
    """Return the mean square for answers within questions, from the values in `cells[question][judge]` and the means of
    the questions, or None if there is only one replicate.
    """
    judges, replicates = len(cells[0]), len(cells[0][0])
    if replicates == 1:
        return None
    total = sum(
        (fmean(judge[at] for judge in question) - mean) ** 2
        for question, mean in zip(cells, of_question, strict=True)
        for at in range(replicates)
    )
    return judges * total / (len(cells) * (replicates - 1))


def _interaction(
    cells: Sequence[Sequence[Sequence[float]]], of_question: Sequence[float], of_judge: Sequence[float], mean: float
) -> float:
    """Return the mean square for the question-by-judge interaction, from the values in `cells[question][judge]` and
    their means. There must be at least two questions and two judges.
    """
    total = sum(
        (fmean(values) - question_mean - judge_mean + mean) ** 2
        for question, question_mean in zip(cells, of_question, strict=True)
        for values, judge_mean in zip(question, of_judge, strict=True)
    )
    return len(cells[0][0]) * total / ((len(cells) - 1) * (len(of_judge) - 1))


def _noise(cells: Sequence[Sequence[Sequence[float]]], of_question: Sequence[float]) -> float:
    """Return the residual mean square for judges and answers within questions. `cells` contains values by question,
    judge and replicate, with at least two judges and two replicates, and `of_question` the mean of each question.
    """
    judges, replicates = len(cells[0]), len(cells[0][0])
    total = 0.0
    for question, mean in zip(cells, of_question, strict=True):
        of_answer = [fmean(judge[at] for judge in question) for at in range(replicates)]
        for judge in question:
            own = fmean(judge)
            total += sum((value - own - of_answer[at] + mean) ** 2 for at, value in enumerate(judge))
    return total / (len(cells) * (judges - 1) * (replicates - 1))
