"""Tests of stats."""

from stats import mean


def test_mean_of_two_numbers() -> None:
    """The mean of two numbers lies between them."""
    assert mean([1, 2]) == 1.5
