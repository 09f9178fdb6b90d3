"""`Comparison`: the verification of one answer, in which each field is compared with its truth only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karenina_template.templates.answer_key import AnswerKey
from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.compose import Result, known_result
from karenina_template.templates.errors import InvalidAnswer
from karenina_template.templates.primitives import Undecided

_DECLARED = ("verify", "verify_granular", "field_results", "field_scores")


@dataclass(slots=True)
class Comparison:
    """The results of `verify`, `verify_granular`, `field_results` and `field_scores` of `answer`.

    If the class overrides none of them, all four share one comparison of each field, which may be slow (embeddings).
    Otherwise the class's own methods are called on demand. Raises what they raise, and `InvalidAnswer`.
    """

    answer: BaseAnswer
    _key: AnswerKey | None = field(init=False)
    _compared: Mapping[str, Result] | None = field(init=False, default=None)
    _scores: dict[str, float | None] | None = field(init=False, default=None)
    _why: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        cls = type(self.answer)
        declared = all(getattr(cls, name) is getattr(BaseAnswer, name) for name in _DECLARED)
        key = self.answer._answer_key() if declared else None
        self._key = key if key is not None and key.rules else None

    def passed(self) -> bool | None:
        """Return the result of `verify`, None if it is undecided; `why_undecided` has the reason then.

        None from a class's own `verify` means that only if a field is undecided; otherwise it is false. If a field is
        undecided and `verify` raises, because it does not expect None, the answer is undecided too.
        """
        if self._key is not None:
            passed = self._key.verdict(self._results())
            self._why = self._key.why_undecided(self._results()) if passed is None else None
            return passed
        try:
            answer: object = self.answer.verify()
        except InvalidAnswer:
            raise
        except Exception as error:
            why = self._why_fields_are_undecided()
            if why is None:
                raise
            self._why = f"{why} (verify() raised {type(error).__name__}: {error})"
            return None
        if isinstance(answer, Undecided):
            self._why = answer.why
            return None
        if answer is None:
            self._why = self._why_fields_are_undecided()
            return None if self._why is not None else False
        return bool(answer)

    def why_undecided(self) -> str | None:
        """Return why `passed` returned None."""
        return self._why

    def granular(self) -> float | None:
        """Return the result of `verify_granular`."""
        return self.answer.verify_granular() if self._key is None else self._key.grade(self.scores())

    def results(self) -> dict[str, bool | None]:
        """Return the result of `field_results`."""
        found = self.answer.field_results() if self._key is None else self._results()
        return {name: known_result(result) for name, result in found.items()}

    def scores(self) -> dict[str, float | None]:
        """Return the result of `field_scores`."""
        if self._key is None:
            return self.answer.field_scores()
        if self._scores is None:
            self._scores = self.answer._credits(self._results())
        return self._scores

    def _results(self) -> Mapping[str, Result]:
        if self._compared is None:
            self._compared = self.answer._results()
        return self._compared

    def _why_fields_are_undecided(self) -> str | None:
        """Return why fields are undecided, for a class with methods of its own; None if none is."""
        own = {name: result for name, result in self.answer.field_results().items() if known_result(result) is None}
        compared = self._results() if own else {}
        return self.answer._answer_key().why_undecided({name: compared.get(name, own[name]) for name in own})
