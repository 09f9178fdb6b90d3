"""Masked secrets, which dumps of a configuration contain in place of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_MASK: Final = "*" * 10  # what pydantic writes


def refuse_mask(value: Any) -> Any:
    """Return `value`. Raises `ValueError` if it is or contains a masked secret."""
    if any(_MASK in text for text in _texts(value)):
        raise ValueError(
            f"a masked secret ({_MASK}) from a dump of a configuration: remove it, so that the key is taken from the "
            "environment, or write the secret itself"
        )
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
