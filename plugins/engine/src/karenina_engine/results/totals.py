"""What results say together, counted one after another, so that none of them has to be kept."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from karenina_core.models.ports import Usage
from karenina_engine.results.failure_counts import Failure, FailureCounts
from karenina_engine.results.summary import OutcomeTally, Summary
from karenina_engine.results.trait_summary import TraitTally

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


_COUNTED: Final = tuple(one.name for one in fields(Usage))


class Totals:
    """The summary of results, that of each pair of models, and what all used. Its length is the number of results.

    `per_question` is how many results each question has for one pair of models, where that is known: a question that
    has them all takes no more memory.
    """

    def __init__(self, *, per_question: int | None = None, pairs: int = 1) -> None:
        self._per_question = per_question
        self._all = OutcomeTally(per_question * pairs if per_question is not None else None)
        self._pairs: dict[tuple[str, str], OutcomeTally] = {}
        self._traits = TraitTally()
        self._traits_of_pairs: dict[tuple[str, str], TraitTally] = {}
        self._answers: set[int] = set()
        self._used = [0] * len(_COUNTED)
        self._failures = FailureCounts()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, result: VerificationResult) -> None:
        """Count one result. The tokens of one answer, which several judges share, count once."""
        meta, template = result.metadata, result.template
        pair = (meta.answering_id, meta.parsing_id)
        tally = self._pairs.get(pair)
        if tally is None:
            tally = self._pairs[pair] = OutcomeTally(self._per_question)
        for one in (self._all, tally):
            one.add(result.outcome, meta.question_id, template.verify_granular_result)
        if not result.outcome.judged:
            self._failures.add(result.why(), result.question_id)
        if result.rubric is not None:
            self._traits.add(result.rubric)
            self._traits_of_pairs.setdefault(pair, TraitTally()).add(result.rubric)
        answer = hash((meta.question_id, meta.answering_id, meta.replicate or 1))
        for name, part in (template.usage_metadata or {}).items():
            if name != "total" and (part.get("scope") != "answer" or answer not in self._answers):
                for place, counted in enumerate(_COUNTED):
                    self._used[place] += part.get(counted, 0)
        self._answers.add(answer)

    def summary(self) -> Summary:
        """Counts, pass rate with its denominator and interval, and the bounds that unjudged items leave."""
        return _with_traits(self._all, self._traits)

    def by_models(self) -> dict[tuple[str, str], Summary]:
        """A summary for each pair of answering model and judge (by their ids)."""
        return {pair: _with_traits(self._pairs[pair], self._traits_of_pairs.get(pair)) for pair in sorted(self._pairs)}

    def failures(self) -> list[Failure]:
        """Why items were not judged, equal reasons counted together, those of most items first."""
        return self._failures.ranked()

    def usage(self) -> Usage:
        """What the run used."""
        return Usage(*self._used)


def _with_traits(outcomes: OutcomeTally, traits: TraitTally | None) -> Summary:
    found = outcomes.summary()
    return found if traits is None else found.model_copy(update={"traits": traits.summaries()})
