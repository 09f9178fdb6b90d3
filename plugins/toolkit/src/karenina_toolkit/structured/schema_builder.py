"""The shape of what judges fill: objects whose keys are all demanded, in the order in which they are filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON Schema of an object that has exactly these keys, each with its own schema.

    A judge fills the keys in their order, so what it reasons with stands before what it decides.
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
