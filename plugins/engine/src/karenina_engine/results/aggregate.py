"""Aggregates of results: counts of outcomes, pass rates, trait scores, failures and usage, computed one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import fields
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import Usage
from karenina_engine.results.failure_counts import Failure, FailureCounts
from karenina_engine.results.rates import Clusters, Rate
from karenina_engine.results.trait_summary import TraitSummary, TraitTally

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


_USAGE_FIELDS: Final = tuple(one.name for one in fields(Usage))


class Summary(BaseModel):
    """The counts of outcomes and the rates that follow from them.

    `items` is every item of the run; `judged` those with a verdict; `not_judged` those that ended in errors or are
    undecided; `scored` those that have trait scores only. `pass_rate` is correct out of judged, and has the number of
    undecided items beside it, with the rate if all of these were wrong. `worst` and `best` are correct out of judged
    and not judged together, if every unjudged item were wrong or right; items that only lack the score of some trait,
    which would have no verdict, are not included. `traits` are the summaries of rubric traits by name.
    """

    model_config = ConfigDict(frozen=True)

    items: int
    judged: int
    not_judged: int
    scored: int
    outcomes: dict[str, int]
    pass_rate: Rate
    worst: float | None
    best: float | None
    mean_granular: float | None = None
    granular_out_of: int = 0
    traits: dict[str, TraitSummary] = {}


class OutcomeTally:
    """Counts of outcomes that grow with a run. It keeps no results.

    `per_question` is the number of items of each question, if it is known: then a question that has all of them takes
    no more memory.
    """

    def __init__(self, per_question: int | None = None) -> None:
        self._per_question = per_question
        self._counts: Counter[Outcome] = Counter()
        self._verdicts = Clusters()
        self._seen: dict[Hashable, int] = {}
        self._grades = Fraction(0)  # exact, so that the order does not matter; it is slow
        self._whole_grades = 0
        self._graded = 0

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, outcome: Outcome, question: Hashable, granular: object = None) -> None:
        """Count an item by its outcome and question; `granular` is its granular result, used if it is a number."""
        self._counts[outcome] += 1
        self._verdicts.add_outcome(question, outcome)
        if outcome.has_verdict and isinstance(granular, (int, float)) and isfinite(granular):
            if granular == int(granular):
                self._whole_grades += int(granular)
            else:
                self._grades += Fraction(granular)
            self._graded += 1
        if self._per_question is not None:
            seen = self._seen.get(question, 0) + 1
            if seen < self._per_question:
                self._seen[question] = seen
            else:
                self._seen.pop(question, None)
                self._verdicts.fold(question)

    def summary(self) -> Summary:
        """Return the summary of the items so far."""
        counts = self._counts
        correct = counts[Outcome.CORRECT]
        not_judged = sum(count for outcome, count in counts.items() if not outcome.judged)
        unjudged = not_judged - counts[Outcome.RUBRIC_ERROR]
        asked = self._verdicts.items + unjudged
        return Summary(
            items=len(self),
            judged=self._verdicts.items,
            not_judged=not_judged,
            scored=counts[Outcome.SCORED],
            outcomes={outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
            pass_rate=self._verdicts.rate(),
            worst=correct / asked if asked else None,
            best=(correct + unjudged) / asked if asked else None,
            mean_granular=float((self._grades + self._whole_grades) / self._graded) if self._graded else None,
            granular_out_of=self._graded,
        )


class Totals:
    """The summary of results, those of each pair of models, the failures and the usage.

    Its length is the number of results; it keeps none of them. `per_question` is the number of results of each question
    for one pair of models, if it is known: then a question that has all of them takes no more memory. `pairs` is the
    number of pairs then.
    """

    def __init__(self, *, per_question: int | None = None, pairs: int = 1) -> None:
        self._per_question = per_question
        self._all = OutcomeTally(per_question * pairs if per_question is not None else None)
        self._is_one_pair = per_question is not None and pairs == 1
        self._pairs: dict[tuple[str, str], OutcomeTally] = {}
        self._traits = TraitTally()
        self._traits_of_pairs: dict[tuple[str, str], TraitTally] = {}
        self._answers: set[int] = set()
        self._used = [0] * len(_USAGE_FIELDS)
        self._failures = FailureCounts()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, result: VerificationResult) -> None:
        """Count one result. The tokens of an answer that several judges share count once."""
        meta, template = result.metadata, result.template
        pair = (meta.answering_id, meta.parsing_id)
        tally = self._pairs.get(pair)
        if tally is None:
            # The only pair of a run has all of its results, which are then counted once.
            tally = self._pairs[pair] = self._all if self._is_one_pair else OutcomeTally(self._per_question)
        self._all.add(result.outcome, meta.question_id, template.verify_granular_result)
        if tally is not self._all:
            tally.add(result.outcome, meta.question_id, template.verify_granular_result)
        if not result.outcome.judged:
            self._failures.add(result.why(), result.question_id)
        if result.rubric is not None:
            self._traits.add(result.rubric)
            self._traits_of_pairs.setdefault(pair, TraitTally()).add(result.rubric)
        answer = hash((meta.question_id, meta.answering_id, meta.replicate or 1))
        for name, part in (template.usage_metadata or {}).items():
            if name != "total" and (part.get("scope") != "answer" or answer not in self._answers):
                for index, counted in enumerate(_USAGE_FIELDS):
                    self._used[index] += part.get(counted, 0)
        self._answers.add(answer)

    def summary(self) -> Summary:
        """Return counts, the pass rate with its denominator and interval, and the bounds that unjudged items leave."""
        return _summary_with_traits(self._all, self._traits)

    def by_models(self) -> dict[tuple[str, str], Summary]:
        """Return a summary for each pair of answering model and judge (by their ids)."""
        return {
            pair: _summary_with_traits(self._pairs[pair], self._traits_of_pairs.get(pair))
            for pair in sorted(self._pairs)
        }

    def failures(self) -> list[Failure]:
        """Return why items were not judged: equal reasons counted together, the most frequent first."""
        return self._failures.ranked()

    def usage(self) -> Usage:
        """Return the calls and tokens of all results."""
        return Usage(*self._used)


def _summary_with_traits(outcomes: OutcomeTally, traits: TraitTally | None) -> Summary:
    found = outcomes.summary()
    return found if traits is None else found.model_copy(update={"traits": traits.summaries()})
