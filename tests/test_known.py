"""What the core says about who owns what is what the members declare."""

from __future__ import annotations

from pathlib import Path

from karenina_core.known import known
from karenina_core.testing.known import members, survey

CHECKOUT = Path(__file__).parents[1]


def test_the_file_of_owners_is_up_to_date() -> None:
    """Mend it with `python -m karenina_core.testing.known`, whose output is the file."""
    assert survey(members(CHECKOUT)) == known()
