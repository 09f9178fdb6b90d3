"""Masked secrets, which a dump of a configuration holds in place of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_MASK: Final = "*" * 10  # what pydantic writes


def refuse_mask(value: Any) -> Any:
    """Return `value`. Raises `ValueError` if it is or holds a masked secret."""
    if any(_MASK in text for text in _texts(value)):
        raise ValueError(
            f"a masked secret ({_MASK}), as a dump of a configuration shows it: remove it, so that the environment "
            "gives the key, or write the secret itself"
        )
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
