"""Finds strings that are easily confused: ground truths made equal by normalizers, and look-alike characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Final

from karenina_template.templates.normalize import SynonymMap, normalize
from karenina_template.templates.primitives import ExactMatch, OrderedMatch, SetContainment
from karenina_template.templates.primitives.values import items_of, plain
from karenina_toolkit.folding import fold

if TYPE_CHECKING:
    from karenina_template.templates.field import FieldRule

_HARMLESS: Final = ("lowercase", "strip", "collapse_whitespace", "exact")
"""Normalizers that change nothing but case and white space."""
_MOST_ITEMS: Final = 50
_MOST_SHOWN: Final = 4
_LONGEST: Final = 400
_LIKE: Final = (
    ("ABEKMHPCTXSJYQW", "\u0410\u0412\u0415\u041a\u041c\u041d\u0420\u0421\u0422\u0425\u0405\u0408\u0423\u051a\u051c"),
    ("acdehijopqswxyv", "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043e\u0440\u051b\u0455\u051d\u0445\u0443\u0475"),
    ("ABEZHKMNPTYX", "\u0391\u0392\u0395\u0396\u0397\u039a\u039c\u039d\u03a1\u03a4\u03a5\u03a7"),
    ("aiovpuy", "\u03b1\u03b9\u03bf\u03bd\u03c1\u03c5\u03b3"),
    ("onu", "\u0585\u0578\u057d"),
    ("iagx", "\u0131\u0251\u0261\u00d7"),
    ("00", "O\u041e"),
    ("0", "\u039f"),
    ("1111111", "Il|\u0406\u0399\u04cf\u01c0"),
    ("--''", "\u2014\u2015\u00b4`"),
)
"""Pairs of strings in which each character of the second looks like the corresponding character of the first.

They are a selection from the confusables in Unicode Technical Standard 39: Cyrillic, Greek and Armenian letters, digits
and letters, dashes and accents.
"""
_TABLE: Final = {ord(like): plain for plains, alike in _LIKE for plain, like in zip(plains, alike, strict=True)}
_IGNORED: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2061-\u2064\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)


@dataclass(slots=True)
class EqualTruths:
    """Finds different ground truths in a file that become equal when they are normalized.

    `found` contains tuples of question, field, problem and fix. Differences in case or spaces, and synonyms, are
    ignored.
    """

    found: list[tuple[str, str, str, str]] = field(default_factory=list)
    _seen: dict[tuple[object, ...], dict[str, tuple[str, str]]] = field(default_factory=dict)

    def add(self, question: str, rules: Mapping[str, FieldRule]) -> None:
        """Add to `found` each text in the ground truths in `rules` that normalizers make equal to a different one of
        the same field, of this question or an earlier one. Only fields with the same normalizers are compared, and only
        if these remove more than case and white space.
        """
        for name, rule in rules.items():
            primitive = rule.primitive
            if not isinstance(primitive, ExactMatch | OrderedMatch | SetContainment):
                continue
            removing = [item for item in primitive.normalize if isinstance(item, str) and item not in _HARMLESS]
            if not removing:
                continue
            harmless = [item for item in primitive.normalize if isinstance(item, SynonymMap) or item in _HARMLESS]
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
        """Remember `text`, and add a problem to `found` if `normalizers` make it equal to an earlier string.
        Differences that the `harmless` normalizers remove are ignored. The message names the normalizers in `removing`.
        """
        equal = self._seen.setdefault((name, normalizers, normalize(text, normalizers)), {})
        written = " ".join(normalize(text, [*harmless, "lowercase"]).split())
        other = next((item for item in equal.items() if item[0] != written), None)
        if other is not None and written not in equal:
            first, id = other[1]
            where = "" if id == question else f" (question {id})"
            rule, does = " and ".join(removing), "makes" if len(removing) == 1 else "make"
            problem = f"{rule} {does} the ground truths {text[:60]!r} and {first[:60]!r}{where} of field {name!r} equal"
            self.found.append(
                (question, name, problem, f"remove {'it' if len(removing) == 1 else 'them'} from `normalize`")
            )
        equal.setdefault(written, (text, question))


def describe_look_alikes(value: object, truth: object) -> str | None:
    """Return how the first pair of strings in `value` and `truth` that look alike differs, or None if there is none.
    Differences in case are ignored, and long strings are not compared.
    """
    for text in _texts(value):
        for other in _texts(truth):
            if text.casefold() != other.casefold() and _skeleton(text) == _skeleton(other):
                return f"{text[:60]!r} and {other[:60]!r} look alike but differ: {_describe_differences(text, other)}"
    return None


def _texts(value: object) -> Iterator[str]:
    """Yield `value`, or its items, if they are strings. Long strings, and items after a limit, are skipped."""
    value = plain(value)
    items = [value] if isinstance(value, str) else items_of(value) or ()
    yield from islice(
        (item for item in map(plain, items) if isinstance(item, str) and len(item) <= _LONGEST), _MOST_ITEMS
    )


def _skeleton(text: str) -> str:
    """Return a form of `text` that is the same for all look-alikes."""
    text = _IGNORED.sub("", unicodedata.normalize("NFKC", fold(text)))
    return " ".join(text.translate(_TABLE).casefold().split())


def _describe_differences(text: str, other: str) -> str:
    """Return the first few characters that differ between two strings, described for a message."""
    parts = []
    for kind, start, end, first, last in SequenceMatcher(None, text, other, autojunk=False).get_opcodes():
        if kind != "equal":
            parts.append(f"{_name_code_points(text[start:end])} instead of {_name_code_points(other[first:last])}")
    more = len(parts) - _MOST_SHOWN
    return ", ".join(parts[:_MOST_SHOWN]) + (f", and {more} more" if more > 0 else "")


def _name_code_points(characters: Iterable[str]) -> str:
    """Return the code points and Unicode names of `characters`, or "nothing" if there are none."""
    shown = [f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip() for character in characters]
    return " ".join(shown) or "nothing"
