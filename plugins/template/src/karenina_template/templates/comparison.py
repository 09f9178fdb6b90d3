"""Verifies one answer, comparing each field only once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import iscoroutine
from itertools import chain, islice, product
from typing import Final

from karenina_template.templates.base import AnswerKey, BaseAnswer
from karenina_template.templates.compose import Result, known_result
from karenina_template.templates.errors import InvalidAnswer
from karenina_template.templates.primitives import Undecided

_MOST_ASSUMPTIONS: Final = 64
"""Maximum number of combinations of assumed results. This is enough for six undecided fields."""


@dataclass(slots=True)
class Comparison:
    """The results of `verify`, `verify_granular`, `field_results` and `field_scores` for an answer.

    Each field is compared only once, because comparisons may be slow (embeddings). If a class overrides one of these
    methods, its method is called instead and may raise any exception.
    """

    answer: BaseAnswer
    _key: AnswerKey | None = field(init=False)
    _compared: Mapping[str, Result] | None = field(init=False, default=None)
    _scores: dict[str, float | None] | None = field(init=False, default=None)
    _why: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        cls = type(self.answer)
        declared = (
            cls.verify is BaseAnswer.verify
            and cls.verify_granular is BaseAnswer.verify_granular
            and cls.field_results is BaseAnswer.field_results
            and cls.field_scores is BaseAnswer.field_scores
        )
        key = self.answer._answer_key() if declared else None
        self._key = key if key is not None and key.rules else None

    def passed(self) -> bool | None:
        """Return the result of `verify`, or None if it is undecided, as `why_undecided` then explains. A class's own
        `verify` decides only if it returns the same for each possible outcome of the undecided fields; if there are
        none, its exceptions propagate, and None counts as False. Raises `InvalidAnswer` if the result is not a verdict.
        """
        if self._key is not None:
            passed = self._key.verdict(self._results())
            self._why = self._key.why_undecided(self._results()) if passed is None else None
            return passed
        try:
            verdict = _own_verdict(self.answer)
        except InvalidAnswer:
            raise
        except Exception as error:
            undecided = self._undecided_fields()
            if not undecided:
                raise
            self._why = f"{self._reasons(undecided)} (verify() raised {type(error).__name__}: {error})"
            return None
        if isinstance(verdict, Undecided):
            self._why = verdict.why
            return None
        undecided = self._undecided_fields()
        if undecided and (verdict is None or not self._is_certain(verdict, undecided)):
            self._why = self._reasons(undecided)
            return None
        return bool(verdict)

    def why_undecided(self) -> str | None:
        """Return the reason if `passed` returned None."""
        return self._why

    def granular(self) -> float | None:
        """Return the result of `verify_granular`. Unless the class overrides a method, this is a number even if the
        verdict is undecided, because undecided fields earn nothing. Exceptions from a class's own method propagate.
        """
        return self.answer.verify_granular() if self._key is None else self._key.grade(self.scores())

    def results(self) -> dict[str, bool | None]:
        """Return the result of `field_results`. Exceptions from a class's own method propagate."""
        results = self.answer.field_results() if self._key is None else self._results()
        return {name: known_result(result) for name, result in results.items()}

    def scores(self) -> dict[str, float | None]:
        """Return each verified field's credit from 0 to 1, or None if it is undecided. Exceptions from a class's own
        method propagate.
        """
        if self._key is None:
            return self.answer.field_scores()
        if self._scores is None:
            self._scores = self.answer._credits(self._results())
        return self._scores

    def _results(self) -> Mapping[str, Result]:
        if self._compared is None:
            self._compared = self.answer._results()
        return self._compared

    def _undecided_fields(self) -> dict[str, Result]:
        """Return the undecided fields of a class with its own methods. Raises `InvalidAnswer` if `field_results()`
        raises an exception.
        """
        try:
            results = self.answer.field_results()
        except InvalidAnswer:
            raise
        except Exception as error:
            problem = f"field_results() of {_name(self.answer)} raised {type(error).__name__}: {error}"
            raise InvalidAnswer(problem) from error
        return {name: result for name, result in results.items() if known_result(result) is None}

    def _reasons(self, undecided: Mapping[str, Result]) -> str | None:
        """Return the reasons why fields are undecided. The strategy is ignored if the class has its own `verify`."""
        key = self.answer._answer_key() if type(self.answer).verify is BaseAnswer.verify else AnswerKey()
        compared = self._results()
        return key.why_undecided({name: compared.get(name, result) for name, result in undecided.items()})

    def _is_certain(self, verdict: bool, undecided: Mapping[str, Result]) -> bool:
        """Return whether `verify` returns `verdict` whatever the results of the undecided fields are. Of more than six
        fields, only some combinations are tried. Returns False if `verify` raises an exception or fields remain
        undecided. Raises `InvalidAnswer` if a method returns something invalid.

        "All pass" and "all fail" are tried first, which is enough unless a passing field can make `verify` fail.
        """
        count = len(undecided)
        extremes = ((True,) * count, (False,) * count)
        others = islice(product((True, False), repeat=count), _MOST_ASSUMPTIONS)
        for results in dict.fromkeys(chain(extremes, others)):
            answer = self.answer.model_copy()
            answer._binding = replace(answer._get_binding(), assumed=dict(zip(undecided, results, strict=True)))
            try:
                if Comparison(answer)._undecided_fields() or _own_verdict(answer) is not verdict:
                    return False
            except InvalidAnswer:
                raise
            except Exception:
                return False
        return True


def _own_verdict(answer: BaseAnswer) -> bool | Undecided | None:
    """Return the result of the answer's `verify`, also `Undecided` or None, with 0, 1 and empty values (from `self.gene
    and ...`) as booleans. Raises `InvalidAnswer` for any other value, such as a coroutine, which would be truthy.
    Exceptions from `verify` propagate.
    """
    verdict: object = answer.verify()
    if verdict is None or isinstance(verdict, bool | Undecided):
        return verdict
    if iscoroutine(verdict):
        verdict.close()
    with suppress(Exception):  # an array has no truth value
        if not verdict or verdict == 1:
            return bool(verdict)
    raise InvalidAnswer(
        f"verify() of {_name(answer)} must return True, False, None or Undecided(why), but returned a "
        f"value of type {type(verdict).__name__}. To return its truth value, write `return bool(...)`"
    )


def _name(answer: BaseAnswer) -> str:
    of = f" for question {answer.id}" if answer.id is not None else ""
    return f"the template {type(answer).__name__}{of}"
