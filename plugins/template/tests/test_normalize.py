"""Normalizers, by themselves and in a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.normalize import SynonymMap, known_normalizers, normalize, register_normalizer
from karenina_template.templates.primitives import ExactMatch

DRUGS = SynonymMap(mapping={"asa": "aspirin", "aspirin": "not reached from asa"})


@pytest.mark.parametrize(
    ("normalizers", "text", "expected"),
    [
        ([], " A ", " A "),
        (["lowercase"], "STRASSE Straße", "strasse strasse"),
        (["strip"], "\t a b\n", "a b"),
        (["remove_punctuation"], "“Bcl-2”, p.5: $3 + ½ — done…", "Bcl2 p5 3 + ½  done"),
        (["collapse_whitespace"], " a \n\t b\u00a0c ", "a b c"),
        ([DRUGS], "asa", "aspirin"),
        ([DRUGS], "ASA", "ASA"),
        (["lowercase", "strip", DRUGS], " ASA ", "aspirin"),
        ([DRUGS, "lowercase"], "ASA", "asa"),
        ([DRUGS], "asa daily", "asa daily"),
    ],
)
def test_normalizers_are_applied_in_their_order(normalizers, text, expected):
    assert normalize(text, normalizers) == expected


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="unknown normalizer 'lower_case'; did you mean 'lowercase'"):
        normalize("a", ["lower_case"])


def test_primitives_accept_normalizers_of_plugins():
    def without_vowels(text: str) -> str:
        return "".join(c for c in text if c not in "aeiou")

    register_normalizer("test_without_vowels", without_vowels)
    register_normalizer("test_without_vowels", without_vowels)

    assert "test_without_vowels" in known_normalizers()
    assert ExactMatch(normalize=["test_without_vowels"]).check("color", "colour")


def test_two_normalizers_of_one_name_are_an_error():
    with pytest.raises(ValueError, match=r"two normalizers are named 'strip', .*test_normalize; rename one of them"):
        register_normalizer("strip", lambda text: text)


@pytest.mark.parametrize("name", ["", " strip"])
def test_a_name_that_is_no_word_is_refused(name):
    with pytest.raises(ValueError, match="surrounding space"):
        register_normalizer(name, str)


@pytest.mark.parametrize(
    "normalizers", ["strip", ["strip", 3], [{"type": "synonym_map"}], [{"mapping": {"a": 1}}], None]
)
def test_a_parameter_that_is_no_list_of_normalizers_is_refused(normalizers):
    with pytest.raises(ValidationError):
        ExactMatch(normalize=normalizers)


def test_a_synonym_map_has_json_and_a_hash():
    assert DRUGS.model_dump(mode="json")["type"] == "synonym_map"
    again = SynonymMap.model_validate_json(DRUGS.model_dump_json())
    assert again == DRUGS
    assert {again, DRUGS} == {DRUGS}


@given(st.text(), st.sampled_from(["lowercase", "strip", "remove_punctuation", "collapse_whitespace"]))
def test_normalizing_twice_changes_nothing_more(text, name):
    once = normalize(text, [name])
    assert normalize(once, [name]) == once
