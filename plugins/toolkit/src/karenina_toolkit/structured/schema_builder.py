"""Build schemas for judges: objects with required keys, in the order in which they are filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of an object that has exactly these keys, each with its own schema.

    A judge fills the keys in their order, so its reasoning must come before its decision.
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
