"""The search for an excerpt in a text."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_deep_judgment.excerpt_finder import SearchableText, extract_facts, find_excerpt

TEXT = (
    "Venetoclax binds BCL2, a protein that keeps cells alive.\n\n"
    "    It was approved in 1985 for patients with leukaemia,\n"
    "    and it inhibits BRCA2 in no known tissue.\n"
)
SPACE = [" ", "   ", "\t\t", *(chr(code) for code in range(0x3001) if chr(code).isspace())]
DATA = Path(__file__).parents[4] / "shared" / "data"
FOUND = {
    "exact": [
        ("a protein that keeps cells alive", "a protein that keeps cells alive"),
        ("  BCL2, a protein \n", "BCL2, a protein"),
        ('"approved in 1985"', "approved in 1985"),
    ],
    "spacing": [
        ("patients with leukaemia, and it inhibits", "patients with leukaemia,\n    and it inhibits"),
        ("VENETOCLAX BINDS BCL2", "Venetoclax binds BCL2"),
        ("alive. it was approved", "alive.\n\n    It was approved"),
    ],
    "changed": [
        ("a protien that keeps cells alive", "a protein that keeps cells alive"),
        ("a protein which keeps cells alive", "a protein that keeps cells alive"),
    ],
}
"""By the kind of match: the excerpt, and the passage in the text."""


@pytest.mark.parametrize(
    ("excerpt", "passage", "kind"), [(*pair, kind) for kind, pairs in FOUND.items() for pair in pairs]
)
def test_what_stands_there_is_found_with_its_place(excerpt: str, passage: str, kind: str) -> None:
    match = find_excerpt(excerpt, TEXT)
    assert match is not None
    assert (TEXT[match.start : match.end], match.kind) == (passage, kind)
    assert (match.similarity == 1.0) is (kind != "changed")


def test_case_and_spacing_count_for_nothing_within_punctuation_too() -> None:
    text = 'He said ("Alpha\n   beta gamma"), and left.'
    match = find_excerpt("alpha beta gamma", text)
    assert match is not None
    assert text[match.start : match.end] == "Alpha\n   beta gamma"


def test_a_changed_excerpt_is_found_across_wide_gaps() -> None:
    words = ["one", "protein", "keeps", "many", "cells", "alive"]
    text = f"First of all: {(' ' * 40).join(words)} ."
    match = find_excerpt("one protein keeps many cell alive", text)
    assert match is not None
    assert match.kind == "changed"
    assert text[match.start : match.end].split() == words


@pytest.mark.parametrize(
    ("excerpt", "why"),
    [
        ("", "empty"),
        ("...", "empty"),
        (".", "empty"),
        (",", "empty"),
        ("a", "empty"),
        ('"a."', "empty"),
        ("198", "invented"),
        ("BRCA1", "invented"),
        ("alive cells keeps that protein a", "reordered"),
        ("BCL2 binds Venetoclax, a protein that keeps cells alive", "reordered"),
        ("Aspirin is taken against headaches and fever by many", "invented"),
    ],
)
def test_a_missing_excerpt_is_not_found_with_the_reason(excerpt: str, why: str) -> None:
    searched = SearchableText(TEXT)
    assert searched.find(excerpt) is None
    assert searched.why_missing(excerpt).kind == why


FACTS = "The protein BRCA2 was not found in the samples that were taken at -5 °C in 2016 from the patients in Lyon."


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("2016", "2017"),
        ("BRCA2", "BRCA1"),
        ("not ", ""),
        ("was not", "was"),
        ("-5", "5"),
        ("2016", "216"),
        ("in the", "in no"),
    ],
)
def test_a_changed_number_or_negation_is_not_found(said: str, instead: str) -> None:
    excerpt = FACTS.replace(said, instead, 1)
    searched = SearchableText(f"First of all. {FACTS} And so on, until 2019.")
    assert searched.find(excerpt) is None
    miss = searched.why_missing(excerpt)
    assert miss.kind == "altered"
    assert miss.closest is not None
    assert miss.closest in FACTS
    assert find_excerpt(excerpt, FACTS, exact_facts=False) is not None


@pytest.mark.parametrize(
    ("excerpt", "passage"),
    [
        ("a proteins which keep cells alive", "a protein that keeps cells alive"),
        ("It was aproved in 1985, by the agency in Lyon", "It was approved in 1985 by the agency of Lyon"),
        ("The drug doesn't bind to the receptors", "The drug does not bind to the receptor"),
        (
            "in 1985 it was approved for the patient with leukaemia",
            "in 1985 it was first approved for patients with leukaemia",
        ),
    ],
)
def test_facts_of_neighbours_do_not_count(excerpt: str, passage: str) -> None:
    text = f"Of BCL2 and 3, not of BRCA1: {passage} 7, no more."
    match = find_excerpt(excerpt, text, 0.7)
    assert match is not None
    assert extract_facts(text[match.start : match.end]) == extract_facts(excerpt)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("It isn't 3.5, and cannot be \u22122 or 1,000 in BCL-2.", ["not", "3.5", "not", "-2", "1,000", "2"]),
        ("Es wurde nicht vor 1985-1990 gefunden, also nie.", ["nicht", "1985", "1990", "nie"]),
        ("该药未于1985年获批", ["未", "1985"]),
        ("note knot none-such", ["none"]),
    ],
)
def test_numbers_and_negations_are_facts(text: str, facts: list[str]) -> None:
    assert extract_facts(text) == facts


def test_a_miss_names_the_passage_that_comes_nearest() -> None:
    miss = SearchableText(TEXT).why_missing("cells alive keeps that protein")
    assert miss.closest == "protein that keeps cells alive"


def test_the_threshold_decides_how_much_may_differ() -> None:
    loose = "a proteins which would keep the cells alive"
    found = find_excerpt(loose, TEXT, 0.6)
    assert found is not None
    assert 0.6 <= found.similarity < 0.9
    assert find_excerpt(loose, TEXT, 0.9) is None


def test_an_excerpt_longer_than_the_text_is_none_of_it() -> None:
    assert find_excerpt(TEXT + " And so on, for a long while, with other words.", "Venetoclax binds BCL2") is None


def test_scripts_without_spaces_between_words_are_quoted_anywhere() -> None:
    match = find_excerpt("于1985年获", "该药于1985年获批。")
    assert match is not None
    assert match.kind == "exact"


@given(st.text(max_size=60), st.text(alphabet="ab \n\tÄß日", min_size=1, max_size=20), st.text(max_size=60))
def test_every_match_is_in_the_text_with_its_similarity(before: str, excerpt: str, after: str) -> None:
    text, quoted = f"{before} {excerpt} {after}", excerpt.strip()
    match = find_excerpt(excerpt, text)
    assert (match is not None) is (len(quoted) > 1 or (quoted != "" and not quoted.islower()) or quoted == text.strip())
    if match is not None:
        assert 0 <= match.start < match.end <= len(text)
        assert match.kind == "exact"
        assert text[match.start : match.end] == excerpt.strip()


@given(st.lists(st.sampled_from(["Gene", "BCL2", "straße", "of", "1985", "ﬁne"]), min_size=3, max_size=12), st.data())
def test_white_space_and_case_never_hide_a_passage(words: list[str], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.sampled_from(SPACE), min_size=len(words), max_size=len(words)))
    text = "Before it. " + "".join(word + gap for word, gap in zip(words, gaps, strict=True)) + "After it."
    match = find_excerpt(" ".join(words).upper(), text)
    assert match is not None
    assert match.similarity == 1.0
    assert text[match.start : match.end].split() == words


# ---- recorded responses


def recorded() -> list[str]:
    rows = [json.loads(line) for line in (DATA / "halueval_general_600.jsonl").read_text("utf-8").splitlines()]
    return [row["response"] for row in rows if len(row["response"].split()) >= 40]


@pytest.mark.skipif(
    not (DATA / "halueval_general_600.jsonl").is_file(),
    reason="needs data/halueval_general_600.jsonl of the shared folder beside the repository",
)
def test_excerpts_of_recorded_responses_are_classified() -> None:
    chance = random.Random(3)
    texts = recorded()
    right: Counter[str] = Counter()
    for text in texts:
        words = text.split()
        first = chance.randrange(len(words) - 20)
        part = words[first : first + 20]
        slips = list(part)
        slips[5] += "s"
        turned = slips[12][::-1]
        slips[12] = turned if not extract_facts(slips[12]) and not extract_facts(turned) else slips[12]
        halves = part[10:] + part[:10]
        other = chance.choice([one for one in texts if one is not text]).split()
        foreign = " ".join(other[:20])
        searched = SearchableText(text)
        right["found"] += (match := searched.find(" ".join(part))) is not None and match.similarity == 1.0
        right["changed"] += searched.find(" ".join(slips)) is not None
        right["reordered"] += searched.find(" ".join(halves)) is None
        right["invented"] += foreign in text or searched.find(foreign) is None
    assert len(texts) > 200
    assert right["found"] == len(texts)
    assert right["changed"] >= 0.97 * len(texts)
    assert right["reordered"] >= 0.97 * len(texts)
    assert right["invented"] >= 0.99 * len(texts)


@pytest.mark.parametrize(
    ("excerpt", "text"),
    [("A", "I choose A, a protein."), ("a", "a"), ("+", " + "), ("5", "It is 5."), ("\u4e94", "\u662f\u4e94\u3002")],
)
def test_an_option_or_a_whole_text_of_one_character_is_found(excerpt: str, text: str) -> None:
    match = find_excerpt(excerpt, text)
    assert match is not None
    assert text[match.start : match.end] == excerpt
