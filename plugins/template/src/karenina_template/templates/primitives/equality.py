"""Primitives that test for equality: booleans and literals, alone or in collections.

Lists and tuples are collections, and so are sets for `SetContainment`. Strings and dicts are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.normalize import Normalizers, normalize
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import OTHER_WORDS, another, items_of, key_of, plain, text_of

if TYPE_CHECKING:
    from collections.abc import Hashable


class BooleanMatch(Primitive, defer_build=True):
    """Passes if the value and the ground truth are the same boolean.

    Nothing is converted to a boolean: neither None, nor 0 and 1, nor "true" and "false".
    """

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is True or False."""
        if not isinstance(plain(expected), bool):
            raise self._wrong_truth("True or False", expected)

    def mutate(self, expected: object) -> object:
        """Return the other boolean."""
        return another(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether both values are booleans and equal."""
        self.check_expected(expected)
        extracted = plain(extracted)
        return isinstance(extracted, bool) and extracted == plain(expected)


class LiteralMatch(Primitive, defer_build=True):
    """Passes if the value equals the ground truth.

    Use it for fields with few possible values (`Literal["low", "high"]`, an enum). Strings are folded, but not
    normalized. Numbers are compared as numbers (1 equals 1.0), but neither "1" nor True equals 1. A list equals a tuple
    with equal items. None never passes and NaN equals nothing, so neither can be the ground truth.
    """

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` if the ground truth is None or contains NaN, because no value could pass."""
        if plain(expected) is None or key_of(expected) != key_of(expected):
            raise self._wrong_truth("a value other than None and NaN", expected)

    def mutate(self, expected: object) -> object:
        """Return a different value of the same kind, or None for types such as dicts."""
        return another(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the values are equal."""
        self.check_expected(expected)
        return key_of(extracted) == key_of(expected)


class SetContainment(Primitive, defer_build=True):
    """Compares two collections as sets, ignoring order and duplicates.

    - `mode`: "exact" (the default) passes if both have the same items. "subset" passes if the value only has items that
      are in the ground truth. "superset" passes if it has all items of the ground truth. "overlap" passes if both have
      at least `min_overlap` items in common.
    - `min_overlap`: for mode "overlap". The default is 1.
    - `normalize`: the normalizers for strings, none by default. Numbers are compared as numbers. A string never equals
      a number, and True does not equal 1.

    An empty value passes for an empty ground truth in mode "exact", and always passes in mode "subset". Use "exact" or
    "overlap" if an answer must name something. None and NaN equal nothing, so the ground truth must not contain them.
    It is an error if every value would pass (an empty ground truth with "superset") or no value could (fewer distinct
    items than `min_overlap`).
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    mode: Literal["exact", "subset", "superset", "overlap"] = "exact"
    min_overlap: Annotated[int, Strict(), Field(ge=1)] | None = None
    normalize: Normalizers = ()

    @model_validator(mode="after")
    def _overlap_only(self) -> Self:
        """Raise `ValueError` if `min_overlap` is set in any mode other than "overlap"."""
        if self.min_overlap is not None and self.mode != "overlap":
            raise ValueError(f"min_overlap can be set only for mode 'overlap', not for {self.mode!r}")
        return self

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a list, tuple or set that some values pass and others fail."""
        self._truth(expected)

    def mutate(self, expected: object) -> object:
        """Return a list of the ground truth's items and a wrong one, or of the wrong one only if extra items are
        allowed.
        """
        items = items_of(expected) or []
        longer = another(items)
        foreign = longer[-1] if isinstance(longer, list) else OTHER_WORDS[0]
        if self.check([foreign], list(items)):
            foreign = next((words for words in OTHER_WORDS if not self.check([words], items)), foreign)
        return [*items, foreign] if self.mode in ("exact", "subset") else [foreign]

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the value's items, normalized and as a set, have the relation to the ground truth's that
        `mode` requires. A value that is no collection fails.
        """
        truth, items = self._truth(expected), items_of(extracted)
        if items is None:
            return False
        keys = self._keys(items)
        match self.mode:
            case "exact":
                return keys == truth
            case "subset":
                return keys <= truth
            case "superset":
                return keys >= truth
            case "overlap":
                return len(keys & truth) >= (self.min_overlap or 1)

    def _truth(self, expected: object) -> frozenset[Hashable]:
        """Return the keys of the ground truth's items. Raises `ValueError` if the ground truth is not a collection,
        contains None or NaN, or has too few items for the mode.
        """
        items = items_of(expected)
        if items is None:
            raise self._wrong_truth("a list, tuple or set", expected)
        truth = self._keys(items)
        if truth != self._keys(items) or key_of(None) in truth:
            raise self._wrong_truth("items other than None and NaN", expected)
        if self.mode == "superset" and not truth:
            raise self._wrong_truth("at least one item (mode 'superset')", expected)
        if self.mode == "overlap" and len(truth) < (self.min_overlap or 1):
            raise self._wrong_truth(f"at least {self.min_overlap or 1} different items (min_overlap)", expected)
        return truth

    def _keys(self, items: list[object]) -> frozenset[Hashable]:
        """Return hashable keys for the items. Strings are normalized."""
        return frozenset(key_of(item, lambda text: normalize(text, self.normalize)) for item in items)


class OrderedMatch(Primitive, defer_build=True):
    """Passes if both lists have the same strings in the same order, after normalization with `normalize`.

    Numbers and dates are compared as strings. Other items (None, NaN, a list) equal nothing, so they cannot be in the
    ground truth. Sets have no order, so they fail and cannot be the ground truth. An empty list passes only if the
    ground truth is empty, too.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    normalize: Normalizers = ("lowercase", "strip")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a list or tuple of strings, numbers or dates."""
        self._truth(expected)

    def mutate(self, expected: object) -> object:
        """Return the ground truth with an additional item."""
        return another(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the two lists are equal item by item."""
        truth, items = self._truth(expected), items_of(extracted, ordered=True)
        return items is not None and self._texts(items) == truth

    def _truth(self, expected: object) -> list[str | None]:
        """Return the ground truth's items as strings. Raises `ValueError` if the ground truth is not a list of strings,
        numbers or dates.
        """
        items = items_of(expected, ordered=True)
        if items is None or None in (truth := self._texts(items)):
            raise self._wrong_truth("a list of strings, numbers or dates", expected)
        return truth

    def _texts(self, items: list[object]) -> list[str | None]:
        """Return the items as normalized strings, or None for each item that cannot be a string."""
        texts = map(text_of, items)
        return [None if text is None else normalize(text, self.normalize) for text in texts]
