"""Primitives for values that are one of few: booleans and literals."""

from __future__ import annotations

from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import key_of, plain


class BooleanMatch(Primitive):
    """Passes when both are booleans and equal.

    Nothing is taken for a boolean that is none: not None, not 0 or 1, not "true" or "false". The truth must be a bool.
    """

    def check_expected(self, expected: object) -> None:
        """Raise ValueError unless the truth is True or False."""
        if not isinstance(plain(expected), bool):
            raise self._wrong_truth("True or False", expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether both are booleans and equal."""
        self.check_expected(expected)
        extracted = plain(extracted)
        return isinstance(extracted, bool) and extracted == plain(expected)


class LiteralMatch(Primitive):
    """Passes when the value equals the truth, for fields that are one of few (`Literal["low", "high"]`, an enum).

    Nothing is normalised: case and white space count. Numbers are equal as numbers (1 is 1.0), but "1" is not 1 and
    True is not 1; a list equals a tuple of equal items. None never passes and NaN equals nothing, so that neither can
    be the truth.
    """

    def check_expected(self, expected: object) -> None:
        """Raise ValueError where the truth is None or holds NaN: nothing would ever pass."""
        if plain(expected) is None or key_of(expected) != key_of(expected):
            raise self._wrong_truth("a value that something can equal", expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the two are equal."""
        self.check_expected(expected)
        return key_of(extracted) == key_of(expected)
