"""Verifiable instructions as rubric traits: patterns if possible, else a few lines of trusted source.

The instruction types are those of IFEval; what each demands is said here in this project's own words and code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from karenina_core.data.rubrics import CallableRubricTrait, RegexRubricTrait, RubricTrait

Kwargs = Mapping[str, Any]

ANY_TEXT = r"[\s\S]*?"
NOTHING = r"\A\s*\Z"
"""An empty answer follows no instruction, not even one to leave something out."""


def traits_for(name: str, instruction: str, kwargs: Kwargs) -> RubricTrait | None:
    """Return the trait `name` that holds an answer to the instruction; None for a type that no trait here speaks of."""
    if instruction in PATTERNS:
        return RegexRubricTrait(name=name, **PATTERNS[instruction](kwargs))
    if instruction in SOURCES:
        return CallableRubricTrait(name=name, source=SOURCES[instruction](kwargs))
    return None


def times(piece: str, number: int) -> str:
    """Return a pattern for `piece` found at least `number` times, without overlap."""
    return rf"\A(?>{ANY_TEXT}(?:{piece})){{{number}}}"


def without(pattern: str) -> dict[str, Any]:
    """Return `pattern` must not be found."""
    return {"pattern": f"{NOTHING}|{pattern}", "case_sensitive": False, "invert_result": True}


def compare_count(piece: str, relation: str, number: int) -> dict[str, Any]:
    """Return `piece` is found at least, or less than, so many times."""
    many = times(piece, number)
    return without(many) if relation == "less than" else {"pattern": many, "case_sensitive": False}


def _postscript(kwargs: Kwargs) -> dict[str, Any]:
    marker = kwargs["postscript_marker"]
    loose = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}.get(marker, re.escape(marker))
    return {"pattern": loose, "case_sensitive": False}


PATTERNS: Mapping[str, Callable[[Kwargs], dict[str, Any]]] = {
    "combination:repeat_prompt": lambda kwargs: {
        "pattern": r"\A\s*" + re.escape(kwargs["prompt_to_repeat"].strip()),
        "case_sensitive": False,
    },
    "detectable_content:number_placeholders": lambda kwargs: {"pattern": times(r"\[.*?\]", kwargs["num_placeholders"])},
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": lambda _: {"pattern": r"My answer is (?:yes|no|maybe)\."},
    "detectable_format:multiple_sections": lambda kwargs: {
        "pattern": times(rf"{re.escape(kwargs['section_spliter'])}\s?\d+", kwargs["num_sections"])
    },
    "detectable_format:title": lambda _: {"pattern": r"<<[^\n]*[^\s<>][^\n]*>>"},
    "keywords:existence": lambda kwargs: {
        "pattern": r"\A" + "".join(rf"(?=[\s\S]*{re.escape(word)})" for word in kwargs["keywords"]),
        "case_sensitive": False,
    },
    "keywords:forbidden_words": lambda kwargs: without(
        rf"\b(?:{'|'.join(map(re.escape, kwargs['forbidden_words']))})\b"
    ),
    "keywords:frequency": lambda kwargs: compare_count(
        re.escape(kwargs["keyword"]), kwargs["relation"], kwargs["frequency"]
    ),
    "keywords:letter_frequency": lambda kwargs: compare_count(
        re.escape(kwargs["letter"]), kwargs["let_relation"], kwargs["let_frequency"]
    ),
    "punctuation:no_comma": lambda _: without(","),
    "startend:end_checker": lambda kwargs: {
        "pattern": re.escape(kwargs["end_phrase"].strip()) + r'"*\s*\Z',
        "case_sensitive": False,
    },
    "startend:quotation": lambda _: {"pattern": r'\A\s*"[\s\S]*"\s*\Z'},
}


def _highlights(kwargs: Kwargs) -> str:
    return f"""
import re

def highlights(text):
    single = [part for part in re.findall(r"\\*[^\\n*]*\\*", text) if part.strip("* ")]
    double = [part for part in re.findall(r"\\*\\*[^\\n*]*\\*\\*", text) if part.strip("* ")]
    return len(single) + len(double) >= {kwargs["num_highlights"]}
"""


def _bullets(kwargs: Kwargs) -> str:
    return f"""
import re

def bullets(text):
    stars = re.findall(r"^\\s*\\*[^*].*$", text, re.M)
    dashes = re.findall(r"^\\s*-.*$", text, re.M)
    return len(stars) + len(dashes) == {kwargs["num_bullets"]}
"""


def _words(kwargs: Kwargs) -> str:
    compare = {"at least": ">=", "less than": "<"}[kwargs["relation"]]
    return f"""
import re

def words(text):
    return bool(text.strip()) and len(re.findall(r"\\w+", text)) {compare} {kwargs["num_words"]}
"""


def _paragraphs(kwargs: Kwargs) -> str:
    return f"""
import re

def paragraphs(text):
    parts = [bool(part.strip()) for part in re.split(r"\\s?\\*\\*\\*\\s?", text)]
    return all(parts[1:-1]) and sum(parts) == {kwargs["num_paragraphs"]}
"""


def _first_word(kwargs: Kwargs) -> str:
    return f"""
import re

def first_word(text):
    paragraphs = text.split("\\n\\n")
    filled = sum(bool(part.strip()) for part in paragraphs)
    nth, word = {kwargs["nth_paragraph"]}, {kwargs["first_word"].lower()!r}
    if filled != {kwargs["num_paragraphs"]} or nth > filled or not paragraphs[nth - 1].strip():
        return False
    first = paragraphs[nth - 1].split()[0].lstrip("'").lstrip('"')
    return re.split("[.,?!'\\"]", first)[0].lower() == word
"""


TWO = """
def two(text):
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]
"""
JSON = """
import json
import re

def is_json(text):
    bare = re.sub(r"^```(json|Json|JSON)?|```$", "", text.strip()).strip()
    try:
        json.loads(bare)
    except ValueError:
        return False
    return True
"""

SOURCES: Mapping[str, Callable[[Kwargs], str]] = {
    "combination:two_responses": lambda _: TWO,
    "detectable_format:json_format": lambda _: JSON,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:number_highlighted_sections": _highlights,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": _words,
    "change_case:english_capital": lambda _: "def upper(text):\n    return text.isupper()\n",
    "change_case:english_lowercase": lambda _: "def lower(text):\n    return text.islower()\n",
}
