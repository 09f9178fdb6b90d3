"""`Choice`, the primitive for one of several options that a response names by letter, by text or both."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from string import ascii_uppercase
from typing import Annotated, ClassVar, Final, Self
from unicodedata import category, normalize

from pydantic import BeforeValidator, Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.option_context import (
    is_formula,
    is_part_of_formula,
    is_rejected_after,
    is_rejected_before,
)
from karenina_template.templates.primitives.values import text_of
from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_LONGEST: Final = 2_000
_LONGEST_OPTION: Final = 10_000
_WRAPPED: Final = lazy_pattern(r"\\(?:boxed|fbox|mbox|text[a-z]*|math[a-z]*)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_SPACING: Final = lazy_pattern(r"\\[,;:! ()\[\]]|\\quad|</?[a-z_]{1,20}>")
"""LaTeX spaces and brackets, and tags around an answer."""
_ENDS: Final = " \t\n.,;:!?*_`'\"$"
_LEAD: Final = lazy_pattern(
    r"(?:(?:I|we)(?:\s(?:would|will|must)|'d|'ll)?\s(?:choose|pick|select|take|say|think|believe|go\s(?:with|for))\s(?:that\s)?)?"
    r"(?:(?:the|my|so|thus|therefore|hence)\s+)*(?:(?:final|correct|right|best)\s+)*"
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
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL: Final = lazy_pattern(
    rf"(?:the\s)?(?:(?P<word>{'|'.join(_ORDINALS)}|last)|(?P<digits>[0-9]{{1,2}})(?:st|nd|rd|th))"
    r"(?:\s(?:option|choice|one|answer|alternative)|(?<=\w)\s(?P<noun>\w+))?"
    r"|(?:(?:option|choice|answer|number|no\.|nr\.)\s?|\#\s?)(?P<number>[0-9]{1,2})"
)
_JOINED: Final = lazy_pattern(r"\s*(?:[,/&+;]|\b(?:and/or|and|or|und|oder|et|ou|y|o)\b)\s*(?:\b(?:and|or)\b\s*)?")
_ENGLISH: Final = frozenset(("a", "i", "o"))
"""Letters that are also words."""


def _with_letters(options: object) -> object:
    """Convert a list of texts to a mapping with the keys A, B, C and so on. Other values are returned unchanged."""
    if isinstance(options, list | tuple) and len(options) <= len(ascii_uppercase):
        return dict(zip(ascii_uppercase, options, strict=False))
    return options


class Choice(ReadingPrimitive, defer_build=True):
    """Passes if the value names the same option as the ground truth: *B*, *(b)*, *B. Lima*, *Lima*, *the second*.

    Use it for a text field into which the judge copies words from the response. If the judge should choose an option
    itself, list the options in the field's type and use `LiteralMatch`.

    - `options`: the texts of the options, keyed by letter (or another label), or a list of texts, which get the letters
      A, B, C and so on.
    - `unreadable`: whether a value that does not name any option counts as wrong ("wrong") or leaves the item undecided
      ("not_judged", the default).

    The ground truth is a label or a text. Case, Markdown, LaTeX, brackets, articles, accents and words around a text
    are ignored. A value that is exactly an option's text stands for that option, even if it contains other texts or
    letters (*Both A and B*). A value that names several options fails, and so does a letter with another option's text
    (*B. Quito*). Options that the value rejects in favor of another one (*B, not A*) are ignored. A value that only
    says what is wrong (*Lima is wrong*, *anything but Lima*) does not name any option.

    The field is undecided if a value is the letter of one option and the text of another, or a letter with text that
    matches no option (*B. Santiago*). It is undecided as well if an option's number or symbol is part of another
    number, limit or formula: *5 mg* in *2.5 mg*, *> 5 mg* and *5 mg/kg*, and *x* in *1/x*.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    field_type: ClassVar[str | None] = "choice"
    options: Annotated[Mapping[str, str], BeforeValidator(_with_letters), Field(min_length=2, max_length=100)]

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        """Raise `ValueError` if an option has no label or text, or is too long."""
        if empty := [label for label, text in self.options.items() if not label.strip() or not text.strip()]:
            raise ValueError(f"option {empty[0]!r} of a Choice has no label or no text; each option needs both")
        if long := [label for label, text in self.options.items() if len(label) + len(text) > _LONGEST_OPTION]:
            raise ValueError(f"option {long[0]!r:.20} of a Choice has more than {_LONGEST_OPTION:,} characters")
        return self

    def __hash__(self) -> int:
        """Return a hash of the options and the rule for unreadable values."""
        return hash((frozenset(self.options.items()), self.unreadable))

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is an option's label or text."""
        self._truth(expected)

    def accept(self, expected: object) -> object:
        """Return the label and text of the correct option."""
        label = self._truth(expected)
        return f"{label}. {self.options[label]}"

    def mutate(self, expected: object) -> object:
        """Return the label and text of another option."""
        label = self._truth(expected)
        other = next(name for name in self.options if name != label)
        return f"{other}. {self.options[other]}"

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the value names only the correct option, or `Unreadable` if it names none."""
        truth, text = self._truth(expected), text_of(extracted)
        if text is None:
            return False
        named = self._reader().read(_clean(text)) if len(text) <= _LONGEST else frozenset()
        if isinstance(named, Undecided):
            return named
        return named == {truth} if named else Unreadable(f"{text[:60]!r} names none of the options")

    def _truth(self, expected: object) -> str:
        """Return the label of the correct option. Raises `ValueError` if there is no such option."""
        text = _clean(text_of(expected) or "")
        reader = self._reader()
        labels = reader.by_label(text) or reader.by_text(text)
        if len(labels) != 1:
            raise self._wrong_truth(f"the label or text of one option ({', '.join(self.options)})", expected)
        return next(iter(labels))

    def _reader(self) -> _OptionReader:
        """Return the reader for the options, which equal primitives share."""
        return _reader_of(tuple(self.options.items()))


Named = frozenset[str] | Undecided
"""The labels of the options named in a text, or the reason why they cannot be determined."""
_NONE: Final[frozenset[str]] = frozenset()


@lru_cache(maxsize=256)
def _reader_of(options: tuple[tuple[str, str], ...]) -> _OptionReader:
    return _OptionReader(dict(options))


class _OptionReader:
    """Finds the options that are named in a string."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self._forms = [
            (form, {label: form(text) for label, text in options.items()})
            for form in (_bare, _in_lower_case, _without_accents, _without_article)
        ]
        plain = self._forms[2][1]
        self._longest_first = sorted(plain.items(), key=lambda item: len(item[1]), reverse=True)

    def read(self, text: str, levels: int = 4) -> Named:
        """Return the labels of the options that `text` names. Readings of the whole text are tried before its parts.

        `levels` limits how many times words around an option are removed.
        """
        readings: tuple[Callable[[str], Named], ...] = (
            self._whole, self._ordinal, self._label_and_option, partial(self._without_words, levels=levels),
            self._text_and_label, self._several, self._label_and_words, self._mentions,
        )  # fmt: skip
        for reading in readings:
            named = reading(text)
            if isinstance(named, Undecided) or named:
                return named
        return _NONE

    def by_label(self, text: str) -> frozenset[str]:
        """Return a set with the label that `text` consists of, with or without brackets, or an empty set."""
        bare = text.strip(_ENDS).strip("()[]{}<>").strip(_ENDS)
        exact = [label for label in self.options if label == bare]
        return frozenset(exact or [label for label in self.options if label.casefold() == bare.casefold()])

    def by_text(self, text: str) -> frozenset[str]:
        """Return the labels of the options whose text is `text`.

        The strictest comparison that finds an option is used.
        """
        for form, options in self._forms:
            wanted = form(text)
            if found := frozenset(label for label, option in options.items() if wanted and option == wanted):
                return found
        return _NONE

    def _whole(self, text: str) -> Named:
        """Return the option whose label or text is the whole of `text`."""
        labels, texts = self.by_label(text), self.by_text(text)
        if len(labels | texts) > 1:
            return Undecided(f"{text[:60]!r} is the label or text of several options")
        return labels | texts

    def _ordinal(self, text: str) -> Named:
        """Return the option for an ordinal such as *the second*."""
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
        """Return the options after introductory words such as *The answer is*, or without a rejection (*B, not A*)."""
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
            if isinstance(named, Undecided) or named:
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
        """Return the options for a text followed by a label, such as *Lima (B)*."""
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
        """Return the options for several letters or texts, such as *A and B*, *B/D* and *AB*."""
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
        return frozenset(re.findall(rf"\b(?:{label})\b", joined[0])) if joined is not None else _NONE

    def _label_and_words(self, text: str) -> Named:
        """Return the options for a label followed by a text with other words, such as *B. Lima, in Peru*."""
        label, separator, rest = self._split_label(text)
        if not label or (not separator.strip() and next(iter(label)).casefold() in _ENGLISH):
            return _NONE
        if is_rejected_after(rest.casefold(), 0):
            return _NONE
        if _REASON.match(rest):
            return label
        texts = self._mentions(rest)
        if isinstance(texts, Undecided) or texts:
            return texts if isinstance(texts, Undecided) else label | texts
        return Undecided(f"{text[:60]!r} combines the label of an option with text that matches no option")

    def _mentions(self, text: str) -> Named:
        """Return the options whose texts occur in `text`. A text inside a longer match is not counted.

        The result is empty if `text` rejects any of these options. It is undecided if one of them is part of another
        number or formula, as *5 mg* is in *2.5 mg*.
        """
        plain = left = _without_accents(text)
        places: list[tuple[str, int, int]] = []
        for label, wanted in self._longest_first:
            if 0 < len(wanted) <= len(left):
                matches = list(re.finditer(rf"(?<!\w){re.escape(wanted)}(?!\w)", left))
                places.extend((label, *match.span()) for match in matches)
                for match in matches:
                    left = left[: match.start()] + "\0" * len(wanted) + left[match.end() :]
        for _, start, end in places:
            if is_part_of_formula(plain, start, end):
                return Undecided(f"{text[:60]!r} contains an option only as part of another number or formula")
        if any(is_rejected_before(left, start) or is_rejected_after(left, end) for _, start, end in places):
            return _NONE
        return frozenset(label for label, _, _ in places)

    def _split_label(self, text: str) -> tuple[frozenset[str], str, str]:
        """Split `text` into a set with the label at its start, the separator, and the rest.

        The set is empty if there is no label.
        """
        match = re.match(r"[(\[{<]?\s*(\w+)\s*((?:[)\]}>.:,;=\u2013\u2014-]|\s)+)(?=\S)", text)
        if match is None:
            return _NONE, "", ""
        separator, rest = match[2], text[match.end() :]
        sign = _SIGN_AT_END.search(separator)
        if sign is not None and is_formula(rest[:2]) and not text.startswith("<"):
            separator, rest = separator[: sign.start()], sign[0] + rest
        return self.by_label(match[1]), separator, rest


def _clean(text: str) -> str:
    """Fold the text, and remove LaTeX commands, tags and Markdown's bold."""
    text = fold(text)
    for _ in range(4):
        text = _WRAPPED.sub(r" \1 ", text)
    return " ".join(_SPACING.sub(" ", text).replace("**", "").replace("__", "").split()).strip()


def _bare(text: str) -> str:
    """Fold the text, and remove spaces and punctuation around it."""
    folded = " ".join(fold(text).split())
    bare = folded.strip(_ENDS)
    is_decimal = bare[:1].isdigit() and folded.lstrip(_ENDS.replace(".", "")).startswith(f".{bare[0]}")
    return f".{bare}" if is_decimal else bare


def _in_lower_case(text: str) -> str:
    return _bare(text).casefold()


def _without_accents(text: str) -> str:
    decomposed = normalize("NFD", _in_lower_case(text))
    return normalize("NFC", "".join(character for character in decomposed if category(character) != "Mn"))


def _without_article(text: str) -> str:
    """Return the text in lower case, without accents, surrounding punctuation or an article at its start."""
    plain = _without_accents(text)
    article = _ARTICLE.match(plain)
    return plain[article.end() :] if article is not None else plain
