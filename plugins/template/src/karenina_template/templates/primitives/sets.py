"""Primitives for collections.

A list or tuple is a collection, and for `SetContainment` a set too; a text or a dict is none, and fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.normalize import Normalizers, normalize
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import items_of, key_of, text_of

if TYPE_CHECKING:
    from collections.abc import Hashable


class SetContainment(Primitive):
    """Compares two collections as sets: order and duplicates do not count.

    `mode`: "exact" (the default): the same items; "subset": only items of the truth, not necessarily all; "superset":
    all items of the truth, and perhaps others; "overlap": at least `min_overlap` items in common (1 where not given).
    Texts are compared after `normalize` (nothing by default: case counts), numbers as numbers, and a text never
    equals a number nor True 1.

    An empty value passes for an empty truth in mode "exact", and always in mode "subset": ask for "exact" or "overlap"
    where an answer must name something. An item that is None or NaN equals nothing, so that the truth must have none.
    A truth that everything or nothing would pass is refused: an empty one with "superset", and one with fewer different
    items than `min_overlap`. `min_overlap` belongs to "overlap" only.
    """

    from_files: ClassVar[FromFiles] = "any"
    mode: Literal["exact", "subset", "superset", "overlap"] = "exact"
    min_overlap: Annotated[int, Strict(), Field(ge=1)] | None = None
    normalize: Normalizers = ()

    @model_validator(mode="after")
    def _overlap_only(self) -> Self:
        if self.min_overlap is not None and self.mode != "overlap":
            raise ValueError(f"min_overlap means something only in mode 'overlap', not in {self.mode!r}")
        return self

    def check_expected(self, expected: object) -> None:
        """Raise ValueError unless the truth is a list, tuple or set that some values pass and others do not."""
        self._truth(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the two sets stand as the mode says."""
        truth, items = self._truth(expected), items_of(extracted)
        if items is None:
            return False
        found = self._keys(items)
        match self.mode:
            case "exact":
                return found == truth
            case "subset":
                return found <= truth
            case "superset":
                return found >= truth
            case "overlap":
                return len(found & truth) >= (self.min_overlap or 1)

    def _truth(self, expected: object) -> frozenset[Hashable]:
        items = items_of(expected)
        if items is None:
            raise self._wrong_truth("a list, tuple or set", expected)
        truth = self._keys(items)
        if truth != self._keys(items) or key_of(None) in truth:
            raise self._wrong_truth("items that something can equal (no None, no NaN)", expected)
        if self.mode == "superset" and not truth:
            raise self._wrong_truth("at least one item (mode 'superset')", expected)
        if self.mode == "overlap" and len(truth) < (self.min_overlap or 1):
            raise self._wrong_truth(f"at least {self.min_overlap or 1} different items (min_overlap)", expected)
        return truth

    def _keys(self, items: list[object]) -> frozenset[Hashable]:
        return frozenset(key_of(item, lambda text: normalize(text, self.normalize)) for item in items)


class OrderedMatch(Primitive):
    """Passes when both lists have the same length and equal texts in the same order, after all of `normalize`.

    A number or date is read as its text; an item that has none (None, NaN, a list) equals nothing, and the truth must
    have no such item. A set has no order: it fails, and cannot be the truth. An empty list passes only for an empty
    truth.
    """

    from_files: ClassVar[FromFiles] = "any"
    normalize: Normalizers = ("lowercase", "strip")

    def check_expected(self, expected: object) -> None:
        """Raise ValueError unless the truth is a list or tuple of texts, numbers or dates."""
        self._truth(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the two lists are equal, item by item."""
        truth, items = self._truth(expected), items_of(extracted, ordered=True)
        return items is not None and self._texts(items) == truth

    def _truth(self, expected: object) -> list[str | None]:
        items = items_of(expected, ordered=True)
        if items is None or None in (truth := self._texts(items)):
            raise self._wrong_truth("a list of texts, numbers or dates", expected)
        return truth

    def _texts(self, items: list[object]) -> list[str | None]:
        texts = map(text_of, items)
        return [None if text is None else normalize(text, self.normalize) for text in texts]
