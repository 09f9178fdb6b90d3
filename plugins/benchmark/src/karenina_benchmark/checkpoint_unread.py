"""Checkpoint content unknown to this version: whether it can be saved again, and the mark for unfinished questions."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

Keys = Set[str]

FINISHED: Final = "finished"
"""The property that marks finished questions in the reference's checkpoints; where it is false, a run skips them."""


def check_unread(unread: Mapping[str, Any], taken: Keys, objects: Mapping[str, Keys], *, others: bool = True) -> None:
    """Raise `ValueError` if `unread` would overwrite other values in a checkpoint, or be lost when it is saved.

    `taken` are the keys that `unread` must not have. `objects` maps each key whose value is an object to the keys that
    this object must not have. If `others` is false, `unread` may only have the keys of `objects`, and `properties`.
    """
    for key, value in unread.items():
        if key in taken or not (others or key in objects or key == "properties"):
            raise ValueError(f"`unread` holds {key!r}, which cannot be saved in a checkpoint; remove it")
        if key == "properties" and not isinstance(value, list):
            raise ValueError("`unread.properties` must be a list")
        if key not in objects:
            continue
        if not isinstance(value, Mapping):
            raise ValueError(f"`unread.{key}` must be an object")  # noqa: TRY004 - a problem of the data
        clashes = sorted(objects[key] & value.keys())
        if clashes:
            raise ValueError(f"`unread.{key}` holds {clashes[0]!r}, which cannot be saved in a checkpoint; remove it")


def is_unfinished(unread: Mapping[str, Any]) -> bool:
    """Return whether a question's unknown content marks the question with `finished: false`."""
    properties = unread.get("properties")
    return isinstance(properties, list) and any(
        isinstance(one, dict) and one.get("name") == FINISHED and one.get("value") is False for one in properties
    )
