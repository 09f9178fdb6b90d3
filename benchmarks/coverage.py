"""How often the 95% intervals in reports contain the true value, and how often equal runs are called different.

    python benchmarks/coverage.py
    python benchmarks/coverage.py --quick
    python benchmarks/coverage.py --only rates --sizes 50 200

Runs are simulated: each question has a chance of being answered right, drawn from a beta distribution with mean `p` and
intraclass correlation `likeness`; given this chance, replicates are independent. So the true rate is `p`, and the true
difference between two runs with the same `p` is 0. Cells: p of .5, .7, .9, .95, .97; likeness of 0, .3, .7, .95; 1 or 5
replicates, of which all or 90% are judged. The estimators are those used in reports, computed for many runs at once
(`coverage_estimators.py`); the first runs in each cell are compared with the functions that reports call.

- `rates`: the interval of a pass rate.
- `differences`: the interval of a difference, between runs whose questions have separate chances (unequal) and between
  runs that are exchangeable (equal; these intervals may contain the true value more often: if hardly any question
  flips, the difference is 0 and so is its estimate).
- `p values`: the share of pairs whose sign-flip p is at most .01, .05 and .1.

Bounds: no cell below 93%, the mean of the cells of each size within 94-97%, and, at 1,000 questions, each cell within
93.5-97%; p values of equal runs exceed their level by at most three Monte Carlo errors, and those of unequal runs are
at most 6.5% at .05. The default number of runs is so large that noise is not decisive; the output states its Monte
Carlo error. `--quick` is a smoke test: it simulates few runs of 50 questions, and every bound is widened by three Monte
Carlo errors.

Measured on 22 November 2026, 80 cells per row (lowest, mean and highest). 50 and 200 questions with 12,000 runs per
cell, a Monte Carlo error of .23 points; 1,000 questions with 3,000 runs (`--sizes 1000 --runs 3000`, .47 points):

| | 50 questions | 200 | 1,000 |
|---|---|---|---|
| pass rates | 93.27, 95.81, 98.97% | 94.16, 95.24, 97.73% | 93.70, 95.06, 95.97% |
| differences of unequal runs | 94.03, 96.03, 99.67% | 94.56, 95.12, 96.10% | 94.10, 95.06, 95.80% |
| differences of equal runs | 94.42, 97.88, 100% | 94.62, 96.58, 100% | 93.70, 95.55, 99.53% |

p at most .01, .05, .1, in the highest cell: between equal runs 1.10, 5.23, 10.17% (50 questions), 1.07, 5.09, 10.00%
(200) and 1.37, 5.53, 10.63% (1,000); between unequal runs 1.09, 5.03, 10.21%, 1.15, 5.28, 10.35% and 1.40, 5.73,
11.43%.

Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import fmean

import numpy as np
from coverage_estimators import Array, difference_intervals, rate_intervals, sign_flip_p

RATES = (0.5, 0.7, 0.9, 0.95, 0.97)
LIKENESS = (0.0, 0.3, 0.7, 0.95)
REPLICATES = (1, 5)
JUDGED = (1.0, 0.9)
SIZES = (50, 200, 1000)
LEVELS = (0.01, 0.05, 0.1)
SEED = 14
RUNS = 12_000
QUICK_RUNS = 1_000
BATCH = 2_000_000
"""The number of questions that are simulated at a time."""

LEAST = 0.93
MEANS = (0.94, 0.97)
LARGE = (0.935, 0.97)
UNEQUAL_AT_05 = 0.065

PARTS = ("rates", "differences", "p values")
TITLES = {
    "rates": "pass rates",
    "unequal": "differences of unequal runs",
    "equal": "differences of equal runs",
}


@dataclass(frozen=True)
class Cell:
    """A kind of run."""

    size: int
    rate: float
    likeness: float
    replicates: int
    judged: float

    def __str__(self) -> str:
        """Return a description of the cell."""
        judged = "" if self.judged == 1 else f", {self.judged:.0%} judged"
        return f"{self.rate:.0%} right, likeness {self.likeness:g}, {self.replicates} replicates{judged}"

    def draw_chances(self, runs: int, random: np.random.Generator) -> Array:
        """Draw each question's chance of being answered right, for `runs` runs."""
        if not self.likeness:
            return np.full((runs, self.size), self.rate)
        weight = (1 - self.likeness) / self.likeness
        return random.beta(self.rate * weight, (1 - self.rate) * weight, (runs, self.size))

    def draw_hits(self, chances: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """Draw the numbers of correct replicates and of judged replicates for each question."""
        judged = (
            np.full(chances.shape, self.replicates)
            if self.judged == 1
            else random.binomial(self.replicates, self.judged, chances.shape)
        )
        return random.binomial(judged, chances), judged


@dataclass
class Figures:
    """The shares, in one cell, of intervals that contain the true value and of p values that are at most each level."""

    held: dict[str, float]
    small: dict[str, dict[float, float]]


def make_cells(sizes: Sequence[int]) -> Iterator[Cell]:
    """Yield the cells for all kinds of run, for each number of questions."""
    for one in product(sizes, RATES, LIKENESS, REPLICATES, JUDGED):
        yield Cell(*one)


def simulate(cell: Cell, runs: int, random: np.random.Generator, parts: Sequence[str]) -> Figures:
    """Simulate the runs of a cell in batches, and return the cell's figures."""
    held: dict[str, int] = defaultdict(int)
    small: dict[str, dict[float, int]] = defaultdict(lambda: dict.fromkeys(LEVELS, 0))
    left = runs
    while left:
        batch = min(left, max(1, BATCH // cell.size))
        left -= batch
        chances = cell.draw_chances(batch, random)
        first = cell.draw_hits(chances, random)
        if "rates" in parts:
            low, high = rate_intervals(*first)
            held["rates"] += int(((low <= cell.rate) & (cell.rate <= high)).sum())
        if "differences" not in parts and "p values" not in parts:
            continue
        for kind in ("unequal", "equal"):
            others = chances if kind == "equal" else cell.draw_chances(batch, random)
            differences, paired, replicates = subtract(first, cell.draw_hits(others, random))
            if "differences" in parts:
                low, high = difference_intervals(differences, paired, replicates)
                held[kind] += int(((low <= 1e-12) & (high >= -1e-12)).sum())
            if "p values" in parts:
                found = sign_flip_p(differences)
                for level in LEVELS:
                    small[kind][level] += int((found <= level).sum())
    return Figures(
        {name: count / runs for name, count in held.items()},
        {name: {level: count / runs for level, count in counts.items()} for name, counts in small.items()},
    )


def subtract(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Return the difference for each question, whether both runs judged it, and the mean replicates for each pair."""
    (hits_a, sizes_a), (hits_b, sizes_b) = first, second
    paired = (sizes_a > 0) & (sizes_b > 0)
    differences = np.where(paired, hits_a / np.maximum(sizes_a, 1) - hits_b / np.maximum(sizes_b, 1), 0.0)
    replicates = ((sizes_a + sizes_b) * paired).sum(1) / paired.sum(1) / 2
    return differences, paired, replicates


def monte_carlo_error(share: float, runs: int) -> float:
    """Return the standard error of a share estimated from this many runs."""
    return sqrt(share * (1 - share) / runs)


def judge_coverage(name: str, found: dict[Cell, Figures], runs: int, *, quick: bool) -> bool:
    """Print how often intervals contain the true value, for each number of questions.

    Returns whether bounds are met.
    """
    upper = name != "equal"
    slack = 3 * monte_carlo_error(LEAST, runs) if quick else 0.0
    print(f"\n{TITLES[name]}, {runs:,} runs a cell: share of 95% intervals that contain the truth")
    print(f"{'questions':>9}  {'cells':>5}  {'least':>6}  {'mean':>6}  {'most':>6}  the cell with the least")
    by_size: dict[int, dict[Cell, float]] = defaultdict(dict)
    for cell, figures in found.items():
        by_size[cell.size][cell] = figures.held[name]
    met = True
    for size, shares in by_size.items():
        worst, mean, most = min(shares, key=shares.__getitem__), fmean(shares.values()), max(shares.values())
        print(f"{size:>9}  {len(shares):>5}  {shares[worst]:>6.2%}  {mean:>6.2%}  {most:>6.2%}  {worst}")
        large = size >= max(SIZES)
        met = met and shares[worst] >= (LARGE[0] if large else LEAST) - slack and mean >= MEANS[0] - slack
        if upper:
            met = met and mean <= MEANS[1] + slack and (not large or most <= LARGE[1] + slack)
    bounds = f"no cell under {LEAST:.0%}, means " + (
        f"{MEANS[0]:.0%}-{MEANS[1]:.0%}" if upper else f"from {MEANS[0]:.0%}"
    )
    if max(by_size) >= max(SIZES):
        bounds += f", at {max(SIZES):,} no cell under {LARGE[0]:.1%}" + (f" or above {LARGE[1]:.0%}" if upper else "")
    print(f"Monte Carlo error of a cell at {LEAST:.0%}: {monte_carlo_error(LEAST, runs):.2%}")
    print_verdict(bounds, met, quick=quick)
    return met


def judge_p_values(kind: str, found: dict[Cell, Figures], runs: int, *, quick: bool) -> bool:
    """Print how often the sign-flip p value is small, and return whether the bounds are met."""
    equal = kind == "equal"
    print(f"\np values between {kind} runs, {runs:,} pairs a cell: highest share at or below")
    print(f"{'questions':>9}  " + "  ".join(f"{level:>6}" for level in LEVELS))
    limits = {level: level + 3 * monte_carlo_error(level, runs) for level in LEVELS}
    if not equal:
        limits = {0.05: UNEQUAL_AT_05 + (3 * monte_carlo_error(UNEQUAL_AT_05, runs) if quick else 0.0)}
    met = True
    for size in dict.fromkeys(cell.size for cell in found):
        highest = {
            level: max(figures.small[kind][level] for cell, figures in found.items() if cell.size == size)
            for level in LEVELS
        }
        print(f"{size:>9}  " + "  ".join(f"{highest[level]:>6.2%}" for level in LEVELS))
        met = met and all(highest[level] <= limit for level, limit in limits.items())
    print("Monte Carlo errors: " + ", ".join(f"{monte_carlo_error(level, runs):.2%} at {level}" for level in LEVELS))
    bound = "at most the level by 3 Monte Carlo errors" if equal else f"at most {UNEQUAL_AT_05:.1%} at .05"
    print_verdict(bound, met, quick=quick and not equal)
    return met


def print_verdict(bounds: str, met: bool, *, quick: bool) -> None:
    """Print the bounds, and whether they are met. `quick` adds a note that the bounds are widened."""
    widened = " (quick: widened by 3 Monte Carlo errors)" if quick else ""
    print(f"target: {bounds}{widened}: {'met' if met else 'MISSED'}")


def main() -> None:
    """Simulate the runs, print the figures, and exit with 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="what to simulate (default: all)")
    parser.add_argument("--runs", type=int, help=f"runs a cell (default: {RUNS:,})")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of questions (default: 50 200 1000)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS:,} runs of 50 questions, with wider bounds")
    given = parser.parse_args()
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    parts = given.only or PARTS
    found = {
        cell: simulate(cell, runs, np.random.default_rng([SEED, number]), parts)
        for number, cell in enumerate(make_cells(given.sizes or (SIZES[:1] if given.quick else SIZES)))
    }
    met = []
    if "rates" in parts:
        met.append(judge_coverage("rates", found, runs, quick=given.quick))
    for kind in ("unequal", "equal"):
        if "differences" in parts:
            met.append(judge_coverage(kind, found, runs, quick=given.quick))
        if "p values" in parts:
            met.append(judge_p_values(kind, found, runs, quick=given.quick))
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
