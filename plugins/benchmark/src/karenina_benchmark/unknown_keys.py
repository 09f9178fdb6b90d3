"""Report unknown keys: suggest the known key that was probably meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the most similar of the `known` keys; None if none is similar."""
    return next(iter(get_close_matches(key, known, n=1)), None)


def suggest_key(key: str, known: Collection[str], otherwise: str) -> str:
    """Return the question whether the most similar of the `known` keys was meant; `otherwise` if none is similar."""
    nearest = nearest_key(key, known)
    return f"did you mean {nearest!r}?" if nearest is not None else otherwise
