"""Report unknown keys: suggest the known key that was probably meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def suggest_key(key: str, known: Collection[str], otherwise: str) -> str:
    """Return the question whether the most similar of the `known` keys was meant; `otherwise` if none is similar."""
    similar = get_close_matches(key, known, n=1)
    return f"did you mean {similar[0]!r}?" if similar else otherwise
