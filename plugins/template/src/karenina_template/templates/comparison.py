"""`Comparison`: the verification of one answer, in which each field is compared with its truth only once."""

from __future__ import annotations

from dataclasses import dataclass, field

from karenina_template.templates.answer_key import AnswerKey
from karenina_template.templates.base import BaseAnswer

_DECLARED = ("verify", "verify_granular", "field_results", "field_scores")


@dataclass(slots=True)
class Comparison:
    """The results of `verify`, `verify_granular`, `field_results` and `field_scores` of `answer`.

    If the class overrides none of them, all four share one comparison of each field, which may be slow (embeddings).
    Otherwise the class's own methods are called on demand. Raises what they raise.
    """

    answer: BaseAnswer
    _key: AnswerKey | None = field(init=False)
    _results: dict[str, bool] | None = field(init=False, default=None)
    _scores: dict[str, float] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        cls = type(self.answer)
        declared = all(getattr(cls, name) is getattr(BaseAnswer, name) for name in _DECLARED)
        key = self.answer._answer_key() if declared else None
        self._key = key if key is not None and key.rules else None

    def passed(self) -> bool:
        """Return the result of `verify`."""
        return bool(self.answer.verify()) if self._key is None else self._key.verdict(self.results())

    def granular(self) -> float:
        """Return the result of `verify_granular`."""
        return self.answer.verify_granular() if self._key is None else self._key.grade(self.scores())

    def results(self) -> dict[str, bool]:
        """Return the result of `field_results`."""
        if self._key is None:
            return self.answer.field_results()
        if self._results is None:
            self._results = self.answer.field_results()
        return self._results

    def scores(self) -> dict[str, float]:
        """Return the result of `field_scores`."""
        if self._key is None:
            return self.answer.field_scores()
        if self._scores is None:
            self._scores = self.answer._credits(self.results())
        return self._scores
