"""The work for a column of right answers grows with the number of its answers, not with its square."""

from __future__ import annotations

import sys

import pytest

from karenina_benchmark.tables.answer_kinds import Cell
from karenina_benchmark.tables.declare_answers import declare_answers


def count_calls(answers: int, type: str | None) -> int:
    """Return the number of function calls needed to declare this many answers."""
    cells = [Cell(f"{number} kg", f"How heavy is {number}?") for number in range(answers)]
    calls = 0

    def count(*_event: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        declare_answers(cells, types=None if type is None else [type] * answers)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("type", [None, "number", "text"])
def test_twice_the_answers_take_twice_the_work(type: str | None) -> None:
    count_calls(10, type)  # caches and imports

    assert count_calls(400, type) < 2.5 * count_calls(200, type)
