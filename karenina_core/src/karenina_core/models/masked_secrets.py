"""Masked secrets, which dumps of a configuration contain in place of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_MASK: Final = "*" * 10  # what pydantic writes


def refuse_mask(value: Any) -> Any:
    """Return `value`. Raises `ValueError` if it is or contains a masked secret."""
    if masked := next((place for place, text in _texts(value) if _MASK in text), None):
        raise ValueError(
            f"{masked} is a masked secret ({_MASK}) from a dump of a configuration: remove it, so that the key is "
            "taken from the environment, or write the secret itself"
        )
    return value


def _texts(value: Any, place: str = "it") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(one, f"{key}" if place == "it" else f"{place}.{key}")
