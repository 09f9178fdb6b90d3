"""What is compared: the verdict, partial credit, errors and traits, each as a number in [0, 1] or as missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeGuard

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.wording import nearest

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

RATE: Final = "pass rate"
PARTIAL_CREDIT: Final = "partial credit"
NOT_JUDGED: Final = "not judged"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of each result.

    `value` is None if the result has none; `missing` is then True if it should have one, which counts in the bounds.
    `of_all` is False if only some questions have it. `note` is what a reader must know to understand the numbers, and
    `trait` the name of the trait that it is of.
    """

    name: str
    value: Callable[[VerificationResult], float | None]
    missing: Callable[[VerificationResult], bool]
    of_all: bool = True
    note: str = ""
    trait: str = ""


def metrics_of(
    results: Iterable[VerificationResult], cuts: Mapping[str, float], scales: Mapping[str, tuple[float, float]]
) -> Iterator[Metric]:
    """Return what the results can be compared by: the pass rate first, then errors, partial credit and traits.

    `cuts` are scores of ordinal traits: the share of results at or above one is compared, too. `scales` are the lowest
    and highest scores of traits; of one that is not among them they are the lowest and highest of the results.
    """
    everything = list(results)
    yield Metric(RATE, verdict, unjudged)
    yield Metric(NOT_JUDGED, lambda result: float(not result.outcome.judged), lambda _result: False)
    grades = {grade for one in everything if (grade := partial_credit(one)) is not None}
    if grades - {0.0, 1.0} and all(0 <= grade <= 1 for grade in grades):
        yield Metric(PARTIAL_CREDIT, partial_credit, unjudged, of_all=False)
    yield from _traits(everything, cuts, scales)


def verdict(result: VerificationResult) -> float | None:
    """Return 1 for a correct result, 0 for another that has a verdict, else None."""
    return float(result.outcome is Outcome.CORRECT) if result.outcome.has_verdict else None


def unjudged(result: VerificationResult) -> bool:
    """Return whether the result would have a verdict if nothing had failed."""
    return not result.outcome.judged and result.outcome is not Outcome.RUBRIC_ERROR


def partial_credit(result: VerificationResult) -> float | None:
    """Return the granular result of a result with a verdict, if it is a number."""
    found = result.template.verify_granular_result
    return float(found) if result.outcome.has_verdict and _is_number(found) else None


def trait_scores(result: VerificationResult) -> dict[str, float | None]:
    """Return the scores of a result's traits that are numbers, by name; None for those that could not be scored.

    A trait whose score has parts (a metric trait, a template) has one entry for each part that is a number.
    """
    if result.rubric is None:
        return {}
    found: dict[str, float | None] = dict.fromkeys(result.rubric.trait_errors or {})
    for name, score in result.rubric.get_all_trait_scores().items():
        if isinstance(score, dict):
            found |= {f"{name}.{part}": float(one) for part, one in score.items() if _is_number(one)}
        elif score is None or _is_number(score):
            found[name] = None if score is None else float(score)
    return found


def check_traits(results: Iterable[VerificationResult], names: Iterable[str]) -> None:
    """Raise `ConfigError` for a trait of which no result has a score."""
    known = {name for one in results for name, score in trait_scores(one).items() if score is not None}
    strange = [name for name in dict.fromkeys(names) if name not in known]
    if strange:
        raise ConfigError([f"no result has a score of a trait {name!r}{nearest(name, known)}" for name in strange])


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and isfinite(value)


def _traits(
    results: Iterable[VerificationResult], cuts: Mapping[str, float], scales: Mapping[str, tuple[float, float]]
) -> Iterator[Metric]:
    seen: dict[str, set[float]] = {}
    for result in results:
        for name, score in trait_scores(result).items():
            seen.setdefault(name, set()).update(() if score is None else (score,))
    for name, scores in seen.items():
        low, high = scales.get(name, (min(scores, default=0.0), max(scores, default=1.0)))
        if low >= 0 and high <= 1:
            yield _trait(name, name, float)
        elif low < high:
            source = "" if name in scales else " (the scores that occur; --scale names others)"
            note = f"scores from {low:g} to {high:g}{source} count as 0 to 1"
            yield _trait(name, f"{name} (mean)", partial(_scaled, low=low, high=high), note)
        if name in cuts:
            yield _trait(name, f"{name} >= {cuts[name]:g}", partial(_reaches, cut=cuts[name]))


def _scaled(score: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (score - low) / (high - low)))


def _reaches(score: float, cut: float) -> float:
    return float(score >= cut)


def _trait(trait: str, name: str, scaled: Callable[[float], float], note: str = "") -> Metric:
    def value(result: VerificationResult) -> float | None:
        score = trait_scores(result).get(trait)
        return None if score is None else scaled(score)

    def missing(result: VerificationResult) -> bool:
        scores = trait_scores(result)
        return scores[trait] is None if trait in scores else not result.outcome.judged

    return Metric(name, value, missing, of_all=False, note=note, trait=trait)
