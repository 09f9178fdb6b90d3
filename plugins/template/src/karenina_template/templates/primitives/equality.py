"""Primitives for booleans and literals."""

from __future__ import annotations

from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import another, key_of, plain


class BooleanMatch(Primitive):
    """Passes if both are booleans and equal.

    No other values are converted to booleans: neither None, nor 0 and 1, nor "true" and "false".
    """

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the truth is True or False."""
        if not isinstance(plain(expected), bool):
            raise self._wrong_truth("True or False", expected)

    def mutate(self, expected: object) -> object:
        """Return the other boolean."""
        return another(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether both are booleans and equal."""
        self.check_expected(expected)
        extracted = plain(extracted)
        return isinstance(extracted, bool) and extracted == plain(expected)


class LiteralMatch(Primitive):
    """Passes if the value equals the truth, for fields with few values (`Literal["low", "high"]`, an enum).

    Texts are folded, and not normalized. Numbers are compared as numbers (1 equals 1.0), but "1" and True do not equal
    1; a list equals a tuple of equal items. None never passes and NaN equals nothing, so neither can be the truth.
    """

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` if the truth is None or contains NaN, because no value would pass."""
        if plain(expected) is None or key_of(expected) != key_of(expected):
            raise self._wrong_truth("a value other than None and NaN", expected)

    def mutate(self, expected: object) -> object:
        """Return a value of the same kind that differs."""
        return another(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the two are equal."""
        self.check_expected(expected)
        return key_of(extracted) == key_of(expected)
