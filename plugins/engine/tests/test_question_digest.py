"""Tests of the digest of a question: it changes with everything that decides a result, and nothing else."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from karenina_core.data.question import FewShotExample, Question
from karenina_core.data.rubrics import CallableRubricTrait, DynamicRubric, RegexRubricTrait, Rubric, UnknownTrait
from karenina_engine.journal.fingerprint import digest_question

BASE: dict[str, Any] = {"id": "q", "question": "What is long?"}
TRAIT = RegexRubricTrait(name="long", pattern="long", summary="length")


def unknown(weight: float | None) -> Rubric:
    return Rubric(other_traits=[UnknownTrait(type="weighed", name="w", weight=weight)])


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"id": "p"},
    {"question": "What is short?"},
    {"raw_answer": "this"},
    {"raw_answer": ""},
    {"answer_template": "class Answer(BaseAnswer):\n    x: int"},
    {"answer_template": "class Answer(BaseAnswer):\n    y: int"},
    {"keywords": ("a",)},
    {"keywords": ("a", "b")},
    {"few_shot_examples": (FewShotExample(question="a", answer="b"),)},
    {"few_shot_examples": (FewShotExample(question="a", answer="c"),)},
    {"few_shot_examples": (FewShotExample(question="a", answer="half \ud800"),)},
    {"few_shot_examples": (FewShotExample(question="a", answer="half \ud801"),)},
    {"rubric": Rubric(regex_traits=[TRAIT])},
    {"rubric": Rubric(regex_traits=[TRAIT.model_copy(update={"pattern": "short"})])},
    {"rubric": Rubric(callable_traits=[CallableRubricTrait(name="long", function="os.path:exists")])},
    {"rubric": unknown(None)},
    {"rubric": unknown(float("nan"))},
    {"rubric": unknown(float("inf"))},
    {"rubric": unknown(1.5)},
    {"dynamic_rubric": DynamicRubric(regex_traits=[TRAIT])},
    {"workspace_path": "folder"},
    {"author": "somebody"},
    {"sources": "somebody"},
    {"sources": ["somebody"]},
    *({"metadata": {"x": value}} for value in (None, float("nan"), float("inf"), -float("inf"), "NaN", 1, 1.5, True)),
    {"metadata": {"x": "half \ud800"}},
    {"metadata": {"x": "half \ud801"}},
    {"unread": {"x": None}},
]


def digest(changes: dict[str, Any]) -> bytes:
    return digest_question(Question(**{**BASE, **changes}))


def test_questions_that_differ_in_anything_have_digests_that_differ() -> None:
    same = [(one, other) for one, other in combinations(DIFFERENT, 2) if digest(one) == digest(other)]
    assert same == []


@pytest.mark.parametrize("changes", DIFFERENT, ids=lambda changes: ascii(changes)[:40])
def test_digest_of_a_question_ignores_its_dates(changes: dict[str, Any]) -> None:
    assert digest(changes) == digest({**changes, "date_created": "2026-01-02", "date_modified": "2026-01-03"})
