"""Scores given by a judge: their JSON Schema, their description in prompts, and how they are parsed.

All evaluators that use a judge share this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from karenina_core.data.rubrics.base import ScaledTrait
from karenina_toolkit.structured import InvalidReply

Json = dict[str, Any]

_MEANING: Final = "The score that follows from the reasoning."
_DEFINITIONS: Final = ("$defs", "definitions")
_DROPPED: Final = ("title", "default", "examples", *_DEFINITIONS)
_BY_NAME: Final = ("properties", "patternProperties")
_LITERALLY: Final = ("enum", "const", "required")


class Score(NamedTuple):
    """The score of a trait: a bool, an integer, an object, or the position of a class with its `label`."""

    value: bool | int | Json
    label: str | None = None


class ScoreSchema(NamedTuple):
    """The JSON Schema of a score, and the definitions that it refers to.

    The references point to `$defs` at the root, so call `complete` with the whole schema when it is finished.
    """

    schema: Json
    definitions: Json

    def complete(self, whole: Json) -> Json:
        """Add the definitions to `whole`, which is a schema that contains the schema of the score."""
        return with_definitions(whole, self.definitions)


def score_schema(trait: ScaledTrait, *, prefix: str = "") -> ScoreSchema:
    """Return the schema of a trait's score. Bounds are only described, because some servers refuse `minimum`, and a
    template's schema is stripped of titles, defaults and examples. To combine several traits in one schema, use a
    different `prefix` for each.

    In a template's schema, all keys are required, and other keys are forbidden unless the template allows them.
    """
    if trait.kind == "boolean":
        return ScoreSchema({"type": "boolean", "description": _MEANING}, {})
    if trait.kind == "score":
        # The bounds are in the description: some servers refuse `minimum`, and the reply is checked anyway.
        bounds = f"{_MEANING} From {trait.min_score} to {trait.max_score}."
        return ScoreSchema({"type": "integer", "description": bounds}, {})
    if trait.kind == "literal":
        return ScoreSchema({"type": "string", "enum": list(trait.class_names), "description": _MEANING}, {})
    template = trait.template_schema or {}
    own = {name: part for part_of in _DEFINITIONS for name, part in _mapping(template.get(part_of)).items()}
    definitions = {prefix + name: _clean_schema(part, prefix) for name, part in own.items()}
    return ScoreSchema(_clean_schema(template, prefix), definitions)


def with_definitions(schema: Json, definitions: Json) -> Json:
    """Add `definitions` to a schema as `$defs`. If there are none, the schema is returned unchanged."""
    return {**schema, "$defs": definitions} if definitions else schema


def read_score(trait: ScaledTrait, given: Any) -> Score:
    """Convert a judge's value that matches `score_schema(trait)` to a score, which for a class is its index with its
    name as the label. Raises `InvalidReply` for null and for numbers out of range, which the schema does not exclude.
    The error message is sent to the judge.
    """
    if given is None:
        raise InvalidReply("score must not be null")
    if trait.kind == "literal":
        return Score(trait.class_names.index(given), given)
    if trait.kind != "score":
        return Score(given)
    score = int(given)
    assert trait.min_score is not None
    assert trait.max_score is not None
    if not trait.min_score <= score <= trait.max_score:
        raise InvalidReply(f"score must be from {trait.min_score} to {trait.max_score}, not {score}")
    return Score(score)


def describe_scale(trait: ScaledTrait, *, show_template: bool = False) -> str:
    """Return a description of a trait's scale for a prompt. Each class of a literal trait is on its own line. If the
    trait fills a template, `show_template` includes its JSON Schema, for a judge that does not get a schema.
    """
    if trait.kind == "boolean":
        return "true or false."
    if trait.kind == "score":
        return (
            f"a whole number from {trait.min_score} to {trait.max_score}, both included; {trait.min_score} is the "
            f"least of this quality and {trait.max_score} the most."
        )
    if trait.classes is not None:
        classes = "".join(f'\n  - "{name}": {meaning}' for name, meaning in trait.classes.items())
        return f"the name of one of these classes:{classes}"
    if show_template:
        return (
            f"an object that fits this JSON Schema:\n{json.dumps(trait.template_schema, ensure_ascii=False, indent=1)}"
        )
    return "an object with the fields of its schema."


def _mapping(part: object) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def _clean_schema(schema: Any, prefix: str) -> Any:
    """Return a copy of a schema without titles, defaults and examples, and with `prefix` added to its references. In
    objects with properties, all properties are required, and others are forbidden unless the schema says otherwise.
    """
    if isinstance(schema, list):
        return [_clean_schema(part, prefix) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    cleaned: Json = {}
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, Mapping):
            cleaned[key] = {name: _clean_schema(part, prefix) for name, part in value.items()}
        elif key == "$ref" and isinstance(value, str):
            cleaned[key] = f"#/$defs/{prefix}{value.rpartition('/')[2]}"
        elif key in _LITERALLY:
            cleaned[key] = deepcopy(value)
        elif key not in _DROPPED:
            cleaned[key] = _clean_schema(value, prefix)
    if isinstance(cleaned.get("properties"), dict):
        cleaned["required"] = list(cleaned["properties"])
        cleaned.setdefault("additionalProperties", False)
    return cleaned
