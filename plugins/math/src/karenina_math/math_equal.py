"""`MathEqual`, the primitive for mathematical expressions."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_math.reading import read
from karenina_math.tokens import NotReadable, TooLarge
from karenina_math.trees import Tree
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.values import Number, exact, text_of
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.limits import ChildError, LimitReached, call_limited

_SECONDS: Final = 5.0
_CONDITION: Final = r"[<>≤≥≠∈]|\\(?:leq?|geq?|neq?|in|lt|gt)(?![A-Za-z])|!="


def _tangent(found: re.Match[str]) -> str:
    """Return the LaTeX function for *tg* or *ctg*."""
    return r"\cot " if found[1] or found[2] else r"\tan "


def _without_thousands(found: re.Match[str]) -> str:
    """Return a number such as *1,00,000* or *1.234,5* without marks of thousands, and with a decimal point."""
    number = found[0]
    return number.replace(",", "") if "." not in number else number.replace(".", "").replace(",", ".")


_OTHER_READINGS: Final = (
    (lazy_pattern(r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![\d.,])"), _without_thousands),
    (lazy_pattern(r"(?<![\w.])(\d{1,3})\s?C\s?(\d{1,3})(?![\w.])"), r"\\binom{\1}{\2}"),
    (lazy_pattern(r"(?<![\w.])(\d{1,3})\s?P\s?(\d{1,3})(?![\w.])"), r"(\\binom{\1}{\2} \\cdot \2!)"),
    (lazy_pattern(r"(?<![\w\\])C\s?\(\s?(\d{1,3})\s?,\s?(\d{1,3})\s?\)"), r"\\binom{\1}{\2}"),
    (lazy_pattern(r"(?<![\w\\])P\s?\(\s?(\d{1,3})\s?,\s?(\d{1,3})\s?\)"), r"(\\binom{\1}{\2} \\cdot \2!)"),
    (lazy_pattern(r"(?<![\w\\])C_(?:\{(\w{1,3})\}|(\w))\^(?:\{(\w{1,3})\}|(\w))"), r"\\binom{\1\2}{\3\4}"),
    (lazy_pattern(r"\^(-?\d+(?:[a-z]|/\d+))(?![\w^])"), r"^{\1}"),
    (lazy_pattern(r"(?<![\w\\])P[iI]\b"), r"\\pi "),
    (lazy_pattern(r"^[\s$]*[A-Za-z]\s?\([a-z]\)\s?=\s?(?=\$?\\?(?:mathcal\s?\{?\s?)?(?:O|Theta|Omega|Θ|Ω)\b)"), ""),
    (lazy_pattern(r"(?<![\d,])(\d+),(\d+)(?![\d,]|\s*\\?[)\]}])"), r"\1.\2"),
    (lazy_pattern(r"(?<=;)(\s*\d+),(\d+)(?![\d,])"), r"\1.\2"),
    (lazy_pattern(r"(?<=[\d)}%])\s+\((?=[\d\s./%^{}\\a-z-]*\d)(?:[\d\s./%^{}-]|\\frac|\\%)+\)[\s$.]*$"), ""),
    (lazy_pattern(r"^(?:[^A-Za-z\\=<>]|\\(?:frac|[dt]frac|sqrt|cdot|times|left|right)\b)+=(?=[^=<>]+$)"), ""),
    (lazy_pattern(rf"^((?:(?!{_CONDITION}).)+?)[,;]\s*\(?[A-Za-z]\s*(?:{_CONDITION})[^,;]*$"), r"\1"),
    (lazy_pattern(r"(?<=[\])}])\s*(?:U|,|\\text\{\s*or\s*\}|\bor\b)\s*(?=\\?[\[({])"), r" \\cup "),
    (lazy_pattern(r"^[\s$]*(?:[a-z]\s*(?:∈|\\in\b|in\b)\s*)?R\b(?!\s*\()"), r"\\mathbb{R}"),
    (lazy_pattern(r"\\operatorname\{(c?)tg\}|(?<![A-Za-z\\])(c?)tg\b"), _tangent),
    (lazy_pattern(r"(?<![\w.])(\d+)(?:st|nd|rd|th)\b"), r"\1"),
    (lazy_pattern(r"(?<![\d.,])\d{1,2}(?:,\d\d)+,\d{3}(?![\d,])"), _without_thousands),
    (lazy_pattern(r"(?<![\w\\])([a-z])C([a-z])(?!\w)"), r"\\binom{\1}{\2}"),
    (lazy_pattern(r"(?<![\w\\])([a-z])P([a-z])(?!\w)"), r"(\\binom{\1}{\2} \\cdot \2!)"),
    (
        lazy_pattern(
            r"(?<![A-Za-z])((?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|ln|log|lg|exp)(?:[_^]\w|[_^]\{\w+\})?)(?![A-Z])\s*"
            r"((?:\d|[^\W\d_]|\\[A-Za-z]{2,9}\s?){1,9})\s?/\s?(\d+|[^\W\d_])(?!\w)"
        ),
        r"\1(\2/\3)",
    ),
)
"""Notations with another reading: *5C2* and *P(5, 2)* count, *e^-2x* has no braces, *T(n) = O(n)* is a bound, *1,5* may
have a decimal comma, *0.5 (1/2)* repeats the number, *1/2 = 0.5* is a computation, *x^2, x > 0* has a condition,
*(1, 2) U (3, 4)* is a union, *R* are the real numbers, *tg* is the tangent, *12th* is the number 12, *1,00,000* and
*1.234,5* have marks of thousands, and *sin x/2* has no brackets.
"""
_LEFT_OUT: Final = (
    (lazy_pattern(r"(?<=[\d})])\s*(?:\\?%|\bper ?cent\b)(?=[\s$.]*$)"), "only one text has a percent sign"),
    (
        lazy_pattern(r"(?:(?<=\d)_(?:\{\d+\}|\d+)|(?<=[\dA-F]{2})_(?:\{16\}|16))(?=[\s$.]*$)"),
        "only one text states the base of its number",
    ),
)
"""Signs that a text may leave out if the question asks for a percentage, or for a number in a base."""
_ANY_INTEGER: Final = lazy_pattern(
    r"(?<=[\w})°])[\s,;(]*[\s,;(](?:where\s+|with\s+|for\s+)?"
    r"(?:[j-n]\s*(?:∈|\\in\b|\bin\b)\s*(?:\\mathbb\s*\{\s*Z\s*\}|\\mathbb\s*Z\b|\u2124|Z\b)"
    r"|[j-n]\s+(?:is\s+)?(?:an|any)\s+integer|(?:(?:an|any|all|every)\s+)?integers?\s+[j-n]\b)\)?(?=[\s$.]*$)"
)
"""A condition behind an expression that a name such as *n* stands for any integer."""
_ANGLE: Final = lazy_pattern(r"\\pi\b|π|°|\\circ\b")
_COMMA: Final = lazy_pattern(r"[-\u2212]?[0-9]+,[0-9]+")


class MathEqual(ReadingPrimitive, defer_build=True):
    """Passes if both texts are the same mathematical expression, in LaTeX or plain text: *0.5* for *\\frac{1}{2}*.

    Use it for a text field into which the judge copies the expression, as the response writes it.

    - `domain`: the numbers that symbols stand for: "real" (the default), "positive", "integer" or "complex".
      *\\sqrt{x^2}* equals *x* only for positive *x*.
    - `ordered`: whether the order counts in a list without brackets. Set it to false for a list of solutions. Tuples
      and intervals always have an order, and sets never. How often a list repeats an item counts: *1, 1, 2* is not
      *1, 2, 2*.
    - `tolerance`: the greatest difference of numbers. Without it, *0.333* is not 1/3.
    - `unreadable`: whether text that is not an expression counts as wrong ("wrong") or leaves the item undecided
      ("not_judged", the default).

    Expressions are equal if they have the same values, to 45 digits, at several points. Equal are *x = 3* or
    the segment *AB = 3* and *3*, *v(t) = 3t^2* and *3t^2*, named values *x = 2, y = 1* and the pair *(2, 1)*, an
    inequality and its interval, the equations *F = ma* and *a = F/m*, and bounds that grow alike, as *O(2n)* and
    *O(n)*. The letters *i* and *e* are constants, and *\\Delta x* is one symbol. Undecided are *log* if the result
    depends on its base, *1/2x*, the same number in another base (*204_5* for *54*) or with a unit (*3 cm* for *3*),
    the words *1 or 2* for *1 and 2*, the list *1, 2* for *(1, 2)*, equations that are equal for positive numbers or
    integers only, the constant of an integration with another name or value (*x^2 - c* for *x^2 + C*), values of
    functions that are not defined (*\\Gamma(5)* for *24*), letters before brackets that may be functions or factors
    (*2\\Phi(1)* for *\\Phi(2)*), another order of factors that may be matrices or vectors (*A^{-1}B* for *BA^{-1}*,
    *u \\times v* for *v \\times u*), two forms of a Greek letter, *j* for *i*, *5C2* and *P(5, 2)*, infinite sums,
    *1,22* for *1.22*, *15* for *15%*, *101* for *101_2*, *12th* for *12*, a value with its other form, computation or
    condition (*0.5 (1/2)*, *1/2 = 0.5*, *x^2, x > 0*), intervals joined by *U* or a comma, a text of more than 2,000
    characters, and a comparison that takes too long.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    is_slow: ClassVar[bool] = True
    field_type: ClassVar[str | None] = "expression"

    domain: Literal["real", "positive", "integer", "complex"] = Field(
        default="real", description="The numbers that symbols stand for."
    )
    ordered: bool = Field(default=True, description="Whether the order counts in a list without brackets.")
    tolerance: Annotated[Number, Field(ge=0)] | None = None

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is an expression that can be read."""
        self._truth(expected)

    def mutate(self, expected: object) -> object:
        """Return a wrong value: the ground truth plus more than the tolerance, or a fixed number if it is not a single
        value.
        """
        tree = self._truth(expected)
        if tree[0] in ("list", "and", "or", "set", "tuple", "interval", "matrix", "relation", "union", "intersection",
                       "difference", "reals"):  # fmt: skip
            return "987654321.5"
        distance = 1 + 2 * (self.tolerance or 0)
        return f"({str(text_of(expected)).strip(' $.')})+{exact(distance):f}"

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the expressions are equal. `Unreadable` means that the value is not an expression or has no
        value, and `Undecided` that the comparison has no clear result or takes too long. A blank value fails.
        """
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        try:
            value = _read(text)
        except TooLarge as error:
            return Undecided(str(error))
        except (NotReadable, RecursionError) as error:
            return Unreadable(f"the value cannot be read: {error}")
        if value == truth:
            return True
        verdict = self._compare(truth, value)
        if verdict is False and (number := _decimal_comma(text) or _decimal_comma(str(text_of(expected)))):
            one, other = (_read(_decimal_comma(part) or part) for part in (text, str(text_of(expected))))
            if self._compare(one, other) is True:
                return Undecided(f"the comma in {number} may be a decimal mark")
        if verdict is False and any(self._is_same(*pair) for pair in _other_texts(str(text_of(expected)), text)):
            return Undecided("the value or the ground truth can also be read in a way that makes them equal")
        if verdict is False and (reason := self._left_out(str(text_of(expected)), text)):
            return Undecided(reason)
        return verdict

    def _is_same(self, truth: str, value: str) -> bool:
        """Return whether two texts can be read and are equal. Undecided comparisons count as not equal."""
        try:
            trees = _read(truth), _read(value)
        except (ValueError, RecursionError):
            return False
        return trees[0] == trees[1] or self._compare(*trees) is True

    def _left_out(self, truth: str, value: str) -> str | None:
        """Return which sign only one of two texts has, if they are equal without it, otherwise None."""
        for pattern, reason in _LEFT_OUT:
            is_in = pattern.search(truth) is not None, pattern.search(value) is not None
            if is_in[0] is not is_in[1] and self._is_same(pattern.sub("", truth), pattern.sub("", value)):
                return reason
        return None

    def _compare(self, truth: Tree, value: Tree) -> bool | Undecided:
        """Return whether two parsed expressions are equal, as compared in a child process: `Unreadable` if the value
        cannot be computed, and `Undecided` if the comparison is in doubt, takes too long or fails.
        """
        tolerance = str(Fraction(exact(self.tolerance or 0)))
        try:
            reply = call_limited(
                "karenina_math.comparing:compare", truth, value, self.domain, self.ordered, tolerance, seconds=_SECONDS
            )
        except LimitReached as error:
            return Undecided(f"the comparison {error}")
        except ChildError as error:
            return Undecided(f"the comparison is not possible: {error}")
        except RecursionError:  # a product of very many factors cannot be sent to the child process
            return Undecided("the expression has too many parts to be compared")
        assert isinstance(reply, list)
        if reply[0] == "no value":
            return Unreadable(f"the value cannot be computed: {reply[1]}")
        return reply[0] if isinstance(reply[0], bool) else Undecided(str(reply[1]))

    def _truth(self, expected: object) -> Tree:
        """Return the ground truth as a parsed expression. Raises `ValueError` if it is not text or cannot be read."""
        text = text_of(expected)
        if text is None:
            raise self._wrong_truth("a text", expected)
        try:
            return _read(text)
        except ValueError as error:
            raise self._wrong_truth(f"a valid expression ({error})", expected) from None


def _decimal_comma(text: str) -> str | None:
    """Return a number such as *1,22* with a point as the decimal mark, or None for other texts."""
    return text.strip(" $").replace(",", ".") if _COMMA.fullmatch(text.strip(" $")) else None


def _other_texts(truth: str, value: str) -> list[tuple[str, str]]:
    """Return the pairs of texts in which one or both are read differently; see `_OTHER_READINGS`."""
    pairs = [(one, other) for one in _both_readings(truth) for other in _both_readings(value)]
    return [pair for pair in pairs if pair != (truth, value)]


def _both_readings(text: str) -> tuple[str, str]:
    """Return a text twice, the second time rewritten in the other reading of ambiguous notations, if it has any."""
    other = text
    for pattern, meaning in _OTHER_READINGS:
        other = pattern.sub(meaning, other)
    return text, other


@lru_cache(maxsize=4_096)
def _read(text: str) -> Tree:
    """Return the tree of a text. In a multiple of *\\pi* or of degrees, *n* stands for any integer whether the text
    states this or not.
    """
    return read(_ANY_INTEGER.sub("", text) if _ANGLE.search(text) else text)
