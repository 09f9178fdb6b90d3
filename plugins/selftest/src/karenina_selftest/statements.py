"""Sentences that state, deny or avoid the values of a template's fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from karenina_template.templates.bound_template import as_json

if TYPE_CHECKING:
    from karenina_template.templates import BoundTemplate

FILLER: Final = (
    "Before the answer, some words on the background. The subject has been studied for a long time, by many groups. "
    "Their methods differ, and so do their reports. Most of them agree on the main points, though, and the details are "
    "easy to look up. "
)
ABSENT: Final = (
    "This is a subject on which much has been written. It has a long history, several schools, and a literature that "
    "grows from year to year. I will not commit myself to an answer here."
)


def say(value: object) -> str | None:
    """Return a value in words; None for one that no short text states, such as a nested object or an empty list."""
    if isinstance(value, Enum):
        value = value.value
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value.strip() or None
        case int() | float():
            return repr(value)
        case date():
            return value.isoformat()
        case list() | tuple() | set() | frozenset():
            parts = [say(one) for one in as_json(value)]
            return ", ".join(part for part in parts if part) if parts and all(parts) else None
        case _:
            text = as_json(value)
            return text if isinstance(text, str) and text else None


def labels(bound: BoundTemplate) -> dict[str, str]:
    """Return a label of each field that a judge fills: its description, or its name."""
    schema: Mapping[str, Any] = bound.judge_schema()["properties"]
    return {name: _label(name, str(schema[name].get("description") or "")) for name in bound.judge_fields}


def state(labels: Mapping[str, str], said: Mapping[str, str], prefix: str = "") -> str:
    """Return one line for each field with its value in words."""
    return "\n".join(f"{labels[name]}: {prefix}{value}" for name, value in said.items())


def _label(name: str, description: str) -> str:
    text = description.strip().rstrip(".:")
    return text if text else name.replace("_", " ")
