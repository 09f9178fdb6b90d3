"""`unread`: what a checkpoint says that this version does not know, and whether a checkpoint can hold it once more."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

Keys = Set[str]


def check_unread(unread: Mapping[str, Any], taken: Keys, objects: Mapping[str, Keys], *, others: bool = True) -> None:
    """Raise `ValueError` for what would replace other values of a checkpoint, or be lost in it.

    `taken` are keys that it cannot have. `objects` are those whose values are objects, with the keys that these cannot
    have. Without `others` it has no keys but `objects` and `properties`.
    """
    for key, value in unread.items():
        if key in taken or not (others or key in objects or key == "properties"):
            raise ValueError(f"`unread` holds {key!r}, for which a checkpoint has no place; remove it")
        if key == "properties" and not isinstance(value, list):
            raise ValueError("`unread.properties` must be a list")
        if key not in objects:
            continue
        if not isinstance(value, Mapping):
            raise ValueError(f"`unread.{key}` must be an object")  # noqa: TRY004 - a problem of the data
        both = sorted(objects[key] & value.keys())
        if both:
            raise ValueError(f"`unread.{key}` holds {both[0]!r}, for which a checkpoint has no place; remove it")
