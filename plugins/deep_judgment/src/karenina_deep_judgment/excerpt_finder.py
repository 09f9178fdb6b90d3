"""Finding a judge's excerpts in the text, verbatim or with small changes.

The text and the excerpt are folded first (see `karenina_toolkit.folding`), because judges often replace hyphens,
quotation marks and spaces with similar characters. Positions always refer to the original text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

from karenina_toolkit.folding import FoldedText, fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_DIGITS: Final = r"[\d\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089]"
_NEGATIONS: Final = (
    *("not", "no", "never", "none", "nor", "neither", "without", "nothing", "nobody", "nowhere"),
    *("nicht", "kein", "keine", "keinen", "keinem", "keiner", "keines", "nie", "niemals", "ohne", "weder"),
    *(
        "pas",
        "jamais",
        "sans",
        "aucun",
        "aucune",
        "nunca",
        "sin",
        "ning\u00fan",
        "ninguna",
        "non",
        "mai",
        "senza",
    ),
    *("n\u00e3o", "sem", "nenhum", "nenhuma", "niet", "geen", "nooit", "zonder"),
    *("\u043d\u0435", "\u043d\u0435\u0442", "\u0431\u0435\u0437", "\u043d\u0438\u043a\u043e\u0433\u0434\u0430"),
)
_FACT: Final = lazy_pattern(
    rf"(?P<number>(?:(?<![\w.])[-\u2212])?{_DIGITS}+(?:[.,:/]{_DIGITS}+)*)"
    r"|(?P<short>\b(?:\w+n['\u2019]t|cannot)\b)"
    rf"|(?P<negation>\b(?:{'|'.join(_NEGATIONS)})\b|[\u4e0d\u6ca1\u6c92\u7121\u65e0\u672a\u975e])"
)


def extract_facts(text: str) -> list[str]:
    """Return the signed numbers and the negations in a string, in order. "doesn't" counts as "not"."""
    return ["not" if match["short"] else match[0].replace("\u2212", "-") for match in _FACT.finditer(text.casefold())]


MatchKind = Literal["exact", "spacing", "changed"]
MissKind = Literal["empty", "altered", "reordered", "invented"]

SHORTEST_CHANGED: Final = 16
"""The minimum length of an excerpt that may differ from the text. In a shorter one, a change makes another word.

For example, "BRCA1" and "BRCA2" differ in only one character.
"""
LONGEST_CHANGED: Final = 2000
"""The maximum length of an excerpt that may differ from the text. A fuzzy search for longer ones would be too slow."""

_WORD: Final = lazy_pattern(r"\w+")
_TOKEN: Final = lazy_pattern(r"\S+")
_BLANKS: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""All whitespace characters except the space."""
_QUOTES: Final = ('"', "'", "`")
_WIDE_GAPS: Final = ("   ", "\t\t", "\n\n\n", "\n  ")
"""Wide gaps of whitespace, which can prevent the alignment from finding a passage."""
_AROUND: Final = 50
_SAME_WORDS: Final = 0.75
"""The minimum share of common words for a passage to count as the source of an excerpt."""


class Match(NamedTuple):
    """The position of an excerpt: `text[start:end]`.

    `kind` is "exact", "spacing" if the only differences are in whitespace, case or similar-looking characters, or
    "changed" if there are other differences. `similarity` is between 0 and 1. It is 1.0 for "exact" and "spacing".
    """

    start: int
    end: int
    similarity: float
    kind: MatchKind


class Miss(NamedTuple):
    """The reason why an excerpt was not found.

    `kind` is "empty" if the excerpt has no words or is a single small letter, "altered" if its numbers or negations
    differ from the text, "reordered" if its words are in a different order, and "invented" otherwise. `closest` is the
    most similar passage, or None if no passage has a word in common with the excerpt.
    """

    kind: MissKind
    similarity: float = 0.0
    closest: str | None = None


def find_excerpt(excerpt: str, text: str, threshold: float = 0.8, *, exact_facts: bool = True) -> Match | None:
    """Find `excerpt` in `text`, or return None. See `SearchableText.find`."""
    return SearchableText(text, exact_facts=exact_facts).find(excerpt, threshold)


class SearchableText:
    """A text that can be searched for several excerpts. It is only prepared once.

    With `exact_facts`, numbers and negations must be the same in the excerpt and in the text. Otherwise, two sentences
    that differ in a single digit would look almost identical.
    """

    def __init__(self, text: str, *, exact_facts: bool = True) -> None:
        self.text = text
        self._places = FoldedText(text)
        self._folded = self._places.folded
        self.exact_facts = exact_facts

    def find(self, excerpt: str, threshold: float = 0.8) -> Match | None:
        """Return the place of an excerpt in the original text, or None. Only whole words match: "8" does not match
        "1985". An excerpt with changes matches if its similarity is at least `threshold`, if its words are in the same
        order as in the text, because "A inhibits B" does not quote "B inhibits A", and with `exact_facts`, if it has
        the same numbers and negations.

        An excerpt without words, such as a full stop, or of a single small letter matches only the whole text, because
        nearly every text contains it. Very short and very long excerpts (see `SHORTEST_CHANGED` and `LONGEST_CHANGED`)
        cannot have changes. Whitespace and quotation marks around the excerpt are ignored. The similarity is twice the
        number of characters in common, in the same order, divided by the total number of characters in both. Case and
        the amount of whitespace are ignored.
        """
        match = self._find(fold(excerpt).strip(), threshold)
        if match is None or self._folded is self.text:
            return match
        start, end = self._places.original_span(match.start, match.end)
        is_copy = self.text[start:end] in excerpt
        return Match(start, end, match.similarity, "spacing" if match.kind == "exact" and not is_copy else match.kind)

    def _find(self, excerpt: str, threshold: float) -> Match | None:
        """Find a folded excerpt in the folded text, or return None: exactly, without quotation marks around it, aligned
        if it is neither too short nor too long for that, or after normalization, in this order.
        """
        bare = _without_quotes(excerpt)
        if _is_empty(bare) and bare != self._folded.strip():
            return None
        match = self._find_exact(excerpt) or (self._find_exact(bare) if bare != excerpt else None)
        if match is not None or not bare:
            return match
        excerpt = _normalize_spaces(bare)
        if SHORTEST_CHANGED <= len(excerpt) <= LONGEST_CHANGED:
            span = _align(excerpt, self._folded, threshold)
            if span is not None:
                return self._accept(excerpt, *span, threshold)
        return self._find_normalized(excerpt, threshold)

    def why_missing(self, excerpt: str, threshold: float = 0.8) -> Miss:
        """Return why `find` does not find an excerpt with the given threshold: it is empty, altered, reordered or
        invented. If there is a similar passage, it is included with its similarity.
        """
        quote = _without_quotes(fold(excerpt).strip())
        words = _split_words(quote)
        if _is_empty(quote):
            return Miss("empty")
        altered = find_excerpt(excerpt, self.text, threshold, exact_facts=False) if self.exact_facts else None
        if altered is not None:
            return Miss("altered", altered.similarity, self.text[altered.start : altered.end])
        span = self._most_similar_passage(words)
        if span is None:
            return Miss("invented")
        passage = self._folded[slice(*span)]
        shared = (Counter(words) & Counter(_split_words(passage))).total() / len(words)
        kind: MissKind = "reordered" if shared >= _SAME_WORDS and len(words) > 1 else "invented"
        start, end = self._places.original_span(*span)
        return Miss(kind, _similarity(_ignore_case(quote), _ignore_case(passage)), self.text[start:end])

    # ---- exact

    def _find_exact(self, excerpt: str) -> Match | None:
        """Find the first exact match in the folded text that does not split a word, or return None."""
        at = _find_words(excerpt, self._folded)
        return Match(at, at + len(excerpt), 1.0, "exact") if at >= 0 else None

    @cached_property
    def _normalized(self) -> str:
        """The folded text with single spaces, computed on first use."""
        return _normalize_spaces(self._folded)

    def _find_normalized(self, excerpt: str, threshold: float) -> Match | None:
        """Find an excerpt in the text with normalized whitespace, and return its position in the folded text, or None.
        `threshold` is the least similarity of a passage that only resembles it.

        Folding the case of a long text is slow, so that is only done if the alignment, which tolerates some differences
        in case, finds nothing.
        """
        for cased in (excerpt, excerpt.upper(), excerpt.lower()):
            at = _find_words(cased, self._normalized)
            if at >= 0:
                return Match(*self._original_span(self._normalized, at, at + len(cased)), 1.0, "spacing")
        if excerpt.isupper() or not SHORTEST_CHANGED <= len(excerpt) <= LONGEST_CHANGED:
            return self._find_ignoring_case(excerpt)
        if not any(gap in self._folded for gap in _WIDE_GAPS):
            return None
        span = _align(excerpt, self._normalized, threshold)
        return (
            self._accept(excerpt, *self._original_span(self._normalized, *span), threshold)
            if span is not None
            else None
        )

    def _find_ignoring_case(self, excerpt: str) -> Match | None:
        """Find an excerpt, ignoring case and the amount of whitespace, or return None."""
        folded, text = _ignore_case(excerpt), _ignore_case(self._folded)
        at = _find_words(folded, text)
        return Match(*self._original_span(text, at, at + len(folded)), 1.0, "spacing") if at >= 0 else None

    def _original_span(self, evened: str, start: int, end: int) -> tuple[int, int]:
        """Convert a span of the normalized text `evened` to a span of the folded text, by counting words."""
        first = evened.count(" ", 0, start)
        last = first + evened.count(" ", start, end)
        tokens = islice(_TOKEN.finditer(self._folded), first, last + 1)
        spans = [token.span() for token in tokens]
        into = start - (evened.rfind(" ", 0, start) + 1)
        rest = evened.find(" ", end)
        left = (rest if rest >= 0 else len(evened)) - end
        return min(spans[0][0] + into, spans[0][1]), max(spans[-1][1] - left, spans[-1][0])

    # ---- changed

    def _accept(self, excerpt: str, start: int, end: int, threshold: float) -> Match | None:
        """Return the match at or near a span, or None if its similarity is below the threshold, if its words are in a
        different order or, with `exact_facts`, if its numbers or negations differ.
        """
        around = max(0, start - _AROUND)
        near = SearchableText(self._folded[around : end + len(excerpt) + _AROUND])._find_ignoring_case(excerpt)
        if near is not None:
            return Match(near.start + around, near.end + around, 1.0, "spacing")
        match = self._best_match_near(excerpt, start, end)
        if self.exact_facts:
            match = self._match_with_same_facts(excerpt, match)
        return match if match.similarity >= threshold and self._in_order(excerpt, match) else None

    def _best_match_near(self, excerpt: str, start: int, end: int) -> Match:
        """Return the match of the excerpt at the span from `start` to `end`, adjusted to whole words if that increases
        the similarity.
        """
        folded = _ignore_case(excerpt)
        best = Match(start, end, -1.0, "changed")
        for first in {start, *_word_bounds(self._folded, start)}:
            for last in {end, *_word_bounds(self._folded, end), _last_word(self._folded, start, end)}:
                passage = self._folded[first:last]
                similarity = _similarity(folded, _ignore_case(passage)) if passage.strip() else -1.0
                if similarity > best.similarity:
                    lead = len(passage) - len(passage.lstrip())
                    trail = len(passage) - len(passage.rstrip())
                    best = Match(first + lead, last - trail, similarity, "changed")
        return best

    def _match_with_same_facts(self, excerpt: str, match: Match) -> Match:
        """Return `match`, or a similar passage nearby that has the same numbers and negations as the excerpt. If there
        is none, the similarity of the returned match is -1.

        Nearby passages are tried because an alignment can be off by a word at either end.
        """
        facts, folded = extract_facts(excerpt), _ignore_case(excerpt)
        if extract_facts(self._folded[match.start : match.end]) == facts:
            return match
        best = Match(match.start, match.end, -1.0, "changed")
        for first in self._word_bounds_near(match.start):
            for last in self._word_bounds_near(match.end):
                passage = self._folded[first:last]
                if passage != passage.strip() or extract_facts(passage) != facts:
                    continue
                similarity = _similarity(folded, _ignore_case(passage))
                if similarity > best.similarity:
                    best = Match(first, last, similarity, "changed")
        return best

    def _word_bounds_near(self, at: int) -> list[int]:
        """Return the starts and ends of words near the position `at`, and `at` itself."""
        around = max(0, at - _AROUND)
        words = _WORD.finditer(self._folded, around, min(len(self._folded), at + _AROUND))
        return sorted({bound for word in words for bound in word.span()} | {at})

    def _in_order(self, excerpt: str, match: Match) -> bool:
        """Return whether the excerpt's words are in the same order in and around the passage, except for one word in
        excerpts of 40 words or more.
        """
        from rapidfuzz.distance import LCSseq

        quoted = _split_words(excerpt)
        beside = 1 + len(excerpt) // 3
        before = self._folded[max(0, match.start - beside) : match.start]
        behind = self._folded[match.end : match.end + beside]
        passage = _split_words(self._folded[match.start : match.end])
        # The outermost words may be cut, so they do not count.
        around = [*_split_words(before)[1:], *passage, *_split_words(behind)[:-1]]
        shared = (Counter(quoted) & Counter(around)).total()
        return shared - LCSseq.similarity(quoted, around) < _reordering_threshold(len(quoted))

    def _most_similar_passage(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Return the start and end of the `len(words)` consecutive words of the text that share the most words with the
        excerpt, or None if there are no words in common.
        """
        tokens = list(_WORD.finditer(self._folded))
        counts, held = Counter(words), Counter[str]()
        shared, best, place = 0, 0, None
        for at, token in enumerate(tokens):
            word = token[0].casefold()
            held[word] += 1
            shared += held[word] <= counts[word]
            if at >= len(words):
                gone = tokens[at - len(words)][0].casefold()
                shared -= held[gone] <= counts[gone]
                held[gone] -= 1
            if shared > best:
                best, place = shared, (tokens[max(0, at - len(words) + 1)].start(), token.end())
        return place


def _reordering_threshold(count: int) -> int:
    """Return the number of misplaced words from which an excerpt of `count` words counts as reordered."""
    return 1 if count < 40 else 2


def _align(excerpt: str, text: str, threshold: float) -> tuple[int, int] | None:
    """Return the span of the text that is most similar to the excerpt, or None if no span reaches the threshold. If the
    excerpt is longer than the text, the span is the whole text.
    """
    from rapidfuzz import fuzz

    alignment = fuzz.partial_ratio_alignment(excerpt, text, score_cutoff=threshold * 100)
    if alignment is None:
        return None
    # The shorter text is aligned within the longer one, so an excerpt longer than the text matches all of it.
    return (alignment.dest_start, alignment.dest_end) if len(excerpt) <= len(text) else (0, len(text))


def _similarity(one: str, other: str) -> float:
    """Return the similarity of two strings (0 to 1), based on the characters that they share in the same order."""
    from rapidfuzz import fuzz

    return fuzz.ratio(one, other) / 100


def _find_words(excerpt: str, text: str) -> int:
    """Return the first index at which `text` contains `excerpt` without splitting a word or number, or -1."""
    if not excerpt:
        return -1
    at = text.find(excerpt)
    while at >= 0:
        end = at + len(excerpt)
        if not (_splits_word(text, at) or _splits_word(text, end)):
            return at
        at = text.find(excerpt, at + 1)
    return -1


def _splits_word(text: str, at: int) -> bool:
    """Return whether the index `at` is inside a word or number. In scripts without case, such as Chinese, it never is,
    because many of them have no spaces between words.
    """
    return 0 < at < len(text) and _spaced_script(text[at - 1]) and _spaced_script(text[at])


def _spaced_script(character: str) -> bool:
    """Return whether a character is a digit or has a case. Scripts without case often have no spaces."""
    return character.isdigit() or character.lower() != character.upper()


def _word_bounds(text: str, at: int) -> tuple[int, int]:
    """Return the start and end of the word at the index `at`. If there is no word, both are `at`."""
    start = end = at
    while start > 0 and _spaced_script(text[start - 1]):
        start -= 1
    while end < len(text) and _spaced_script(text[end]):
        end += 1
    return start, end


def _last_word(text: str, start: int, end: int) -> int:
    """Return the end of the last word in a span, or `start` if there is no word."""
    while end > start and not text[end - 1].isalnum():
        end -= 1
    return end


def _without_quotes(excerpt: str) -> str:
    """Return an excerpt without the quotation marks around it, if both are the same."""
    if len(excerpt) > 1 and excerpt[0] in _QUOTES and excerpt[0] == excerpt[-1]:
        return excerpt[1:-1].strip()
    return excerpt


def _is_empty(quote: str) -> bool:
    """Return whether an excerpt has no words, or is a small letter such as *a*. A capital may be an option."""
    words = _WORD.findall(quote)
    return not words or (len(words) == 1 and len(words[0]) == 1 and words[0].islower())


def _normalize_spaces(text: str) -> str:
    """Return the text with a single space for any whitespace between words, and none at its ends.

    It is not split, because thousands of small strings would cost more than the search.
    """
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")


def _ignore_case(text: str) -> str:
    """Return the text case-folded, with single spaces."""
    return _normalize_spaces(text.casefold())


def _split_words(text: str) -> list[str]:
    """Return the case-folded words of a string."""
    return [match[0].casefold() for match in _WORD.finditer(text)]
