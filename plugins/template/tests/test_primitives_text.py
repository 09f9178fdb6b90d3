"""Primitives for strings, booleans, literals and meanings."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from enum import Enum

import pytest
from pydantic import BaseModel, ValidationError

from karenina_core.catalog import install_command
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import (
    BooleanMatch,
    ContainsAll,
    ContainsAny,
    ExactMatch,
    LiteralMatch,
    RegexMatch,
    SemanticMatch,
)
from karenina_template.templates.primitives.semantic import (
    SimilarityUnavailable,
    provide_similarity,
    withdraw_similarity,
)
from karenina_toolkit.patterns import PatternTimeout

NAN = float("nan")


class Colour(Enum):
    RED = "red"
    TRUE = True


class Dose(BaseModel):
    amount: int
    unit: str


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        (True, True, True),
        (False, False, True),
        (False, True, False),
        (Colour.TRUE, True, True),
        (None, False, False),
        (0, False, False),
        (1, True, False),
        ("true", True, False),
        ("false", True, False),
        ([], False, False),
    ],
)
def test_boolean_match_takes_booleans_only(extracted, expected, passes):
    assert BooleanMatch().check(extracted, expected) is passes


@pytest.mark.parametrize(
    ("normalize", "extracted", "expected", "passes"),
    [
        (None, "  BCL2 ", "bcl2", True),
        (None, "Straße", "STRASSE", True),
        (None, "TP53", "BCL2", False),
        (None, "", "", True),
        (None, " ", "", True),
        (None, "", "BCL2", False),
        (None, None, "None", False),
        (None, None, "", False),
        (None, 5, "5", True),
        (None, "5", 5, True),
        (None, 5.0, "5", False),
        (None, NAN, "nan", False),
        (None, True, "true", True),
        (None, date(2024, 1, 15), "2024-01-15", True),
        (None, Colour.RED, "red", True),
        (None, ["BCL2"], "BCL2", False),
        (None, {"a": 1}, "a", False),
        ([], "BCL2", "bcl2", False),
        (["remove_punctuation", "collapse_whitespace"], "Bcl-2,  p", "Bcl2 p", True),
        (["lowercase", SynonymMap(mapping={"asa": "aspirin"})], "ASA", "Aspirin", True),
    ],
)
def test_exact_match(normalize, extracted, expected, passes):
    primitive = ExactMatch() if normalize is None else ExactMatch(normalize=normalize)
    assert primitive.check(extracted, expected) is passes


@pytest.mark.parametrize(
    ("substrings", "normalize", "extracted", "some", "every"),
    [
        (["BCL2", "TP53"], [], "the target is BCL2", True, False),
        (["BCL2", "TP53"], [], "BCL2 and TP53", True, True),
        (["BCL2", "TP53"], [], "BRCA1", False, False),
        (["bcl2"], [], "BCL2", False, False),
        (["bcl2"], ["lowercase"], "BCL2", True, True),
        (["BCL-2"], ["lowercase", "remove_punctuation"], "bcl2", True, True),
        (["BCL2", "TP53"], [], ["TP53", None, "BCL2"], True, True),
        (["BCL2TP53"], [], ["BCL2", "TP53"], False, False),
        (["5"], [], 1.5, True, True),
        (["None"], [], None, False, False),
        (["a"], [], {"a": 1}, False, False),
        (["a"], [], [], False, False),
    ],
)
def test_contains_any_and_all(substrings, normalize, extracted, some, every):
    assert ContainsAny(substrings=substrings, normalize=normalize).check(extracted, "not looked at") is some
    assert ContainsAll(substrings=substrings, normalize=normalize).check(extracted, None) is every


@pytest.mark.parametrize("kind", [ContainsAny, ContainsAll])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"substrings": []}, {"substrings": "abc"}, {"substrings": ["a", ""]}, {"substrings": [3]}],
)
def test_substrings_that_occur_everywhere_or_nowhere_are_refused(kind, parameters):
    with pytest.raises(ValidationError):
        kind(**parameters)


def test_a_substring_that_normalising_empties_is_refused():
    with pytest.raises(ValidationError, match=r"'\.\.\.' is empty after normalization with \['remove_punctuation'\]"):
        ContainsAny(substrings=["..."], normalize=["remove_punctuation"])


@pytest.mark.parametrize(
    ("pattern", "flags", "extracted", "passes"),
    [
        (r"BCL\d+", [], "the BCL2 gene", True),
        (r"^BCL\d+$", [], "the BCL2 gene", False),
        (r"bcl\d+", [], "BCL2", False),
        (r"bcl\d+", ["IGNORECASE"], "BCL2", True),
        (r"bcl\d+", re.IGNORECASE, "BCL2", True),
        (r"^\d+$", [], 42, True),
        (r".", [], None, False),
        (r"a", [], ["a"], False),
    ],
)
def test_regex_match(pattern, flags, extracted, passes):
    assert RegexMatch(pattern=pattern, flags=flags).check(extracted, "not looked at") is passes


@pytest.mark.parametrize(
    "parameters",
    [
        {"pattern": "("},
        {"pattern": ""},
        {"pattern": "a", "flags": ["NOPE"]},
        {"pattern": "a", "flags": "2"},
        {"pattern": 3},
    ],
)
def test_a_bad_pattern_or_flag_is_refused_when_built(parameters):
    with pytest.raises(ValidationError):
        RegexMatch(**parameters)


def test_a_pattern_that_backtracks_without_end_is_stopped():
    with pytest.raises(PatternTimeout):
        RegexMatch(pattern=r"^(a|aa)+$").check("a" * 60 + "b", None)


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        ("high", "high", True),
        ("High", "high", False),
        (" high", "high", False),
        (Colour.RED, "red", True),
        ("red", Colour.RED, True),
        (None, "high", False),
        (1, 1.0, True),
        (Decimal("0.1"), 0.1, True),
        ("1", 1, False),
        (True, 1, False),
        ([True], [1], False),
        ((1, "a"), [1, "a"], True),
        ([1, 2], [2, 1], False),
        ({"a": None}, {"a": None}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({1, 2}, [1, 2], False),
        (Dose(amount=5, unit="mg"), {"amount": 5, "unit": "mg"}, True),
        (date(2024, 1, 15), "2024-01-15", True),
    ],
)
def test_literal_match(extracted, expected, passes):
    assert LiteralMatch().check(extracted, expected) is passes


@pytest.mark.parametrize(
    ("primitive", "expected"),
    [
        (BooleanMatch(), "true"),
        (BooleanMatch(), 1),
        (BooleanMatch(), None),
        (ExactMatch(), None),
        (ExactMatch(), ["a"]),
        (ExactMatch(), NAN),
        (ExactMatch(normalize=["remove_punctuation"]), "..."),
        (LiteralMatch(), None),
        (LiteralMatch(), NAN),
        (LiteralMatch(), [1, NAN]),
        (LiteralMatch(), Decimal("sNaN")),
        (SemanticMatch(), None),
        (SemanticMatch(), "  "),
        (SemanticMatch(), ["a"]),
    ],
)
def test_a_wrong_truth_is_the_authors_error(primitive, expected):
    with pytest.raises(ValueError, match=f"{type(primitive).__name__} requires"):
        primitive.check_expected(expected)
    with pytest.raises(ValueError, match="as the ground truth"):
        primitive.check("a", expected)


@pytest.fixture
def word_overlap():
    """Provide a similarity that needs no model, the share of words in common, and record the calls."""
    asked = []

    def provider(one, another, model):
        asked.append((one, another, model))
        left, right = set(one.split()), set(another.split())
        return len(left & right) / len(left | right)

    withdraw_similarity()
    provide_similarity(provider)
    yield asked
    withdraw_similarity()


def test_semantic_match_compares_by_the_provider_of_the_embedding_plugin(word_overlap):
    primitive = SemanticMatch(threshold=0.5, model="tiny")
    assert primitive.check("inhibits the enzyme", "inhibits an enzyme") is True
    assert primitive.check("inhibits it", "activates the enzyme") is False
    assert word_overlap[0] == ("inhibits the enzyme", "inhibits an enzyme", "tiny")


def test_semantic_match_asks_nothing_about_what_is_no_text(word_overlap):
    assert [SemanticMatch().check(value, "a") for value in (None, "", " ", ["a"])] == [False] * 4
    assert word_overlap == []


def test_semantic_match_without_the_plugin_says_what_to_install():
    withdraw_similarity()
    with pytest.raises(SimilarityUnavailable, match=re.escape(install_command("karenina-embedding"))):
        SemanticMatch().check("a", "a")


def test_a_second_provider_of_similarity_is_an_error(word_overlap):
    with pytest.raises(ValueError, match="two plugins provide text similarity"):
        provide_similarity(lambda one, another, model: 1.0)


@pytest.mark.parametrize("threshold", [0, -0.1, 1.1, NAN, True, "0.5"])
def test_a_threshold_that_is_no_cosine_is_refused(threshold):
    with pytest.raises(ValidationError):
        SemanticMatch(threshold=threshold)
