"""Finds the options that a text names, for `Choice`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final, NamedTuple
from unicodedata import category, normalize

from karenina_template.templates.primitives.base import Undecided
from karenina_template.templates.primitives.option_context import (
    is_formula,
    is_only_framed,
    is_part_of_formula,
    is_rejected_after,
    is_rejected_before,
)
from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_WRAPPED: Final = lazy_pattern(r"\\(?:boxed|fbox|mbox|text[a-z]*|math[a-z]*)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_STRUCK: Final = lazy_pattern(r"~~[^~]*~~|<(?:s|del)>[^<]*</(?:s|del)>")
"""Text that is struck through."""
_SPACING: Final = lazy_pattern(r"\\[,;:! ()\[\]]|\\quad|</?[a-z_]{1,20}>")
"""LaTeX spaces and brackets, and tags around an answer."""
_ENDS: Final = " \t\n.,;:!?*_`'\"$"
_LEAD: Final = lazy_pattern(
    r"(?:(?:I|we)(?:\s(?:would|will|must)|'d|'ll)?\s(?:choose|pick|select|take|say|think|believe|go\s(?:with|for))\s(?:that\s)?)?"
    r"(?:(?:the|my|so|thus|therefore|hence|only|just)\s+)*(?:(?:final|correct|right|best)\s+)*"
    r"(?:(?:answer|ans|option|choice|letter|antwort|réponse|respuesta|risposta|resposta|odpowiedź|答案|it|that)\b\s*"
    r"(?:(?:is|would be|must be|ist|est|es)\b|[:\uff1a]|是|=|'s)*)?[\s:.*_`-]*",
    re.IGNORECASE,
)
"""Words that come before the option itself: *The correct answer is*, *Option*, *Antwort:*."""
_REFUSED: Final = lazy_pattern(
    r"[\s,;(\u2014-]*\b(?:(?:and|but)\s)?"
    r"(?:not(?!\s(?:correct|right|true|the)\b)|rather than|instead of|as opposed to|unlike)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
"""A final part that rejects other options: *B, not A*."""
_REFUSED_FIRST: Final = lazy_pattern(
    r"\A\s*(?:unlike|rather than|instead of|as opposed to)\s[^,;]+[,;]\s*", re.IGNORECASE
)
"""A first part that rejects other options: *Unlike A, B*."""
_BUT: Final = lazy_pattern(r"\bnot\b.*?\bbut\b(?:\srather\b)?", re.IGNORECASE | re.DOTALL)
_REASON: Final = lazy_pattern(
    r"\W*(?:\Z|(?:because|since|as|is|was|seems|would|which|that|correct|final)\b)", re.IGNORECASE
)
_VERB: Final = lazy_pattern(
    r"\b(?:is|was|are|were|be|can|could|does|did|would|should|may|might|must|will|has)\s*\Z", re.I
)
_CLAUSE: Final = lazy_pattern(r"[.,;:]")
_SIGN_AT_END: Final = lazy_pattern(r"(?<=.)(?<![-=])[-.]\Z|(?<![-=])>\s*\Z", re.DOTALL)
"""A sign that belongs to the number after a separator: *A. -5*, *A > 5*."""
_AS_ONE_NUMBER: Final = lazy_pattern(r"[0-9](?:[.,]|\s*[/+]\s*)[0-9]")
_ARTICLE: Final = lazy_pattern(r"(?:the|an?(?!\s(?:and|or)\b)|both)\s+")
_A_AND_NAME: Final = lazy_pattern(r"A\s+[A-Z]")
"""An A before a capital letter, which is rather a label than an article."""
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL: Final = lazy_pattern(
    rf"(?:the\s)?(?:(?P<word>{'|'.join(_ORDINALS)}|last)|(?P<digits>[0-9]{{1,2}})(?:st|nd|rd|th))"
    r"(?:\s(?:option|choice|one|answer|alternative)"
    r"|(?<=\w)\s(?!(?:last|half|most|least|best|worst|two|three|four|five|few|\w{2,}est)\b)(?P<noun>\w+))?"
    r"|(?:(?:option|choice|answer|number|no\.|nr\.)\s?|\#\s?)(?P<number>[0-9]{1,2})"
)
_JOINED: Final = lazy_pattern(
    r"\s*(?:[,/&+;]|\b(?:and/or|and|or|then|und|oder|et|ou|y|o)\b)\s*(?:\b(?:and|or|then)\b\s*)?"
)
_ALL_ABOVE: Final = lazy_pattern(
    r"(?:all|both)(?: of)?(?: the)? (?:above|these|them|preceding)(?: \w+)?", re.IGNORECASE
)
_ALTERNATIVES: Final = lazy_pattern(r"\bor\b|/", re.IGNORECASE)
_FACTORIAL: Final = lazy_pattern(r"[0-9]!\W*\Z")
_MARK: Final = lazy_pattern(r"\A[^'\"]*(?:[0-9]|(?<![^\W_])[^\W\d_])(?:(?<=[0-9])\"|['!])\W*\Z")
"""A mark after a number or letter that makes it another value: *5'* and *x'*, but not *'x'*."""
_LOWERED: Final = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_ALIKE: Final = lazy_pattern(r"(?<=[<>\u2264\u2265=])\s+|(?<=[0-9])\s+(?=[^\W\d])|(?<=[^\W\d])\.|_(?=[0-9])")
"""Spaces and points that do not distinguish two options."""
_WORDS: Final = lazy_pattern(r"[^\W_]+")
_AND: Final = lazy_pattern(r"(?<=[^\W\d])\s*[&+,]\s*(?:and\s)?(?=[^\W\d])")
"""A sign between words that means *and*."""
_DETERMINERS: Final = frozenset(("no", "none", "not"))
_ENGLISH: Final = frozenset(("a", "i", "o"))
"""Letters that are also words."""


class Mentioned(NamedTuple):
    """The labels of options whose texts occur in a value among words that may change their meaning."""

    labels: frozenset[str]


Named = frozenset[str] | Mentioned | Undecided
"""The labels of the options named in a text, or the reason why they cannot be determined."""
_NONE: Final[frozenset[str]] = frozenset()


@lru_cache(maxsize=256)
def reader_of(options: tuple[tuple[str, str], ...]) -> OptionReader:
    """Return the reader for these labels and texts."""
    return OptionReader(dict(options))


class OptionReader:
    """Finds the options that are named in a string."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self._forms = [
            (form, {label: form(text) for label, text in options.items()})
            for form in (_bare, _in_lower_case, _without_accents, _without_article, _without_style, _with_and)
        ]
        self._combined = {
            label: parts for label, text in options.items() if len(parts := self._parts_of(label, text)) > 1
        }
        plain = self._forms[2][1]
        self._longest_first = sorted(plain.items(), key=lambda item: len(item[1]), reverse=True)

    def read(self, text: str, levels: int = 4) -> Named:
        """Return the labels of the options that `text` names, if any, `Mentioned` if words around them may change what
        they mean, or `Undecided` with a reason. Readings of the whole text are tried before its parts. `levels` limits
        how many times words around an option are removed.
        """
        readings: tuple[Callable[[str], Named], ...] = (
            self._whole, self._ordinal, self._label_and_option, partial(self._without_words, levels=levels),
            self._text_and_label, self._several, self._label_and_words, self._in_other_words,
        )  # fmt: skip
        mentioned: Named = _NONE
        for reading in readings:
            named = reading(text)
            if isinstance(named, Mentioned):
                mentioned = mentioned or named
            elif isinstance(named, Undecided):
                return named
            elif named:
                return self._combine(named, text, is_list=reading == self._several)
        return mentioned

    def has_words_of(self, label: str, text: str) -> bool:
        """Return whether all words of an option's text occur in `text`, in any place. *and* may be missing, as in
        *I/II only*.
        """
        wanted, words = (set(_WORDS.findall(_without_article(one))) for one in (self.options[label], text))
        return bool(wanted) and wanted - words <= (set() if "or" in words else {"and"})

    def _parts_of(self, label: str, text: str) -> frozenset[str]:
        """Return the labels of the options that an option combines, as *Both A and B* or *All of the above* does, or an
        empty set if it combines none.
        """
        labels = list(self.options)
        if _ALL_ABOVE.fullmatch(text.strip(_ENDS)):
            return frozenset(labels[: labels.index(label)])
        parts = [self.by_label(part) for part in _JOINED.split(_without_article(text))]
        return frozenset().union(*parts) if all(parts) and not _ALTERNATIVES.search(text) else _NONE

    def _combine(self, named: frozenset[str], text: str, *, is_list: bool = False) -> frozenset[str]:
        """Return the option that combines the named ones, as *Both A and B* does, if there is one and they are not
        alternatives, and otherwise the named ones. It may be named itself beside its parts, as in *D (A, B and C)*, but
        not in a list.
        """
        if len(named) > 1 and not _ALTERNATIVES.search(text):
            for label, parts in self._combined.items():
                if named == parts or (not is_list and named == parts | {label}):
                    return frozenset((label,))
        return named

    def by_label(self, text: str) -> frozenset[str]:
        """Return a set with the label that `text` consists of, with or without brackets, or an empty set."""
        bare = text.strip(_ENDS).strip("()[]{}<>").strip(_ENDS)
        exact = [label for label in self.options if label == bare]
        return frozenset(exact or [label for label in self.options if label.casefold() == bare.casefold()])

    def by_text(self, text: str) -> frozenset[str]:
        """Return the labels of the options whose text is `text`, by the strictest comparison that finds any: several
        ignore case, accents, articles and style.
        """
        for form, options in self._forms:
            wanted = form(text)
            if found := frozenset(label for label, option in options.items() if wanted and option == wanted):
                return found
        return _NONE

    def _whole(self, text: str) -> Named:
        """Return the option whose label or text is the whole of `text`, if any. It is `Undecided` if there are several,
        as in *A Lima* if B is Lima, or if the text may be a factorial.
        """
        if _FACTORIAL.search(text) and not any("!" in option for option in self.options.values()):
            return Undecided(f"{text[:60]!r} may be a factorial")
        labels, texts = self.by_label(text), self.by_text(text)
        marked = any(_MARK.search(self.options[label]) for label in texts)
        if texts and not labels and not marked and _MARK.search(text):
            return Undecided(f"the mark at the end of {text[:60]!r} may change its meaning")
        if "A" in self.options and _A_AND_NAME.match(text) and all(self.options[one][:2] != "A " for one in texts):
            texts = texts and texts | {"A"}
        if len(labels | texts) > 1:
            return Undecided(f"{text[:60]!r} is the label or text of several options")
        return labels | texts

    def _ordinal(self, text: str) -> Named:
        """Return the option for an ordinal or number such as *the second* and *option 2*, or no option for other text.
        The result is `Undecided` if a number may also be another option's text.
        """
        match = _ORDINAL.fullmatch(text.strip(_ENDS).casefold())
        labels = list(self.options)
        if match is None or (match["noun"] and any(match[0] in option.casefold() for option in self.options.values())):
            return _NONE
        if match["word"] == "last":
            return frozenset(labels[-1:])
        number = match["digits"] or match["number"]
        if match["number"] in self.options:
            return frozenset((match["number"],))
        place = int(number) if number else _ORDINALS.index(match["word"]) + 1
        named = frozenset(labels[place - 1 : place]) if place else _NONE
        if match["number"] and not self.by_text(number) <= named:
            return Undecided(f"{text[:60]!r} may be the number of an option or another option's text")
        return named

    def _label_and_option(self, text: str) -> Named:
        """Return the options for a label followed by an option's text, such as *B. Lima*."""
        label, _, rest = self._split_label(text)
        return label | self.by_text(rest) if label and self.by_text(rest) else _NONE

    def _without_words(self, text: str, levels: int) -> Named:
        """Return the options that `text` names after introductory words such as *The answer is*, or apart from a
        rejection (*B, not A*). `levels` limits how often such words are removed; at 0, the result is empty.
        """
        lead, instead, refused = _LEAD.match(text), _BUT.search(text), _REFUSED.search(text)
        rests = [self._after_lead(text, lead.end()) if lead is not None else ""]
        if (first := _REFUSED_FIRST.match(text)) is not None:
            rests.append(text[first.end() :])
        elif instead is not None:
            rests.append(text[instead.end() :])
        elif refused is not None and not self._is_about_option(text[: refused.start()]):
            rests.append(text[: refused.start()])
        for rest in rests:
            named = self.read(rest, levels - 1) if levels and rest != text and rest.strip(_ENDS) else _NONE
            if isinstance(named, Undecided | Mentioned) or named:
                return named
        return _NONE

    def _after_lead(self, text: str, end: int) -> str:
        """Return `text` after introductory words, or an empty string if these end with the sign of a number."""
        rest = text[end:]
        signed = text[:end].rstrip().endswith("-") or text[:end].endswith(".")
        may_have_sign = rest[:1].isdigit() or (self.by_text(rest) and is_formula(_without_accents(rest)))
        return "" if signed and may_have_sign and not self.by_label(rest) else rest

    def _is_about_option(self, before: str) -> bool:
        """Return whether a rejection after `before` concerns the option that `before` names, as in *Lima is not*."""
        verb = _VERB.search(before)
        if verb is None:
            return False
        subject = _CLAUSE.split(before[: verb.start()])[-1].strip()
        return bool(self.by_label(subject) or self._mentions(subject))

    def _text_and_label(self, text: str) -> Named:
        """Return the options for a text followed by a label, such as *Lima (B)*, or none for other texts. The result is
        `Undecided` if the text in front of the label is undecided.
        """
        match = re.fullmatch(
            r"(?P<text>.+?)\s*(?:[(\[{<]\s*(?:(?:option|choice|letter|answer)\s)?(?P<inner>\w+)[.:]?\s*[)\]}>]"
            r"|\s*[,:=\u2013\u2014-]\s*(?P<outer>\w+))[.\s]*",
            text,
            re.IGNORECASE | re.DOTALL,
        )
        if match is None:
            return _NONE
        label = self.by_label(match["inner"] or match["outer"])
        if not label or self.by_label(match["text"]):
            return _NONE
        texts = self.by_text(match["text"]) or self._mentions(match["text"])
        return texts if isinstance(texts, Undecided) else label | texts if texts else _NONE

    def _several(self, text: str) -> Named:
        """Return the options for several letters or texts, such as *A and B*, *B/D* and *AB*, or none for other texts.
        The result is `Undecided` if they may be a number, and `Mentioned` if words around a list of labels may reject
        or change it.
        """
        parts = [part for part in _JOINED.split(text) if part.strip(_ENDS)]
        named = [self.by_label(part) or self.by_text(part) for part in parts]
        if len(parts) > 1 and all(named):
            if _AS_ONE_NUMBER.search(text) and not any(map(self.by_label, parts)):
                return Undecided(f"{text[:60]!r} may be several options or a single number")
            return frozenset().union(*named)
        bare = text.strip(_ENDS)
        if (
            1 < len(bare) <= len(self.options)
            and sorted(set(bare)) == list(bare)
            and all(c in self.options for c in bare)
        ):
            return frozenset(bare)
        label = "|".join(sorted(map(re.escape, self.options), key=len, reverse=True))
        joined = re.search(rf"\b(?:{label})\b(?:\s?(?:[,/&]|\band\b|\bor\b)\s?\b(?:{label})\b)+", text)
        if joined is None:
            return _NONE
        found = frozenset(re.findall(rf"\b(?:{label})\b", joined[0]))
        rest = text[joined.end() :]
        if self._rejects_list(text, joined.start(), rest):
            return Mentioned(frozenset(self.options))
        if rest.strip(_ENDS + ")]") and (joined.start() or is_rejected_after(rest.casefold(), 0)):
            places = self._places(text)
            return Mentioned(found.union(one for one, _, _ in places))
        return found

    def _rejects_list(self, text: str, start: int, rest: str) -> bool:
        """Return whether a list of labels that starts at `start` and is followed by `rest` is rejected, as in *A and C
        are wrong* or *I reject A and C*.
        """
        clause = rest.casefold().lstrip(" ,(").partition(",")[0]
        return is_rejected_after(clause, 0) or is_rejected_before(text.casefold(), start)

    def _label_and_words(self, text: str) -> Named:
        """Return the options for a label followed by a text with other words, such as *B. Lima, in Peru*, or none if
        `text` has no such form or rejects the label. The result is `Undecided` if the words after the label match no
        option or those of several.
        """
        label, separator, rest = self._split_label(text)
        is_word = not separator.strip() and not rest.startswith(("(", "[", "{"))
        if not label or (is_word and next(iter(label)).casefold() in _ENGLISH):
            return _NONE
        if is_rejected_after(rest.casefold(), 0):
            return _NONE
        if _REASON.match(rest):
            return label
        texts = self._mentions(rest)
        if isinstance(texts, Undecided):
            return texts
        if texts and texts.isdisjoint(label) and self.has_words_of(next(iter(label)), rest):
            return Undecided(f"{text[:60]!r} contains the words of several options")
        if texts:
            return label | texts
        return Undecided(f"{text[:60]!r} combines the label of an option with text that matches no option")

    def _in_other_words(self, text: str) -> Named:
        """Return the option that `text` consists of apart from framing words, or as `Mentioned` those that it contains
        among other words. There are none if it mentions none, and the result is `Undecided` if this is unclear.
        """
        mentioned = self._mentions(text)
        if isinstance(mentioned, Undecided) or not mentioned:
            return mentioned
        places, plain = self._places(text), _without_accents(text)
        start, end = min(start for _, start, _ in places), max(end for _, _, end in places)
        if len(mentioned) == 1 and is_only_framed(plain, start, end):
            return mentioned
        if all(self.options[label].casefold() in _DETERMINERS for label in mentioned):
            return Undecided(f"{text[:60]!r} contains an option only as a word before others")
        return Mentioned(self._combine(mentioned, text))

    def _places(self, text: str) -> list[tuple[str, int, int]]:
        """Return the options whose texts occur in `text`, with their places, but none inside a longer one."""
        left = _without_accents(text)
        places: list[tuple[str, int, int]] = []
        for label, wanted in self._longest_first:
            if 0 < len(wanted) <= len(left):
                matches = list(re.finditer(rf"(?<!\w){re.escape(wanted)}(?!\w)", left))
                places.extend((label, *match.span()) for match in matches)
                for match in matches:
                    left = left[: match.start()] + "\0" * len(wanted) + left[match.end() :]
        return places

    def _mentions(self, text: str) -> frozenset[str] | Undecided:
        """Return the options whose texts occur in `text`, or none if `text` rejects any of them. `Undecided` means that
        one is part of another number or formula, as *5 mg* is in *2.5 mg*.
        """
        plain = left = _without_accents(text)
        places = self._places(text)
        for _, start, end in places:
            left = left[:start] + "\0" * (end - start) + left[end:]
        for _, start, end in places:
            if is_part_of_formula(plain, start, end):
                return Undecided(f"{text[:60]!r} contains an option only as part of another number or formula")
        if any(is_rejected_before(left, start) or is_rejected_after(left, end) for _, start, end in places):
            return _NONE
        return frozenset(label for label, _, _ in places)

    def _split_label(self, text: str) -> tuple[frozenset[str], str, str]:
        """Return a set with the label at the start of `text`, the separator after it, and the rest. The set is empty if
        there is no label.
        """
        match = re.match(r"[(\[{<]?\s*(\w+)\s*((?:[)\]}>.:,;=\u2013\u2014-]|\s)+)(?=\S)", text)
        if match is None:
            return _NONE, "", ""
        separator, rest = match[2], text[match.end() :]
        sign = _SIGN_AT_END.search(separator)
        if sign is not None and is_formula(rest[:2]) and not text.startswith("<"):
            separator, rest = separator[: sign.start()], sign[0] + rest
        return self.by_label(match[1]), separator, rest


def without_markup(text: str) -> str:
    """Return the folded text without LaTeX commands, tags and Markdown's bold."""
    from html import unescape  # its table of names is large, and commands that compare nothing load this module

    text = fold(_STRUCK.sub(" ", unescape(text)))
    for _ in range(4):
        text = _WRAPPED.sub(r" \1 ", text)
    return " ".join(_SPACING.sub(" ", text).replace("**", "").replace("__", "").split()).strip()


def _bare(text: str) -> str:
    """Return the folded text without spaces and punctuation around it."""
    folded = " ".join(fold(text).split())
    bare = folded.strip(_ENDS)
    is_decimal = bare[:1].isdigit() and folded.lstrip(_ENDS.replace(".", "")).startswith(f".{bare[0]}")
    return f".{bare}" if is_decimal else bare


def _in_lower_case(text: str) -> str:
    return _bare(text).casefold()


def _without_accents(text: str) -> str:
    decomposed = normalize("NFD", _in_lower_case(text))
    return normalize("NFC", "".join(character for character in decomposed if category(character) != "Mn"))


def _without_style(text: str) -> str:
    """Return the text without article, and without spaces, points and subscripts as in *> 5*, *D.* and *CO_2*."""
    return _ALIKE.sub("", _without_article(text).translate(_LOWERED))


def _with_and(text: str) -> str:
    """Return the text without article, and with *and* for signs such as & and commas between words."""
    return _AND.sub(" and ", _without_article(text))


def _without_article(text: str) -> str:
    """Return the text in lower case, without accents, surrounding punctuation or an article at its start."""
    plain = _without_accents(text)
    article = _ARTICLE.match(plain)
    return plain[article.end() :] if article is not None else plain
