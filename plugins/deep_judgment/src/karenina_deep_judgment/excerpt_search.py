"""Find what a judge quotes in the text that it quotes from: exactly, else with small changes, else not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Literal

from karenina_deep_judgment.exact_facts import extract_facts

MatchKind = Literal["exact", "spacing", "changed"]
MissKind = Literal["empty", "altered", "reordered", "invented"]

SHORTEST_CHANGED: Final = 16
"""Below so many characters a change is another word ("BRCA1", "BRCA2"): only the exact words are found."""
LONGEST_CHANGED: Final = 2000
"""Above so many characters only the exact words are found: a fuzzy search would take too long, and nobody quotes so
much by heart."""

_WORD: Final = re.compile(r"\w+")
_TOKEN: Final = re.compile(r"\S+")
_BLANKS: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""All white space but the blank itself."""
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
_WIDE_GAPS: Final = ("   ", "\t\t", "\n\n\n", "\n  ")
"""White space that may keep an alignment of characters from finding what stands there."""
_AROUND: Final = 50
_SAME_WORDS: Final = 0.75
"""From this share of words in common a passage is what the excerpt was made of."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where an excerpt stands: `text[start:end]`.

    `similarity` is from 0 to 1. `kind` says how it was found: "exact" letter by letter, "spacing" up to white space and
    case (both 1.0), "changed" with other differences.
    """

    start: int
    end: int
    similarity: float
    kind: MatchKind


@dataclass(frozen=True, slots=True)
class Miss:
    """Why an excerpt was not found: "empty", its numbers or negations were "altered", its words stand there in another
    order, or it is not from there at all.

    `closest` is the passage that comes nearest, where one has anything in common with it.
    """

    kind: MissKind
    similarity: float = 0.0
    closest: str | None = None


def find_excerpt(excerpt: str, text: str, threshold: float = 0.8, *, exact_facts: bool = True) -> Match | None:
    """Where `excerpt` stands in `text`, or None; see `SearchableText.find`."""
    return SearchableText(text, exact_facts=exact_facts).find(excerpt, threshold)


class SearchableText:
    """A text in which several excerpts are looked for; what a search needs to know of it is worked out once.

    With `exact_facts` a passage whose numbers or negations differ from those of an excerpt is not where it stands: of
    two sentences that differ by one digit, hardly a hundredth of the characters differs.
    """

    def __init__(self, text: str, *, exact_facts: bool = True) -> None:
        self.text = text
        self.exact_facts = exact_facts

    def find(self, excerpt: str, threshold: float = 0.8) -> Match | None:
        """Where the excerpt stands, or None.

        White space and quotation marks around it do not count. Words are found whole: "3" does not stand in "1985". A
        changed excerpt counts where its similarity (twice the characters in common and in order / all characters of
        both, without regard to case and white space) is at least `threshold` and its words stand in the order of the
        text, because "A inhibits B" is no quotation of "B inhibits A".
        """
        wanted = excerpt.strip()
        bare = _without_quotes(wanted)
        found = self._find_exact(wanted) or (self._find_exact(bare) if bare != wanted else None)
        if found is not None or not bare:
            return found
        wanted = _normalize_spaces(bare)
        if SHORTEST_CHANGED <= len(wanted) <= LONGEST_CHANGED:
            span = _align(wanted, self.text, threshold)
            if span is not None:
                return self._accept(wanted, *span, threshold)
        return self._find_normalized(wanted, threshold)

    def why_missing(self, excerpt: str, threshold: float = 0.8) -> Miss:
        """What is wrong with an excerpt that was not found with this threshold."""
        wanted = _without_quotes(excerpt.strip())
        words = _split_words(wanted)
        if not words:
            return Miss("empty")
        altered = find_excerpt(excerpt, self.text, threshold, exact_facts=False) if self.exact_facts else None
        if altered is not None:
            return Miss("altered", altered.similarity, self.text[altered.start : altered.end])
        span = self._most_similar_passage(words)
        if span is None:
            return Miss("invented")
        passage = self.text[slice(*span)]
        shared = (Counter(words) & Counter(_split_words(passage))).total() / len(words)
        kind: MissKind = "reordered" if shared >= _SAME_WORDS and len(words) > 1 else "invented"
        return Miss(kind, _similarity(_fold(wanted), _fold(passage)), passage)

    # ---- exact

    def _find_exact(self, wanted: str) -> Match | None:
        at = _find_words(wanted, self.text)
        return Match(at, at + len(wanted), 1.0, "exact") if at >= 0 else None

    @cached_property
    def _normalized(self) -> str:
        return _normalize_spaces(self.text)

    def _find_normalized(self, wanted: str, threshold: float) -> Match | None:
        """Look in the text with white space evened out, and lead back to the text as it is.

        Evening out the case of a long text takes longer than anything else here, so it is done only where no alignment
        of characters can have looked past it.
        """
        for cased in (wanted, wanted.upper(), wanted.lower()):
            at = _find_words(cased, self._normalized)
            if at >= 0:
                return Match(*self._original_span(self._normalized, at, at + len(cased)), 1.0, "spacing")
        if wanted.isupper() or not SHORTEST_CHANGED <= len(wanted) <= LONGEST_CHANGED:
            return self._find_ignoring_case(wanted)
        if not any(gap in self.text for gap in _WIDE_GAPS):
            return None
        span = _align(wanted, self._normalized, threshold)
        return (
            self._accept(wanted, *self._original_span(self._normalized, *span), threshold) if span is not None else None
        )

    def _find_ignoring_case(self, wanted: str) -> Match | None:
        """Where the excerpt stands up to white space and case."""
        folded, text = _fold(wanted), _fold(self.text)
        at = _find_words(folded, text)
        return Match(*self._original_span(text, at, at + len(folded)), 1.0, "spacing") if at >= 0 else None

    def _original_span(self, evened: str, start: int, end: int) -> tuple[int, int]:
        """The place in the text of a span of the evened text: by counting words, which evening keeps."""
        first = evened.count(" ", 0, start)
        last = first + evened.count(" ", start, end)
        tokens = islice(_TOKEN.finditer(self.text), first, last + 1)
        spans = [token.span() for token in tokens]
        into = start - (evened.rfind(" ", 0, start) + 1)
        rest = evened.find(" ", end)
        left = (rest if rest >= 0 else len(evened)) - end
        return min(spans[0][0] + into, spans[0][1]), max(spans[-1][1] - left, spans[-1][0])

    # ---- changed

    def _accept(self, wanted: str, start: int, end: int, threshold: float) -> Match | None:
        """The match at a span, or near it, if it is near enough and no words are moved."""
        around = max(0, start - _AROUND)
        near = SearchableText(self.text[around : end + len(wanted) + _AROUND])._find_ignoring_case(wanted)
        if near is not None:
            return Match(near.start + around, near.end + around, 1.0, "spacing")
        match = self._best_match_near(wanted, start, end)
        if self.exact_facts:
            match = self._match_with_same_facts(wanted, match)
        return match if match.similarity >= threshold and self._in_order(wanted, match) else None

    def _best_match_near(self, wanted: str, start: int, end: int) -> Match:
        """The match that a span is, widened or narrowed to whole words where that is nearer to the excerpt."""
        folded = _fold(wanted)
        best = Match(start, end, -1.0, "changed")
        for first in {start, *_word_bounds(self.text, start)}:
            for last in {end, *_word_bounds(self.text, end), _last_word(self.text, start, end)}:
                passage = self.text[first:last]
                similarity = _similarity(folded, _fold(passage)) if passage.strip() else -1.0
                if similarity > best.similarity:
                    lead = len(passage) - len(passage.lstrip())
                    trail = len(passage) - len(passage.rstrip())
                    best = Match(first + lead, last - trail, similarity, "changed")
        return best

    def _match_with_same_facts(self, wanted: str, match: Match) -> Match:
        """The match, or the nearest one about its place that has the numbers and negations of the excerpt.

        An alignment takes as many characters as the excerpt has, so that a word at one end may be too many or missing.
        """
        facts, folded = extract_facts(wanted), _fold(wanted)
        if extract_facts(self.text[match.start : match.end]) == facts:
            return match
        best = Match(match.start, match.end, -1.0, "changed")
        for first in self._word_bounds_near(match.start):
            for last in self._word_bounds_near(match.end):
                passage = self.text[first:last]
                if passage != passage.strip() or extract_facts(passage) != facts:
                    continue
                similarity = _similarity(folded, _fold(passage))
                if similarity > best.similarity:
                    best = Match(first, last, similarity, "changed")
        return best

    def _word_bounds_near(self, at: int) -> list[int]:
        """The beginnings and ends of words about a place."""
        around = max(0, at - _AROUND)
        words = _WORD.finditer(self.text, around, min(len(self.text), at + _AROUND))
        return sorted({bound for word in words for bound in word.span()} | {at})

    def _in_order(self, wanted: str, match: Match) -> bool:
        """Whether the words of the excerpt that stand in the passage, or just beside it, stand in the same order."""
        from rapidfuzz.distance import LCSseq

        quoted = _split_words(wanted)
        beside = 1 + len(wanted) // 3
        before = self.text[max(0, match.start - beside) : match.start]
        behind = self.text[match.end : match.end + beside]
        passage = _split_words(self.text[match.start : match.end])
        # A word that a cut has halved is none.
        around = [*_split_words(before)[1:], *passage, *_split_words(behind)[:-1]]
        shared = (Counter(quoted) & Counter(around)).total()
        return shared - LCSseq.similarity(quoted, around) < _reordering_threshold(len(quoted))

    def _most_similar_passage(self, words: Sequence[str]) -> tuple[int, int] | None:
        """The passage of as many words as the excerpt has that shares most of them."""
        tokens = list(_WORD.finditer(self.text))
        wanted, held = Counter(words), Counter[str]()
        shared, best, place = 0, 0, None
        for at, token in enumerate(tokens):
            word = token[0].casefold()
            held[word] += 1
            shared += held[word] <= wanted[word]
            if at >= len(words):
                gone = tokens[at - len(words)][0].casefold()
                shared -= held[gone] <= wanted[gone]
                held[gone] -= 1
            if shared > best:
                best, place = shared, (tokens[max(0, at - len(words) + 1)].start(), token.end())
        return place


def _reordering_threshold(count: int) -> int:
    """How many words out of place make an excerpt of `count` words a reordered one."""
    return 1 if count < 40 else 2


def _align(wanted: str, text: str, threshold: float) -> tuple[int, int] | None:
    """The stretch of the text that is nearest to the excerpt, where it may reach the threshold."""
    from rapidfuzz import fuzz

    found = fuzz.partial_ratio_alignment(wanted, text, score_cutoff=threshold * 100)
    if found is None:
        return None
    # Of two texts the shorter one is the needle, so an excerpt longer than the text is aligned the other way round.
    return (found.dest_start, found.dest_end) if len(wanted) <= len(text) else (0, len(text))


def _similarity(one: str, other: str) -> float:
    from rapidfuzz import fuzz

    return fuzz.ratio(one, other) / 100


def _find_words(wanted: str, text: str) -> int:
    """Where `wanted` stands in `text` without cutting a word or a number, or -1."""
    if not wanted:
        return -1
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if not (_splits_word(text, at) or _splits_word(text, end)):
            return at
        at = text.find(wanted, at + 1)
    return -1


def _splits_word(text: str, at: int) -> bool:
    """Whether a word or number goes on across `at`. Scripts without case do not part words by space: never there."""
    return 0 < at < len(text) and _spaced_script(text[at - 1]) and _spaced_script(text[at])


def _spaced_script(character: str) -> bool:
    return character.isdigit() or character.lower() != character.upper()


def _word_bounds(text: str, at: int) -> tuple[int, int]:
    """The beginning and the end of the word at `at`."""
    start = end = at
    while start > 0 and _spaced_script(text[start - 1]):
        start -= 1
    while end < len(text) and _spaced_script(text[end]):
        end += 1
    return start, end


def _last_word(text: str, start: int, end: int) -> int:
    """The end of the last word of a span."""
    while end > start and not text[end - 1].isalnum():
        end -= 1
    return end


def _without_quotes(wanted: str) -> str:
    if len(wanted) > 1 and _QUOTES.get(wanted[0]) == wanted[-1]:
        return wanted[1:-1].strip()
    return wanted


def _normalize_spaces(text: str) -> str:
    """The text with one blank for all white space between words. The words of a long text are never made apart:
    thousands of small strings cost more than the search."""
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")


def _fold(text: str) -> str:
    return _normalize_spaces(text.casefold())


def _split_words(text: str) -> list[str]:
    return [match[0].casefold() for match in _WORD.finditer(text)]
