"""Values in other code points: equal where nobody sees a difference, and different where one reads another value."""

import unicodedata
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates import BaseAnswer, SynonymMap, VerifiedField
from karenina_template.templates.normalize import normalize
from karenina_template.templates.primitives import (
    ContainsAll,
    ContainsAny,
    ExactMatch,
    LiteralMatch,
    NumericExact,
    NumericRange,
    OrderedMatch,
    RegexMatch,
    SetContainment,
    TraceContains,
    TraceLength,
    TraceRegex,
)
from karenina_template.templates.source.loading import template_of_class
from karenina_toolkit.folding import fold

INVISIBLE = (0xAD, 0x200B, 0x2060, 0xFEFF, 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
LOOK_ALIKE = [
    pytest.param("Ménière", "Me\u0301nie\u0300re", id="an accent beside its letter"),
    pytest.param("\u1e69", "s\u0307\u0323", id="two marks in another order"),
    pytest.param("\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af", id="Hangul in parts"),
    pytest.param("K", "\u212a", id="the Kelvin sign"),
    *(pytest.param("IL-6", f"IL{dash}6", id=f"hyphen U+{ord(dash):04X}") for dash in "\u2010\u2011\u2012\u2013"),
    pytest.param("-40", "\u221240", id="the minus sign"),
    *(
        pytest.param("5 mg", f"5{chr(code)}mg", id=f"space U+{code:04X}")
        for code in (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
    ),
    *(pytest.param("warfarin", f"war{chr(code)}farin", id=f"invisible U+{code:04X}") for code in INVISIBLE),
    *(pytest.param("Crohn's", f"Crohn{quote}s", id=f"quote U+{ord(quote):04X}") for quote in "\u2018\u2019\u02bc"),
    pytest.param('"Titan"', "\u201cTitan\u201d", id="English quotes"),
    pytest.param('"Titan"', "\u201eTitan\u201c", id="German quotes"),
    pytest.param('"Titan"', "\u00abTitan\u00bb", id="French quotes"),
    pytest.param("5'-UTR", "5\u2032\u2011UTR", id="a prime"),
    pytest.param("TP53 (p53)", "\uff34\uff30\uff15\uff13\u3000\uff08\uff50\uff15\uff13\uff09", id="full width"),
    pytest.param("istanbul", "\u0130stanbul", id="a dotted capital I"),
    pytest.param("istanbul", "i\u0307stanbul", id="what lower() makes of it"),
    pytest.param("istanbul", "I\u0307stanbul", id="a capital I with a dot beside it"),
]
DIFFERENT = [
    pytest.param("105", "10\u2075", id="superscript"),
    pytest.param("x2", "x\u00b2", id="superscript after a letter"),
    pytest.param("1", "\u2460", id="circled"),
    pytest.param("H2O", "H\u2082O", id="subscript"),
    pytest.param("1/2", "\u00bd", id="fraction"),
    pytest.param("fi", "\ufb01", id="ligature"),
    pytest.param("IX", "\u2168", id="Roman number"),
    pytest.param("kirik", "k\u0131r\u0131k", id="dotless i"),
    pytest.param(
        "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", id="U+200C"
    ),
    pytest.param("\U0001f468\U0001f469", "\U0001f468\u200d\U0001f469", id="U+200D"),
    pytest.param("resume", "r\u00e9sum\u00e9", id="accents"),
    pytest.param("BRCA1", "BR\u0421A1", id="a Cyrillic letter"),
    pytest.param("a-b", "a\u2014b", id="an em dash"),
]


def equal_by(rule: str, truth: str, found: str) -> bool:
    """Return whether a rule treats both strings as equal."""
    match rule:
        case "set":
            return SetContainment().check([found], [truth])
        case "set in a list":
            return SetContainment().check([[found]], [[truth]])
        case "list":
            return OrderedMatch(normalize=[]).check([found], [truth])
        case "literal":
            return LiteralMatch().check(found, truth)
        case "part":
            return ContainsAny(substrings=[truth]).check(f"It is {found}, I think", None)
        case "parts":
            return ContainsAll(substrings=[truth, "think"]).check(f"It is {found}, I think", None)
        case "alias":
            return ExactMatch(normalize=[SynonymMap(mapping={truth: "the one"})]).check(found, "the one")
        case "truth of an alias":
            return ExactMatch(normalize=[SynonymMap(mapping={"the one": truth})]).check("the one", found)
        case _:
            return ExactMatch(normalize=[]).check(found, truth)


RULES = ["exact match", "set", "set in a list", "list", "literal", "part", "parts", "alias", "truth of an alias"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("truth", "found"), LOOK_ALIKE)
def test_texts_that_look_alike_are_equal_for_every_rule(rule: str, truth: str, found: str) -> None:
    assert equal_by(rule, truth, found)
    assert equal_by(rule, found, truth)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("truth", "found"), DIFFERENT)
def test_texts_that_say_something_else_stay_different(rule: str, truth: str, found: str) -> None:
    assert not equal_by(rule, truth, found)


@pytest.mark.parametrize(("truth", "found"), [*LOOK_ALIKE, *DIFFERENT])
def test_exact_compares_code_points(truth: str, found: str) -> None:
    for primitive in (ExactMatch(normalize=["exact"]), OrderedMatch(normalize=["exact"])):
        of = (lambda text: text) if isinstance(primitive, ExactMatch) else (lambda text: [text])
        assert not primitive.check(of(found), of(truth))
        assert primitive.check(of(found), of(found))


@pytest.mark.parametrize(
    "others", [["exact", "lowercase"], ["strip", "exact"], ["exact", SynonymMap(mapping={"a": "b"})]]
)
def test_exact_is_refused_beside_other_normalizers(others: list[Any]) -> None:
    with pytest.raises(ValidationError, match="cannot be combined with other normalizers"):
        ExactMatch(normalize=others)


def test_aliases_that_look_alike_must_agree() -> None:
    assert SynonymMap(mapping={"COX-2": "PTGS2", "COX\u20112": "PTGS2"})("COX\u20102") == "PTGS2"
    with pytest.raises(ValidationError, match="occurs more than once with different canonical forms"):
        SynonymMap(mapping={"COX-2": "PTGS2", "COX\u20112": "PTGS1"})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *(("\ufb01brin", "fibrin"), ("\u2460", "1"), ("\u2168", "IX"), ("x\u00b2", "x2"), ("H\u2082O", "H2O")),
        *(("\u2122", "TM"), ("\u33a1", "m2"), ("\u210c", "H"), ("\uff76\uff85", "\u30ab\u30ca"), ("\u2026", "...")),
        *(("10\u2075", "10\u2075"), ("10\u207b\u00b2\u00b3", "10\u207b\u00b2\u00b3"), ("1\u00bd", "1\u00bd")),
        *(
            ("2\u2460", "2\u2460"),
            ("\u00bd5", "\u00bd5"),
            ("10\u2075 m\u00b2", "10\u2075 m2"),
            ("101\u2082", "101\u2082"),
        ),
    ],
)
def test_compatibility_is_the_rest_of_nfkc_except_next_to_digits(written: str, read: str) -> None:
    assert normalize(written, ["compatibility"]) == read


@given(st.text(), st.text(), st.sampled_from([[], ["lowercase", "strip"], ["compatibility"], ["remove_punctuation"]]))
def test_texts_that_are_equal_when_folded_have_one_verdict(text: str, other: str, normalizers: list[str]) -> None:
    primitive = SetContainment(normalize=normalizers)
    for form in (fold(text), unicodedata.normalize("NFD", text), f"\u200b{text}\u00ad"):
        assert primitive.check([form], [other]) == primitive.check([text], [other])
        assert primitive.check([other], [form]) == primitive.check([other], [text])
        assert primitive.check([form], [text])


@given(st.text())
def test_no_normalizer_undoes_folding(text: str) -> None:
    for name in ("lowercase", "strip", "collapse_whitespace", "remove_punctuation", "compatibility"):
        once = normalize(text, [name])
        assert fold(once) == once


@pytest.mark.parametrize(
    ("kept", "others"),
    [
        ("CD4+", ["CD4-", "CD4", "CD4\u2212\u2212"]),
        ("Na+", ["Na-", "Na"]),
        ("-5", ["5", "+5"]),
        ("+5", ["5"]),
        ("1.5", ["15", "1,5"]),
        ("1,200", ["1200", "1.200"]),
        (".5", ["5", "-.5"]),
        ("<0.05", [">0.05", "0.05", "=0.05"]),
        ("< 0.05", ["> 0.05", "0.05"]),
        (">=5", ["<=5", ">5", "=5"]),
        ("5%", ["5"]),
        ("5-10", ["510"]),
        ("1/2", ["12"]),
        ("10:30", ["1030"]),
        ("10^5", ["105"]),
        ("x^2", ["x2"]),
        ("10^-5", ["10^5", "10-5"]),
        ("2*3", ["23"]),
        ("+/-5", ["-5", "5", "+5"]),
        ("1\u00b75", ["15"]),
        ("C++", ["C", "C+"]),
    ],
)
def test_remove_punctuation_keeps_what_tells_values_apart(kept: str, others: list[str]) -> None:
    rule = ExactMatch(normalize=["remove_punctuation"])
    assert rule.check(kept, kept)
    for other in others:
        assert not rule.check(other, kept), other
        assert not rule.check(kept, other), other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("COX-2", "COX2"), ("COX\u20112", "COX2"), ("beta-blocker", "betablocker"), ("IL-2Ra", "IL2Ra")),
        *(("U.S.A.", "USA"), ("Alzheimer's", "Alzheimers"), ("(BCL2)", "BCL2"), ("BCL2.", "BCL2"), ("Fig.5", "Fig5")),
        *(("Dr. House, M.D.", "Dr House MD"), ("a - b", "a  b"), ("5.", "5"), ("$5.00", "5.00"), ("5 %", "5%")),
        *(("< 5", "<5"), ("p = .05,", "p =.05")),
    ],
)
def test_remove_punctuation_removes_the_rest(one: str, other: str) -> None:
    assert ExactMatch(normalize=["remove_punctuation"]).check(one, other)


@pytest.mark.parametrize("written", ["\u221240", "\uff0d40", "\u200b-40", "-\uff14\uff10", "\u00a0-40\u202f"])
def test_numbers_are_read_in_other_code_points(written: str) -> None:
    assert NumericExact().check(written, -40)
    assert NumericRange(max=0).check(written, None)


@pytest.mark.parametrize("written", ["4\u2070", "\u2463", "4\u00bd", "\u0664\u0660"])
def test_other_signs_for_numbers_are_no_numbers(written: str) -> None:
    assert not NumericExact().check(written, 40)


def test_a_pattern_finds_a_value_as_written_and_folded() -> None:
    assert RegexMatch(pattern=r"^COX-2$").check("COX\u20112", None)
    assert RegexMatch(pattern="^COX\u20112$").check("COX\u20112", None)
    assert RegexMatch(pattern="Sj\u00f6gren's").check("Sjo\u0308gren\u2019s syndrome", None)
    assert RegexMatch(pattern="Sjo\u0308gren").check("Sj\u00f6gren", None)
    assert not RegexMatch(pattern="^105$").check("10\u2075", None)


def test_trace_primitives_read_the_text_as_it_is_and_in_nfc() -> None:
    said = "Sjo\u0308gren\u2019s, COX\u20112\u200b"
    assert TraceContains(substring="Sj\u00f6gren").check_trace(said)
    assert TraceContains(substring="sjo\u0308GREN", case_sensitive=False).check_trace(
        unicodedata.normalize("NFC", said)
    )
    assert TraceRegex(pattern="Sj.gren").check_trace(said)
    assert TraceRegex(pattern="o\u0308").check_trace(said)
    assert not TraceContains(substring="COX-2").check_trace(said)
    assert not TraceRegex(pattern="COX-2").check_trace(said)
    assert TraceLength(min=len(said), max=len(said)).check_trace(said)


class Tissue(Enum):
    """Two kinds of tissue."""

    fat = "brown-fat"
    nerve = "caf\u00e9 au lait"


def bound(annotation: Any, rule: Any, truth: object, value: object) -> BaseAnswer:
    """Return the answer in which a judge filled a field of this type with `value`."""
    field = VerifiedField(description="What is said", ground_truth=truth, verify_with=rule)
    declared = {"__annotations__": {"field": annotation}, "field": field, "__module__": __name__}
    answer = type(BaseAnswer)("Answer", (BaseAnswer,), declared)
    return template_of_class(answer).for_question("q").bind({"field": value})


@pytest.mark.parametrize(
    ("annotation", "truth", "value"),
    [
        (Literal["COX-2", "COX-1"], "COX-2", "COX\u20112"),
        (Literal["low", "high"], "high", " HIGH\u00a0"),
        (list[Literal["caf\u00e9", "tea"]], ["caf\u00e9"], ["cafe\u0301"]),
        (Tissue, Tissue.fat, "brown\u2011fat"),
        (Tissue, Tissue.nerve, "cafe\u0301\u00a0au lait"),
        (Literal[1, 2, 3], 3, "3"),
        (Literal[-1, 1], -1, "\u22121"),
        (list[Literal[1, 2, 3]], [2, 3], ["2", 3]),
        (int, -7, "\u22127"),
        (float, 0.5, "\uff10.5"),
    ],
)
def test_typed_fields_are_bound_from_other_code_points(annotation: Any, truth: object, value: object) -> None:
    rule = (
        SetContainment()
        if isinstance(truth, list)
        else NumericExact()
        if annotation in (int, float)
        else LiteralMatch()
    )
    assert bound(annotation, rule, truth, value).verify()


@pytest.mark.parametrize(
    ("annotation", "truth", "value"),
    [
        (Literal[1, 2], 2, "two"),
        (Literal[1, 2], 2, "12"),
        (Literal[1, 2], 2, "1\u00b2"),
        (Literal["BRCA1", "TP53"], "BRCA1", "BR\u0421A1"),
    ],
)
def test_values_that_are_no_choice_are_refused(annotation: Any, truth: object, value: object) -> None:
    with pytest.raises(ValidationError):
        bound(annotation, LiteralMatch(), truth, value)


def test_a_text_among_the_choices_stays_a_text() -> None:
    assert not bound(Literal["2", 2], LiteralMatch(), 2, "2").verify()
