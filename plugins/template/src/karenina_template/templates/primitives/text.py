"""Primitives for texts.

A number, bool or date is read as its text (5 as "5"); None, NaN and other things have none and fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.normalize import Normalizers, normalize
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import items_of, text_of
from karenina_toolkit.patterns import Flags, compile_pattern, flag_names, search

Texts = Annotated[Sequence[str], Field(min_length=1), AfterValidator(tuple)]
FlagNames = Annotated[Flags, BeforeValidator(flag_names)]


class ExactMatch(Primitive):
    """Passes when both texts are equal after all of `normalize` (case and outer white space do not count by default).

    None never passes. An empty text passes only for an empty truth. A truth of which normalising leaves nothing is
    refused: it would equal everything else that vanishes.
    """

    from_files: ClassVar[FromFiles] = "any"
    normalize: Normalizers = ("lowercase", "strip")

    def check_expected(self, expected: object) -> None:
        """Raise ValueError unless the truth has a text, of which normalising leaves something."""
        self._normalized_truth(expected)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether both texts are equal after normalising."""
        truth, text = self._normalized_truth(expected), text_of(extracted)
        return text is not None and normalize(text, self.normalize) == truth

    def _normalized_truth(self, expected: object) -> str:
        truth = text_of(expected)
        if truth is None:
            raise self._wrong_truth("a text", expected)
        normalized = normalize(truth, self.normalize)
        if truth and not normalized:
            raise self._wrong_truth(f"a text of which {list(self.normalize)} leave something", expected)
        return normalized


class _Contains(Primitive):
    from_files: ClassVar[FromFiles] = "any"
    substrings: Texts
    normalize: Normalizers = ()

    @model_validator(mode="after")
    def _no_empty_substring(self) -> Self:
        for substring in self.substrings:
            if not normalize(substring, self.normalize):
                after = f" after {list(self.normalize)}" if substring else ""
                raise ValueError(f"the substring {substring!r} is empty{after}: it would occur in every text")
        return self

    def _occurring(self, extracted: object) -> list[bool]:
        items = items_of(extracted)
        texts = [text_of(item) for item in ([extracted] if items is None else items)]
        found = [normalize(text, self.normalize) for text in texts if text is not None]
        return [any(normalize(part, self.normalize) in text for text in found) for part in self.substrings]


class ContainsAny(_Contains):
    """Passes when at least one of `substrings` occurs in the value. The truth is not looked at.

    Case counts unless `normalize` folds it; the substrings are normalised like the value. In a list, each item is
    looked at by itself. No substrings at all, and a substring that is empty or that normalising empties, are refused
    when built.
    """

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether one of the substrings occurs."""
        return any(self._occurring(extracted))


class ContainsAll(_Contains):
    """Passes when every one of `substrings` occurs in the value, wherever; otherwise as `ContainsAny`.

    In a list they may occur in different items.
    """

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether all of the substrings occur."""
        return all(self._occurring(extracted))


class RegexMatch(Primitive):
    """Passes when `pattern` is found anywhere in the value (anchor it with ^ and $ for the whole). Ignores the truth.

    The syntax is that of `re`; `flags` are names (`["IGNORECASE"]`) or constants of `re`. A bad or empty pattern and an
    unknown flag are refused when built. A search that does not end raises `PatternTimeout`.
    """

    from_files: ClassVar[FromFiles] = "any"
    pattern: str
    flags: FlagNames = ()

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        compile_pattern(self.pattern, self.flags)
        return self

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the pattern is found."""
        text = text_of(extracted)
        return text is not None and search(self.pattern, text, self.flags) is not None
