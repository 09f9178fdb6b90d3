"""Counts with their nouns."""

from __future__ import annotations

import pytest

from karenina_toolkit.printable import quantity


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "patch", "1 patch"),
        (8, "patch", "8 patches"),
        (2_000, "open call", "2,000 open calls"),
        (0, "reply", "0 replies"),
        (2, "key", "2 keys"),
        (2, "class", "2 classes"),
    ],
)
def test_nouns_have_their_usual_plural(count: int, noun: str, text: str) -> None:
    assert quantity(count, noun) == text
