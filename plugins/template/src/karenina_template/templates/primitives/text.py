"""Primitives for strings, in fields and in the raw response (`Trace...`).

In fields, numbers, bools and dates are compared as strings (5 as "5"). None, NaN and other values cannot be converted
to a string, so they fail.

Judges do not fill fields that read the raw response. The ground truth of such a field is True (the default) if the
response should pass, or False if it should not.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, NoReturn, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.text import compose
from karenina_template.templates.normalize import Normalizers, normalize
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import OTHER_WORDS, another, items_of, plain, text_of
from karenina_toolkit.folding import fold
from karenina_toolkit.patterns import Flags, compile_pattern, find_all, flag_names, search

Texts = Annotated[Sequence[str], Field(min_length=1), AfterValidator(tuple)]
FlagNames = Annotated[Flags, BeforeValidator(flag_names)]
Count = Annotated[int, Strict(), Field(ge=0)]
_OPENING: Final = re.compile(r"[\[{]")
_MOST_OPENINGS: Final = 1000
"""Maximum number of positions at which to look for JSON in a response."""


def _other_words(primitive: Primitive, expected: object) -> object:
    """Return words that do not pass, if possible. If the ground truth is a list, returns a list. Returns None if the
    ground truth is neither a string nor a list nor None.
    """
    value = plain(expected)
    if value is not None and not isinstance(value, str | list):
        return None
    words = next((words for words in OTHER_WORDS if not primitive.check(words, expected)), OTHER_WORDS[0])
    return [words] if isinstance(value, list) else words


class ExactMatch(Primitive, defer_build=True):
    """Passes if both strings are equal after normalization. By default, case and surrounding whitespace are ignored.

    `normalize` is the list of normalizers. Strings that look the same are equal, unless the normalizer is "exact".

    None never passes. An empty string passes only if the ground truth is empty. The ground truth must not become empty
    by normalization, because it would then equal all other such strings.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    normalize: Normalizers = ("lowercase", "strip")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a string that normalization does not make empty."""
        self._normalized_truth(expected)

    def mutate(self, expected: object) -> object:
        """Return different words that do not pass, or a different number or date."""
        other = another(expected)
        if isinstance(other, str) and self.check(other, expected):
            return next((words for words in OTHER_WORDS if not self.check(words, expected)), other)
        return other

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether both strings are equal after normalization."""
        text = text_of(extracted)
        return text is not None and (
            text == expected or normalize(text, self.normalize) == self._normalized_truth(expected)
        )

    def _normalized_truth(self, expected: object) -> str:
        """Return the normalized ground truth. Raises `ValueError` if it cannot be converted to a string, or if
        normalization makes it empty.
        """
        truth = text_of(expected)
        if truth is None:
            raise self._wrong_truth("a string", expected)
        normalized = normalize(truth, self.normalize)
        if truth and not normalized:
            raise self._wrong_truth(
                f"a string that is not empty after normalization ({list(self.normalize)})", expected
            )
        return normalized


class _Contains(Primitive, defer_build=True):
    """Base class of primitives that search a value for substrings."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    substrings: Texts
    normalize: Normalizers = ()

    @model_validator(mode="after")
    def _no_empty_substring(self) -> Self:
        """Raise `ValueError` if a substring is empty after normalization."""
        for substring in self.substrings:
            if not normalize(substring, self.normalize):
                after = f" after normalization with {list(self.normalize)}" if substring else ""
                raise ValueError(f"the substring {substring!r} is empty{after} and would occur in every string")
        return self

    def _occurring(self, extracted: object) -> list[bool]:
        """Return, for each of the substrings, whether it occurs in the value or in one of its items."""
        items = items_of(extracted)
        texts = [text_of(item) for item in ([extracted] if items is None else items)]
        normalized = [normalize(text, self.normalize) for text in texts if text is not None]
        return [any(normalize(part, self.normalize) in text for text in normalized) for part in self.substrings]


class ContainsAny(_Contains):
    """Passes if any of `substrings` occurs in the value. The ground truth is ignored.

    The value and the substrings are normalized with `normalize`, which does nothing by default. In a list, each item is
    searched separately. There must be at least one substring, and none may be empty after normalization.
    """

    def mutate(self, expected: object) -> object:
        """Return unrelated words, which any useful condition rejects. If the ground truth is a list, returns a list.
        Returns None for ground truths of other types, such as numbers.
        """
        return _other_words(self, expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether any of the substrings occurs."""
        return any(self._occurring(extracted))


class ContainsAll(_Contains):
    """Passes if all `substrings` occur in the value. In a list, they may occur in different items.

    In all other respects, this works like `ContainsAny`.
    """

    def mutate(self, expected: object) -> object:
        """Return unrelated words, which any useful condition rejects. If the ground truth is a list, returns a list.
        Returns None for ground truths of other types, such as numbers.
        """
        return _other_words(self, expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether all substrings occur."""
        return all(self._occurring(extracted))


class RegexMatch(Primitive, defer_build=True):
    """Passes if `pattern` is found anywhere in the value. Use ^ and $ to anchor it. The ground truth is ignored.

    The syntax is that of `re`. `flags` are names (`["IGNORECASE"]`) or constants from `re`. Both the original and the
    folded value are searched, so plain hyphens, spaces and quotes also match their variants. A search that takes too
    long raises `PatternTimeout`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    pattern: str
    flags: FlagNames = ()

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        """Raise `ValueError` if the pattern does not compile."""
        compile_pattern(self.pattern, self.flags)
        return self

    def mutate(self, expected: object) -> object:
        """Return unrelated words, which any useful condition rejects. If the ground truth is a list, returns a list.
        Returns None for ground truths of other types, such as numbers.
        """
        return _other_words(self, expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the pattern is found in the extracted text. Raises `PatternTimeout` if the search takes too
        long.
        """
        text = text_of(extracted)
        if text is None:
            return False
        forms = dict.fromkeys((text, fold(text), unicodedata.normalize("NFD", fold(text))))
        return any(search(self.pattern, form, self.flags) is not None for form in forms)


class TracePrimitive(Primitive):
    """Base class of primitives that read the raw response."""

    reads_trace: ClassVar[bool] = True

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is True, False or None."""
        if not isinstance(plain(expected), bool | None):
            raise self._wrong_truth("True or False", expected)


def _at_least_one(count: object) -> object:
    return 1 if count is None else count


class TraceRegex(TracePrimitive, defer_build=True):
    """Passes if `pattern` is found in the response at least `count_min` times (default 1), without overlaps.

    Both the original response and its NFC form are searched. The syntax is that of `re`. `flags` are names
    (`["IGNORECASE"]`) or constants from `re`. The pattern must not be empty, and `count_min` must be at least 1. A
    search that takes too long raises `PatternTimeout`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    pattern: str
    flags: FlagNames = ()
    count_min: Annotated[int, Strict(), Field(ge=1), BeforeValidator(_at_least_one)] = 1

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        """Raise `ValueError` if the pattern does not compile."""
        compile_pattern(self.pattern, self.flags)
        return self

    def check_trace(self, text: str) -> bool:
        """Return whether the pattern is found at least `count_min` times. Raises `PatternTimeout` if the search takes
        too long.
        """
        forms = dict.fromkeys((text, compose(text)))
        return any(
            len(find_all(self.pattern, form, self.flags, limit=self.count_min)) == self.count_min for form in forms
        )


class TraceContains(TracePrimitive, defer_build=True):
    """Passes if `substring` occurs in the response. The search is case-sensitive by default.

    Both the original strings and their NFC forms are compared. The substring must not be empty.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    substring: str = Field(min_length=1)
    case_sensitive: bool = True

    def check_trace(self, text: str) -> bool:
        """Return whether the response contains the substring, also within a word. Case is ignored unless
        `case_sensitive` is set.
        """
        if not self.case_sensitive:
            text, substring = text.casefold(), self.substring.casefold()
        else:
            substring = self.substring
        return substring in text or compose(substring) in compose(text)


class TraceLength(TracePrimitive, defer_build=True):
    """Passes if the length of the response in `unit` ("chars" or "words") is between `min` and `max`, inclusive.

    Characters are Unicode code points, including whitespace. Words are separated by whitespace. One of the bounds may
    be omitted. `min` must not be greater than `max`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    min: Count | None = None
    max: Count | None = None
    unit: Literal["chars", "words"] = "chars"

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        """Return the primitive. Raises `ValueError` if there is no bound, or if `min` is above `max`."""
        if self.min is None and self.max is None:
            raise ValueError("TraceLength has neither min nor max; set at least one of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    def check_trace(self, text: str) -> bool:
        """Return whether the response's length is in the range."""
        length = len(text.split()) if self.unit == "words" else len(text)
        return (self.min is None or length >= self.min) and (self.max is None or length <= self.max)


class TraceJSON(TracePrimitive, defer_build=True):
    """Passes if the response is JSON. Set `anywhere` to accept an object or list anywhere in the response.

    NaN and infinities are not JSON. JSON in a Markdown code block only passes if `anywhere` is set. Up to 1,000
    positions are tried.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    anywhere: bool = False

    def check_trace(self, text: str) -> bool:
        """Return whether the response is JSON or, if `anywhere` is set, contains JSON."""
        decoder = json.JSONDecoder(parse_constant=_refuse_constant)
        if not self.anywhere:
            return _decodes(decoder, text.strip(), whole=True)
        openings = (match.start() for match, _ in zip(_OPENING.finditer(text), range(_MOST_OPENINGS), strict=False))
        return any(_decodes(decoder, text, start) for start in openings)


def _decodes(decoder: json.JSONDecoder, text: str, start: int = 0, *, whole: bool = False) -> bool:
    """Return whether there is a JSON value at `start`. If `whole` is set, it must extend to the end of the text."""
    try:
        _, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return False
    return not whole or end == len(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
