"""Functions of the caller's own process, and what a function may return."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
from rubric_runs import ANSWER, score

from karenina_core.data.rubrics import CallableRubricTrait, Rubric
from karenina_core.data.trust import Trust
from karenina_rubric.computed_traits import compute_score

CLASSES = {"short": "Up to ten words.", "long": "More."}


def local() -> Callable[[str], bool]:
    """A function without an import path."""

    def has_doi(text: str) -> bool:
        import re

        return re.search("doi:", text) is not None

    return has_doi


def of_a_file(function: Callable[[str], Any], **fields: Any) -> CallableRubricTrait:
    """The trait as a file has it: without the function itself."""
    made = CallableRubricTrait.from_callable("c", function, **fields)
    return CallableRubricTrait.model_validate(made.model_dump())


# ---- whose the function is


@pytest.mark.parametrize("function", [local(), os.path.isabs], ids=["local", "of Python's own library"])
def test_a_function_of_this_process_needs_no_trust(function: Callable[[str], bool]) -> None:
    trait = CallableRubricTrait.from_callable("c", function)
    found = score(trait)
    assert found.field("callable_trait_scores") == {"c": function(ANSWER)}
    assert found.field("trait_errors") is None


@pytest.mark.parametrize("function", [local(), os.path.isabs], ids=["local", "of Python's own library"])
def test_the_same_function_in_a_file_needs_trust(function: Callable[[str], bool]) -> None:
    trait = of_a_file(function)
    assert score(trait).field("callable_trait_scores") == {"c": None}
    assert score(trait, trust=Trust.all()).field("callable_trait_scores") == {"c": function(ANSWER)}


def test_a_function_stays_with_its_trait_in_merged_rubrics() -> None:
    trait = CallableRubricTrait.from_callable("c", local())
    (merged,) = Rubric.merge(Rubric.of(trait), None).callable_traits
    assert compute_score(merged, ANSWER, Trust()) is True


def test_a_trait_equals_that_of_its_file() -> None:
    assert CallableRubricTrait.from_callable("c", local()) == of_a_file(local())
    assert of_a_file(local()) != of_a_file(local(), invert_result=True)


# ---- functions that do not stand alone


def with_a_name_of_the_module() -> Callable[[str], bool]:
    def has_doi(text: str) -> bool:
        return bool([1 for word in text.split() if re.match("doi:", word)])

    return has_doi


def with_a_name_around_it(pattern: str = "doi:") -> Callable[[str], bool]:
    def has_doi(text: str) -> bool:
        return pattern in text

    return has_doi


def with_a_decorator() -> Callable[[str], bool]:
    @lru_cache
    def has_doi(text: str) -> bool:
        return "doi:" in text

    return has_doi


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (with_a_name_of_the_module(), "cannot be imported, and its source uses re from its module"),
        (with_a_name_around_it(), "cannot be imported, and its source uses pattern from its module"),
        (with_a_decorator(), "cannot be imported, and its source uses lru_cache from its module"),
        (lambda text: "doi:" in text, "has neither an import path nor source code of its own"),
        (partial(lambda word, text: word in text, "doi:"), "has neither an import path nor source code of its own"),
        (eval("lambda text: 'doi:' in text"), "has neither an import path nor source code of its own"),
    ],
    ids=["module", "closure", "decorator", "lambda", "partial", "no source"],
)
def test_a_function_that_needs_other_names_scores_answers(function: Callable[[str], bool], why: str) -> None:
    trait = CallableRubricTrait.from_callable("c", function)

    assert score(trait).field("callable_trait_scores") == {"c": function(ANSWER)}
    assert why in str(trait.unsaved)


def of_two(text: str, word: str) -> bool:
    return word in text


@pytest.mark.parametrize("function", [of_two, lambda: True, int.__add__], ids=["two", "none", "of C"])
def test_a_function_that_cannot_take_the_text_is_refused_when_made(function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="'c' cannot be called with only the answer text: "):
        CallableRubricTrait.from_callable("c", function)


def test_an_importable_function_may_use_its_module() -> None:
    assert CallableRubricTrait.from_callable("c", has_a_doi).function == f"{__name__}:has_a_doi"


def has_a_doi(text: str) -> bool:
    return re.search("doi:", text) is not None


def test_attributes_annotations_and_recursion_are_no_names_of_the_module() -> None:
    def count(text: Path) -> int:
        return text.re.count(CLASSES=2) if len(text) > 10**9 else 0 if not text else 1 + count(text[1:])  # type: ignore

    source = CallableRubricTrait.from_callable("c", count, kind="score").source
    assert source is not None
    assert source.startswith("def count")


# ---- what a function returns


@pytest.mark.parametrize("given", [0.25, 1.0, 0, 1])
def test_a_score_may_be_any_number(given: float) -> None:
    trait = CallableRubricTrait.from_callable("c", returning(given), kind="score", min_score=0, max_score=1)
    assert score(trait).field("callable_trait_scores") == {"c": given}


def test_a_literal_trait_has_position_and_label_of_the_class() -> None:
    trait = CallableRubricTrait.from_callable("c", returning("long"), kind="literal", classes=CLASSES)
    found = score(trait)
    assert found.field("callable_trait_scores") == {"c": 1}
    assert found.field("callable_trait_labels") == {"c": "long"}


@pytest.mark.parametrize(
    ("given", "fields", "says"),
    [
        (
            1.5,
            {"kind": "score", "min_score": 0, "max_score": 1},
            "returned 1.5, but the score of the trait must be from 0 to 1",
        ),
        (float("nan"), {"kind": "score"}, "a score trait requires a number"),
        (True, {"kind": "score"}, "a score trait requires a number"),
        ("medium", {"kind": "literal", "classes": CLASSES}, "returned 'medium', but the trait's classes are short, lo"),
        (1, {"kind": "literal", "classes": CLASSES}, "returned 1, but the trait's classes are"),
    ],
)
def test_what_does_not_fit_the_kind_is_no_score(given: Any, fields: Any, says: str) -> None:
    found = score(CallableRubricTrait.from_callable("c", returning(given), **fields))
    assert found.field("callable_trait_scores") == {"c": None}
    assert says in found.field("trait_errors")["c"]


def returning(value: Any) -> Callable[[str], Any]:
    """A function of this process that returns `value`."""

    def returns(text: str) -> Any:
        return value

    returns.__qualname__ = "has_a_doi"  # it counts as importable, and is called as it was given
    return returns
