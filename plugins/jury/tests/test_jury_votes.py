"""Values that say the same are one vote, whatever their case, spaces, punctuation or order."""

from __future__ import annotations

import pytest

from karenina_jury.votes import comparable

pytestmark = pytest.mark.alone


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BCL2", " bcl2. "),
        ("two  words", "Two words"),
        ('"quoted"', "quoted"),
        ("\ufb01ne", "fine"),
        (5, 5.0),
        (["b", "A"], ["a", "B"]),
        ({"x": 1, "y": "A"}, {"y": "a", "x": 1.0}),
        (None, None),
        (float("nan"), float("nan")),
        ("...", "..."),
    ],
)
def test_equal_values_are_one_vote(one: object, other: object) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BCL2", "BCL-2"),
        ("5", 5),
        (True, 1),
        (False, None),
        ("", None),
        ("-5", "5"),
        (["a", "a"], ["a"]),
        (2**53, 2**53 + 1),
        ("...", "!"),
    ],
)
def test_other_values_are_other_votes(one: object, other: object) -> None:
    assert comparable(one) != comparable(other)
