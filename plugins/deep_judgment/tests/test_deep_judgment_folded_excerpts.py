"""Excerpts are found although the judge types other code points, and stay passages of the response."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_deep_judgment.excerpt_finder import SearchableText, find_excerpt

RESPONSE = (
    "The Sjo\u0308gren study (2019\u20132021) found that COX\u20112 rose by 5\u00a0mg \u2013 "
    "\u201ca small\u00a0rise\u201d, says Alzheimer\u2019s Research; co\u00adoperation "
    "with \uff22\uff32\uff23\uff21\uff11 fell by \u22125\u202f%\u200b."
)


@pytest.mark.parametrize(
    ("quoted", "passage"),
    [
        ("The Sj\u00f6gren study", "The Sjo\u0308gren study"),
        ("COX-2 rose by 5 mg", "COX\u20112 rose by 5\u00a0mg"),
        ("(2019-2021)", "(2019\u20132021)"),
        ('"a small rise"', "\u201ca small\u00a0rise\u201d"),
        ("Alzheimer's Research", "Alzheimer\u2019s Research"),
        ("cooperation", "co\u00adoperation"),
        ("BRCA1 fell by -5 %", "\uff22\uff32\uff23\uff21\uff11 fell by \u22125\u202f%"),
    ],
)
def test_a_passage_in_other_code_points_is_found(quoted: str, passage: str) -> None:
    match = find_excerpt(quoted, RESPONSE)
    assert match is not None
    assert (RESPONSE[match.start : match.end], match.kind) == (passage, "spacing")


def test_a_copy_of_the_passage_is_exact() -> None:
    passage = "found that COX\u20112 rose by 5\u00a0mg"
    match = find_excerpt(passage, RESPONSE)
    assert match is not None
    assert (RESPONSE[match.start : match.end], match.kind) == (passage, "exact")


@pytest.mark.parametrize("quoted", ["10\u2075 cells", "105 cells"])
def test_a_superscript_is_not_a_digit(quoted: str) -> None:
    other = {"105 cells": "10\u2075 cells", "10\u2075 cells": "105 cells"}[quoted]
    assert find_excerpt(quoted, f"They counted {other} in all.") is None


def test_a_rejected_excerpt_names_a_passage_of_the_response() -> None:
    miss = SearchableText(RESPONSE).why_missing("COX-2 rose by 7 mg")
    assert miss.kind == "altered"
    assert miss.closest is not None
    assert miss.closest in RESPONSE


@given(st.text(st.sampled_from("ab c\u0301\u200b\u2011-\u00a0\u0130i\u0307\u2019'5\u22122"), min_size=1), st.data())
def test_every_match_is_a_slice_of_the_response(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    match = find_excerpt(unicodedata.normalize("NFKC", text[start:end]), text)
    if match is not None:
        assert 0 <= match.start < match.end <= len(text)
