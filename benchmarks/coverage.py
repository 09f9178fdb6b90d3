"""How often the 95% intervals of reports hold the true value, and how often equal runs are called different.

    python benchmarks/coverage.py
    python benchmarks/coverage.py --only rates --runs 20000

Runs are simulated: each question has a chance of being answered right, drawn from a beta distribution with mean `p` and
intraclass correlation `likeness`; replicates are independent given it. So the true rate is `p`, and the true difference
of two runs with the same `p` is 0. Cells: p of .5, .7, .9, .95, .97; likeness of 0, .3, .7, .95; 1 or 5 replicates; all
of them judged, or 90%. What is called is what reports call.

- `rates`: the interval of a pass rate.
- `differences`: the interval of a difference, between runs with questions of their own chances (unequal) and between
  runs that are exchangeable (equal, where intervals may hold the truth more often: if hardly a question flips, the
  difference is 0 and so is what is found).
- `p values`: the share of runs whose sign-flip p is at most .01, .05 and .1. Between equal runs it may exceed that by
  no more than three Monte Carlo errors; between unequal ones it may be 6.5% at .05.

Measured on 22 November 2026, 3,000 runs a cell, 80 cells a row (least, mean and most of the cells):

| | 50 questions | 200 | 1,000 |
|---|---|---|---|
| pass rates | 92.9, 95.8, 99.0% | 93.7, 95.3, 97.9% | 93.7, 95.1, 96.6% |
| differences of unequal runs | 93.5, 96.0, 99.7% | 94.1, 95.1, 96.5% | 94.0, 95.0, 95.9% |
| differences of equal runs | 93.9, 97.8, 100% | 94.3, 96.7, 100% | 94.0, 95.6, 99.6% |

The least pass rate, 92.9% (50 questions, one replicate, 97% right), is Wilson's own interval, which holds exactly 93.7%
there; one Monte Carlo error is .5 points. p at most .01, .05, .1 between equal runs, the highest cell: 1.2, 5.4,
10.6% (50 questions); 1.3, 5.8, 11.0% (200). Between unequal runs: 1.3, 5.5, 10.6% (50). Ends with 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from karenina_engine.results.rates import effective_size, wilson
from karenina_report.estimators.paired import mean_difference
from karenina_report.estimators.sign_flip import sign_flip

RATES = (0.5, 0.7, 0.9, 0.95, 0.97)
LIKENESS = (0.0, 0.3, 0.7, 0.95)
REPLICATES = (1, 5)
JUDGED = (1.0, 0.9)
SIZES = (50, 200, 1000)
SEED = 14

LEAST = 0.93
MEANS = (0.94, 0.97)
LARGE = (0.935, 0.97)
"""The targets: of each cell, of the mean over cells of one size, and of each cell of the largest size."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Cell:
    """One kind of run."""

    size: int
    rate: float
    likeness: float
    replicates: int
    judged: float

    def __str__(self) -> str:
        """Return the cell in words."""
        judged = "" if self.judged == 1 else f", {self.judged:.0%} judged"
        return f"{self.rate:.0%} right, likeness {self.likeness:g}, {self.replicates} replicates{judged}"

    def chances(self, runs: int, random: np.random.Generator) -> Array:
        """Draw the chance of each question in so many runs."""
        if not self.likeness:
            return np.full((runs, self.size), self.rate)
        weight = (1 - self.likeness) / self.likeness
        return random.beta(self.rate * weight, (1 - self.rate) * weight, (runs, self.size))

    def observe(self, chances: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """Draw the right and the judged replicates of each question."""
        judged = (
            np.full(chances.shape, self.replicates)
            if self.judged == 1
            else random.binomial(self.replicates, self.judged, chances.shape)
        )
        return random.binomial(judged, chances), judged


def cells(sizes: Sequence[int]) -> Iterator[Cell]:
    """Return all cells."""
    for one in product(sizes, RATES, LIKENESS, REPLICATES, JUDGED):
        yield Cell(*one)


def rates(cell: Cell, runs: int, random: np.random.Generator) -> float:
    """Return the share of intervals of a pass rate that hold the true one."""
    right, judged = cell.observe(cell.chances(runs, random), random)
    held = 0
    for hits, sizes in zip(right, judged, strict=True):
        questions, items, found = int((sizes > 0).sum()), int(sizes.sum()), int(hits.sum())
        squares = (int((hits * hits).sum()), int((hits * sizes).sum()), int((sizes * sizes).sum()))
        size = effective_size(questions, items, found, *squares)
        low, high = wilson(found / items * size, size)
        held += low <= cell.rate <= high
    return held / runs


def differences(cell: Cell, runs: int, random: np.random.Generator, *, equal: bool) -> float:
    """Return the share of intervals of a difference that hold 0."""
    held = 0
    for found, replicates in two_runs(cell, runs, random, equal=equal):
        one = mean_difference([float(value) for value in found], range(len(found)), replicates=replicates)
        assert one.low is not None
        assert one.high is not None
        held += one.low <= 1e-12 and one.high >= -1e-12
    return held / runs


def two_runs(cell: Cell, runs: int, random: np.random.Generator, *, equal: bool) -> Iterator[tuple[Array, float]]:
    """Return the differences of the questions that both of two runs have judged, and their mean replicates."""
    chances = cell.chances(runs, random)
    right_a, judged_a = cell.observe(chances, random)
    right_b, judged_b = cell.observe(chances if equal else cell.chances(runs, random), random)
    for hits_a, sizes_a, hits_b, sizes_b in zip(right_a, judged_a, right_b, judged_b, strict=True):
        both = (sizes_a > 0) & (sizes_b > 0)
        found = hits_a[both] / sizes_a[both] - hits_b[both] / sizes_b[both]
        yield found, float((sizes_a[both] + sizes_b[both]).mean() / 2)


def p_values(cell: Cell, runs: int, random: np.random.Generator, *, equal: bool) -> list[float]:
    """Return the sign-flip p of each of so many pairs of runs."""
    found = []
    for values, _ in two_runs(cell, runs, random, equal=equal):
        found.append(sign_flip([Fraction(float(one)).limit_denominator(60) for one in values]).p)
    return found


def coverage(
    name: str,
    sizes: Sequence[int],
    runs: int,
    measure: Callable[[Cell, int, np.random.Generator], float],
    *,
    upper: bool,
) -> bool:
    """Print how often intervals of each size hold the truth; return whether the targets are met."""
    print(f"\n{name}, {runs:,} runs a cell: share of 95% intervals that hold the truth")
    print(f"{'questions':>9}  {'cells':>5}  {'least':>6}  {'mean':>6}  {'most':>6}  the cell with the least")
    by_size: dict[int, dict[Cell, float]] = defaultdict(dict)
    for number, cell in enumerate(cells(sizes)):
        by_size[cell.size][cell] = measure(cell, runs, np.random.default_rng([SEED, number]))
    met = True
    for size, found in by_size.items():
        worst, mean, most = min(found, key=found.__getitem__), fmean(found.values()), max(found.values())
        print(f"{size:>9}  {len(found):>5}  {found[worst]:>6.1%}  {mean:>6.1%}  {most:>6.1%}  {worst}")
        error = 3 * sqrt(LEAST * (1 - LEAST) / runs)
        least = LARGE[0] if size == max(SIZES) else LEAST
        good = found[worst] >= least - error and mean >= MEANS[0]
        if upper:
            good = good and mean <= MEANS[1] and (size < max(SIZES) or most <= LARGE[1] + error)
        met = met and good
    bounds = f"no cell under {LEAST:.0%}" + (f", means {MEANS[0]:.0%}-{MEANS[1]:.0%}" if upper else "")
    if max(SIZES) in sizes:
        bounds += f", at {max(SIZES):,} no cell under {LARGE[0]:.1%}" + (f" or above {LARGE[1]:.0%}" if upper else "")
    bounds += " (+- 3 Monte Carlo errors)"
    print(f"target: {bounds}: {'met' if met else 'MISSED'}")
    return met


def errors(sizes: Sequence[int], runs: int, *, equal: bool) -> bool:
    """Print how often the sign-flip p is small; return whether the targets are met."""
    levels = (0.01, 0.05, 0.1)
    print(f"\np values between {'equal' if equal else 'unequal'} runs, {runs:,} a cell: highest share at or below")
    print(f"{'questions':>9}  " + "  ".join(f"{level:>6}" for level in levels))
    met = True
    for size in sizes:
        highest = dict.fromkeys(levels, 0.0)
        for number, cell in enumerate(cells([size])):
            found = np.array(p_values(cell, runs, np.random.default_rng([SEED, number]), equal=equal))
            for level in levels:
                highest[level] = max(highest[level], float((found <= level).mean()))
        print(f"{size:>9}  " + "  ".join(f"{highest[level]:>6.1%}" for level in levels))
        limits = {level: level + 3 * sqrt(level * (1 - level) / runs) for level in levels}
        met = met and (
            all(highest[one] <= limits[one] for one in levels) if equal else highest[0.05] <= limits_of(runs)
        )
    target = "at most the level (+ 3 Monte Carlo errors)" if equal else "at most 6.5% at .05 (+ 3 Monte Carlo errors)"
    print(f"target: {target}: {'met' if met else 'MISSED'}")
    return met


def limits_of(runs: int) -> float:
    """Return the highest share at .05 that is allowed between unequal runs."""
    return 0.065 + 3 * sqrt(0.065 * 0.935 / runs)


def of_rates(sizes: Sequence[int], runs: int) -> bool:
    """Print the coverage of pass rates; return whether the targets are met."""
    return coverage("pass rates", sizes, runs, rates, upper=True)


def of_differences(sizes: Sequence[int], runs: int) -> bool:
    """Print the coverage of differences; return whether the targets are met."""
    unequal = coverage("differences of unequal runs", sizes, runs, partial(differences, equal=False), upper=True)
    equal = coverage("differences of equal runs", sizes, runs, partial(differences, equal=True), upper=False)
    return unequal and equal


def of_p_values(sizes: Sequence[int], runs: int) -> bool:
    """Print how often p values are small; return whether the targets are met."""
    small = [size for size in sizes if size < max(SIZES)]
    equal, unequal = errors(small, runs, equal=True), errors(small, runs, equal=False)
    return equal and unequal


PARTS: dict[str, Callable[[Sequence[int], int], bool]] = {
    "rates": of_rates,
    "differences": of_differences,
    "p values": of_p_values,
}


def main() -> None:
    """Simulate, print, and exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS), action="append", help="what is simulated (default: all)")
    parser.add_argument("--runs", type=int, default=3000, help="runs a cell (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of questions")
    given = parser.parse_args()
    met = [PARTS[name](given.sizes, given.runs) for name in given.only or PARTS]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
