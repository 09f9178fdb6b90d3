"""Different truths of a field that its rule takes for equal, so that a wrong answer passes for one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from karenina_template.templates.normalize import SynonymMap, normalize
from karenina_template.templates.primitives import ExactMatch, OrderedMatch, SetContainment
from karenina_template.templates.primitives.values import items_of, plain

if TYPE_CHECKING:
    from karenina_template.templates.field import FieldRule

_HARMLESS: Final = ("lowercase", "strip", "collapse_whitespace", "exact")
"""Normalizers that remove differences of writing only."""


@dataclass(slots=True)
class EqualTruths:
    """The truths of a file's questions, and what was `found`: question, field, description and cure.

    Differences in case, in spaces and between synonyms are meant.
    """

    found: list[tuple[str, str, str, str]] = field(default_factory=list)
    _seen: dict[tuple[object, ...], dict[str, tuple[str, str]]] = field(default_factory=dict)

    def add(self, question: str, rules: Mapping[str, FieldRule]) -> None:
        """Compare the truths of a question's fields with those of the fields of the same name before it."""
        for name, rule in rules.items():
            primitive = rule.primitive
            if not isinstance(primitive, ExactMatch | OrderedMatch | SetContainment):
                continue
            removing = [one for one in primitive.normalize if isinstance(one, str) and one not in _HARMLESS]
            if not removing:
                continue
            harmless = [one for one in primitive.normalize if isinstance(one, SynonymMap) or one in _HARMLESS]
            truth = plain(rule.truth)
            for text in [truth] if isinstance(truth, str) else items_of(truth) or ():
                if isinstance(text, str):
                    self._compare(question, name, text, tuple(primitive.normalize), removing, harmless)

    def _compare(
        self,
        question: str,
        name: str,
        text: str,
        normalizers: tuple[str | SynonymMap, ...],
        removing: list[str],
        harmless: list[str | SynonymMap],
    ) -> None:
        equal = self._seen.setdefault((name, normalizers, normalize(text, normalizers)), {})
        written = " ".join(normalize(text, [*harmless, "lowercase"]).split())
        other = next((one for one in equal.items() if one[0] != written), None)
        if other is not None and written not in equal:
            first, id = other[1]
            where = "" if id == question else f" (question {id})"
            rule, does = " and ".join(removing), "makes" if len(removing) == 1 else "make"
            what = f"{rule} {does} the truths {text[:60]!r} and {first[:60]!r}{where} of {name!r} equal"
            self.found.append((question, name, what, "remove it from `normalize`"))
        equal.setdefault(written, (text, question))
