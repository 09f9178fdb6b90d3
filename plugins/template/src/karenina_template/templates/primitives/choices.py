"""`Choice`, the primitive for one of several options that a response names by letter, by text or both."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Annotated, ClassVar, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.option_reader import Mentioned, OptionReader, reader_of, without_markup
from karenina_template.templates.primitives.values import text_of

_LONGEST: Final = 2_000
_LONGEST_OPTION: Final = 10_000


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

    The ground truth is a label or a text. Case, Markdown, LaTeX, brackets, articles, accents, and words that present a
    text (*The answer is Lima*, *Lima, the capital of Peru*) are ignored. A value that is exactly an option's text
    stands for that option, even if it contains other texts or letters (*Both A and B*). A value that names several
    options fails, unless one option combines them (*All of the above*), and so does a letter with another option's
    text (*B. Quito*). Options that the value rejects in favor of another one (*B, not A*) are ignored. A value that
    only says what is wrong (*Lima is wrong*, *anything but Lima*) does not name any option.

    The field is undecided if a value is the letter of one option and the text of another, or a letter with text that
    matches no option (*B. Santiago*), and if the correct option occurs among other words that may change its meaning
    (*portal hypertension*, *before 1914*, *avoid penicillin*) or beside other options (*Lima; Quito is larger*). It is
    undecided as well if an option's number or symbol is part of another number, limit or formula: *5 mg* in *2.5 mg*,
    *> 5 mg* and *5 mg/kg*, and *x* in *1/x*.
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
        """Return whether the value names the correct option and no other. `Unreadable` means that it names none, and
        `Undecided` that other words may change which one. A value that is not a text fails.
        """
        truth, text = self._truth(expected), text_of(extracted)
        if text is None:
            return False
        reader = self._reader()
        named = reader.read(without_markup(text)) if len(text) <= _LONGEST else frozenset()
        if isinstance(named, Undecided):
            return named
        if isinstance(named, Mentioned):
            is_unclear = truth in named.labels or reader.has_words_of(truth, text)
            return is_unclear and Undecided(f"other words in {text[:60]!r} may change which option it names")
        if "?" in text and len(named) > 1:
            return Undecided(f"{text[:60]!r} is a question")
        return named == {truth} if named else Unreadable(f"{text[:60]!r} names none of the options")

    def _truth(self, expected: object) -> str:
        """Return the label of the correct option, which `expected` gives by label or text. Raises `ValueError` if it
        does not name exactly one.
        """
        text = without_markup(text_of(expected) or "")
        reader = self._reader()
        labels = reader.by_label(text) or reader.by_text(text)
        if len(labels) != 1:
            raise self._wrong_truth(f"the label or text of one option ({', '.join(self.options)})", expected)
        return next(iter(labels))

    def _reader(self) -> OptionReader:
        """Return the reader for the options, which equal primitives share."""
        return reader_of(tuple(self.options.items()))
