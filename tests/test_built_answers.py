"""The benchmark of built answers: what it builds, and that the right verdicts are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

QUESTIONS = ("who wrote the march", "where is the mill", "which river is longest", "who leads the choir")
ROWS = [
    {"question": question, "gold": [gold], "response": response, "human_label": label}
    for question, gold, wrong in zip(
        QUESTIONS,
        ("Ada Lunt", "Old Harwick", "the Tove", "Per Dahl"),
        ("Bo Strand", "Nantley", "Isse", "Eva Roth"),
        strict=True,
    )
    for response, label in ((gold, True), (wrong, False))
] + [{"question": "when did it open", "gold": ["March 3, 1984"], "response": "in 1984", "human_label": True}]


@pytest.fixture(scope="module")
def builder() -> Iterator[ModuleType]:
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import answer_builder

        yield answer_builder
    finally:
        sys.path.remove(folder)


def test_the_parts_share_neither_questions_nor_wordings(builder: ModuleType) -> None:
    answers = builder.build(ROWS)
    by_part = {part: {one.question for one in answers if one.part == part} for part in ("choose", "report")}
    assert all(by_part.values())
    assert not by_part["choose"] & by_part["report"]
    for wordings in builder.WORDINGS.values():
        assert len(wordings["choose"]) >= 30
        assert len(wordings["report"]) >= 12
        assert not set(wordings["choose"]) & set(wordings["report"])


def test_an_answer_is_right_if_it_commits_to_the_truth(builder: ModuleType) -> None:
    answers = builder.build(ROWS)
    assert answers == builder.build(ROWS)
    assert {one.kind for one in answers} == {*builder.WORDINGS, "other units"}
    for one in answers:
        if one.kind in builder.WORDINGS:
            assert one.plain or not one.right, "a right answer contains the truth"
    assert not any(one.right for one in answers if one.kind == "negated")
    for kind in {*builder.WORDINGS} - {"negated"}:
        verdicts = [one.right for one in answers if one.kind == kind]
        assert sum(verdicts) * 2 == len(verdicts)


def test_dates_and_numbers_are_written_differently(builder: ModuleType) -> None:
    dated = [one for one in builder.build(ROWS) if one.kind == "other units"]
    assert {one.right for one in dated} == {True, False}
    assert not any("March 3, 1984" in one.text for one in dated)
    assert all("1984-03-03" in one.template for one in dated)
