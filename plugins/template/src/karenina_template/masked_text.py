"""A response in which values are replaced by letters, so that a judge reads what is said about them, and not them."""

from __future__ import annotations

import re
from itertools import permutations
from typing import TYPE_CHECKING, Final

from karenina_toolkit.folding import FoldedText, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NEAR: Final = 2
"""The number of sentences before and after one with a letter that are shown with it."""

_QUOTES: Final = "\"'«»“”„\u2018\u2019"
_EDGES: Final = f" \t\n.,;:!?()[]{_QUOTES}"
_MARK: Final = "\0"
_SENTENCE: Final = re.compile(rf"\S.*?(?:[.!?][)\]{_QUOTES}]*(?=\s)|[。\uff01\uff1f]|(?=\n)|\Z)", re.DOTALL)
_WORD: Final = re.compile(r"\w")
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_LETTER: Final = rf"[^\W{_UNSPACED}]"
"""A letter or digit of a script that puts spaces between words, where a value ends."""


class MaskedText:
    """A response, and which of some values occur in it.

    `values` are those that occur, in the words of the response, each once. Case, spaces, and punctuation around a value
    make no difference, nor do code points that look the same. Of two values that share a place, the longer one is
    there.
    """

    def __init__(self, response: str, values: Iterable[str]) -> None:
        """Find `values` in `response`."""
        self._response = response
        self._text = FoldedText(response)
        self._wordings: dict[str, str] = {}
        self._places: dict[tuple[int, int], str] = {}
        wanted = {normalize_value(value) for value in values if _WORD.search(value)}
        for value in sorted(wanted, key=lambda value: (-len(value), value)):
            self._find(value)
        in_order = [wording for _, wording in sorted(self._places.items())]
        self.values: Sequence[str] = tuple(dict.fromkeys(in_order))

    def _find(self, value: str) -> None:
        words = r"\s+".join(re.escape(word) for word in value.split()).replace(",", r"\s*,")
        for match in re.finditer(rf"(?<!{_LETTER}){words}(?!{_LETTER})", self._text.folded, re.IGNORECASE):
            start, end = self._text.original_span(*match.span())
            if not any(start < other_end and other_start < end for other_start, other_end in self._places):
                self._places[start, end] = self._wordings.setdefault(value, self._response[start:end])

    def wording(self, value: str) -> str | None:
        """Return `value` as the response writes it, or None if it is not one of `values`."""
        return self._wordings.get(normalize_value(value))

    @property
    def joined(self) -> Sequence[str]:
        """The values, with those in one that always follow one another after a comma: *Season 3, Episode 22*."""
        found = list(self.values)
        for first, second in permutations(self.values, 2):
            whole = re.search(rf"{re.escape(first)}\s*,\s+{re.escape(second)}", self._response)
            if whole is None or first not in found or second not in found:
                continue
            if all(self._response.count(one) == self._response.count(whole.group()) for one in (first, second)):
                found[found.index(first)] = whole.group()
                found.remove(second)
        return tuple(found)

    @property
    def says_more(self) -> bool:
        """Whether the response has words beside the values."""
        return bool(_WORD.search(self.shown(dict.fromkeys(self.values, ""))))

    def shown(self, letters: Mapping[str, str]) -> str:
        """Return the response with a letter for each value, cut to the sentences near a letter if there is one."""
        parts, position = [], 0
        for (start, end), value in sorted(self._places.items()):
            parts += [self._response[position:start], _MARK, letters[value]]
            position = end
        text = "".join([*parts, self._response[position:]])
        sentences = _SENTENCE.findall(text)
        marked = [place for place, sentence in enumerate(sentences) if _MARK in sentence] or range(len(sentences))
        near = [one for place, one in enumerate(sentences) if any(abs(place - other) <= NEAR for other in marked)]
        return " ".join(near).replace(_MARK, "")


def normalize_value(value: str) -> str:
    """Return `value` in lower case, without punctuation around it, and with single spaces."""
    return " ".join(fold(value).strip(_EDGES).casefold().split())
