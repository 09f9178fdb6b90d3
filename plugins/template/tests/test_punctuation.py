"""Punctuation that `remove_punctuation` keeps because it distinguishes values, and punctuation that it removes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_template.templates.normalize import normalize
from karenina_template.templates.primitives import ExactMatch

RULE = ExactMatch(normalize=["remove_punctuation", "collapse_whitespace"])

EQUAL = [
    *(("COX-2", "COX2"), ("5-HT", "5HT"), ("and/or", "andor"), ("Dr.-Ing.", "DrIng"), ("word--word", "wordword")),
    *(("U.S.", "US"), ("Dr. No", "Dr No"), ("E. coli", "E coli"), ("p.5", "p5"), ("5.", "5"), ("Paris...", "Paris")),
    *(('"Paris"', "Paris"), ("'5'", "5"), ('"5"', "5"), ("`5`", "5"), ("``COX-2''", "COX2"), ("«5»", "5")),
    *(("(Paris)", "Paris"), ("(5)", "5"), ("[5]", "5"), ("**COX-2**", "COX2"), ("Paris!", "Paris"), ("#5", "5")),
    *(("January 5, 2024", "January 5 2024"), ("1990's", "1990s"), ("students'", "students"), ("O'Brien", "OBrien")),
    *(("Paris - France", "Paris France"), ("- aspirin", "aspirin"), ("Paris -- ", "Paris"), ("$5", "5")),
    *((("(R)-menthol"), "R-menthol"), ("Fe(III)", "FeIII"), ("Ca(2+)", "Ca2+"), ("HER2(+)", "HER2+"), ("Rh +", "Rh+")),
    *(("5 %", "5%"), ("< 5", "<5"), ("- 5", "-5"), ("10^(5)", "10^5"), ("the 'top 10' list", "the top 10 list")),
]
DIFFERENT = [
    # signs before currency, brackets and space
    *(("-$5", "$5"), ("-€5", "€5"), ("US$-5", "US$5"), ("- $5", "$5"), ("- 5", "5"), ("-(5)", "5"), ("+/-5", "5")),
    # exponents
    *(("2e-5", "2e5"), ("1.5E-10", "1.5E10"), ("10^(-5)", "10^(5)"), ("10^(5)", "105"), ("x^-2", "x^2"), ("x^2", "x2")),
    # charges, and what is positive or negative
    *(("HER2(+)", "HER2(-)"), ("HER2 (+)", "HER2 (-)"), ("Rh +", "Rh -"), ("Ca2+", "Ca2"), ("Na^+", "Na^-")),
    *(("Fe(III)", "Fe(II)"), ("(+)-menthol", "(-)-menthol"), ("D-(+)-fructose", "D-(-)-fructose"), ("+", "-")),
    *(("HER2 +, ER -", "HER2 -, ER -"), ("A+", "A-"), ("SO4(2-)", "SO42")),
    *(("Rh + ", "Rh - "), ("Rh +\n", "Rh -\n"), ("Rh + .", "Rh - ."), ("(Rh + )", "(Rh - )")),
    # ranges, ratios and lists
    *(
        ("5~6", "56"),
        ("5-6", "56"),
        ("5—6", "56"),
        ("5…6", "56"),
        ("5...6", "5.6"),
        ("5 - 6", "5 6"),
        ("5°C--1°C", "5°C-1°C"),
    ),
    *(
        ("1:5", "15"),
        ("1/5", "15"),
        ("1:5", "1/5"),
        ("1 : 5", "1 / 5"),
        ("1;5", "15"),
        ("5(6)", "56"),
        ("5 + 3", "5 - 3"),
    ),
    # units and comparisons
    *(("5%", "5"), ("5‰", "5"), ("5‰", "5%"), ("5'", "5"), ("5'", '5"'), ("5'6\"", "56"), ("5''", "5'"), ("5°", "5")),
    *(("<5", "5"), ("≤5", "5"), ("<5", ">5"), ("≤5", "<5"), ("a > b", "a < b"), ("p=.5", "p=5")),
    # points, versions, dates and times
    *(("1.5", "15"), (".5", "5"), ("$.5", "$5"), ("US$.5", "US$5"), (",5", "5"), ("1,5", "15"), ("1'000", "1000")),
    *(("1.2.3", "12.3"), ("1.2.3", "123"), ("2024-01-15", "20240115"), ("15.01.2024", "15012024"), ("01:30", "0130")),
    # names
    *(("C#", "C"), ("C++", "C"), ("C#", "C++")),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_marks_that_mean_nothing_are_removed(one: str, other: str) -> None:
    assert RULE.check(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_marks_that_tell_values_apart_are_kept(one: str, other: str) -> None:
    assert not RULE.check(one, other)
    assert normalize(one, ["remove_punctuation"]) != normalize(other, ["remove_punctuation"])


def value_of(text: str) -> float:
    return float(text.translate({ord("\u2212"): "-", **dict.fromkeys(map(ord, "()$“” "))}))


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Draw a number with a sign, a currency or an exponent, in brackets or quotes, or without its zero."""
    digits = draw(st.from_regex(r"[1-9][0-9]{0,2}(\.[0-9]?[1-9])?|\.[0-9]?[1-9]", fullmatch=True))
    exponent = draw(st.sampled_from(["", "", "e3", "E-3", "e-12", "e+3"]))
    sign = draw(st.sampled_from(["", "-", "+", "- ", "-$", "$-", "$", "- $", "\u2212"]))
    opening, closing = draw(st.sampled_from([("", ""), ("(", ")"), ("“", "”")]))
    return f"{opening}{sign}{digits}{exponent}{closing}"


@given(numbers(), numbers())
def test_two_different_numbers_are_never_equal(one: str, other: str) -> None:
    if not math.isclose(value_of(one), value_of(other), rel_tol=1e-9):
        assert not RULE.check(one, other)


@given(st.lists(st.integers(0, 99), min_size=2, max_size=4), st.sampled_from("-~;:/.,*^_'|…—·&!?\\()[]{}\"@#=<>+"))
def test_no_mark_between_digits_is_lost(parts: list[int], mark: str) -> None:
    assert not RULE.check(mark.join(map(str, parts)), "".join(map(str, parts)))


@pytest.mark.parametrize("piece", ["(((-", "5'", "1.1.", "-'", "+/", "(+)", "++", "5e-", "'", '"5', "- ", "a-", "^(-"])
def test_a_long_value_is_read_in_one_go(piece: str) -> None:
    once = normalize(piece * 50_000, ["remove_punctuation"])
    assert normalize(once, ["remove_punctuation"]) == once
