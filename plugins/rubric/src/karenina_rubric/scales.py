"""How a judge is asked for the score of one LLM trait, and how its reply is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from karenina_core.rubrics import LLMRubricTrait
from karenina_core.structured import InvalidReply, misfits, repair
from karenina_rubric.prompts import REASONING, SCORE

Json = dict[str, Any]

_DEFINITIONS = ("$defs", "definitions")
_DROPPED = ("title", "default", "examples", *_DEFINITIONS)
_BY_NAME = ("properties", "patternProperties")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said of one trait: the score in its kind, a literal trait's class name, and the reasoning."""

    score: bool | int | Json
    label: str | None
    reasoning: str


def object_schema(properties: Mapping[str, Json]) -> Json:
    """An object that has exactly these keys, in this order."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def trait_schema(trait: LLMRubricTrait) -> Json:
    """The schema of one trait's judgement, alone: `reasoning`, then `score`."""
    return _with_definitions(*_part(trait, ""))


def batch_schema(traits: Sequence[LLMRubricTrait]) -> Json:
    """The schema of several judgements: an object with a judgement under each trait's name."""
    properties, definitions = {}, {}
    for position, trait in enumerate(traits):
        properties[trait.name], own = _part(trait, f"t{position}_")
        definitions.update(own)
    return _with_definitions(object_schema(properties), definitions)


def read_judgement(trait: LLMRubricTrait, given: object) -> Judgement:
    """The judgement in one trait's part of a reply. Raises `InvalidReply`, which says what is wrong with it."""
    if not isinstance(given, Mapping):
        raise InvalidReply(f"there is no judgement of {trait.name!r}")
    schema = trait_schema(trait)
    fitted, _ = repair(given, schema)
    problems = misfits(fitted, schema)
    if problems:
        raise InvalidReply("; ".join(problems[:5]))
    score = fitted["score"]
    if score is None:
        raise InvalidReply("score must not be null")
    reasoning = fitted["reasoning"] or ""
    if trait.kind == "literal":
        return Judgement(trait.class_names.index(score), score, reasoning)
    if trait.kind == "score":
        score = int(score)
        if not _low(trait) <= score <= _high(trait):
            raise InvalidReply(f"score must be from {trait.min_score} to {trait.max_score}, not {score}")
    return Judgement(score, None, reasoning)


def _low(trait: LLMRubricTrait) -> int:
    assert trait.min_score is not None
    return trait.min_score


def _high(trait: LLMRubricTrait) -> int:
    assert trait.max_score is not None
    return trait.max_score


def _part(trait: LLMRubricTrait, prefix: str) -> tuple[Json, Json]:
    """The judgement's schema, and the definitions that it refers to, named with `prefix`."""
    score, definitions = _score(trait, prefix)
    reasoning = {"type": "string", "description": REASONING}
    return object_schema({"reasoning": reasoning, "score": score}), definitions


def _score(trait: LLMRubricTrait, prefix: str) -> tuple[Json, Json]:
    if trait.kind == "boolean":
        return {"type": "boolean", "description": SCORE}, {}
    if trait.kind == "score":
        # The bounds stand in words: some servers refuse `minimum`, and the reply is held to them anyway.
        return {"type": "integer", "description": f"{SCORE} From {trait.min_score} to {trait.max_score}."}, {}
    if trait.kind == "literal":
        return {"type": "string", "enum": list(trait.class_names), "description": SCORE}, {}
    return _template(trait.template_schema or {}, prefix)


def _template(schema: Mapping[str, Any], prefix: str) -> tuple[Json, Json]:
    own = {name: part for key in _DEFINITIONS for name, part in schema.get(key, {}).items()}
    definitions = {prefix + name: _cleaned(part, prefix) for name, part in own.items()}
    return _cleaned(schema, prefix), definitions


def _cleaned(schema: Any, prefix: str) -> Any:
    """The schema without titles and defaults, every key demanded, its references led to the renamed definitions."""
    if isinstance(schema, list):
        return [_cleaned(part, prefix) for part in schema]
    if not isinstance(schema, Mapping):
        return deepcopy(schema)
    found: Json = {}
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, Mapping):
            found[key] = {name: _cleaned(part, prefix) for name, part in value.items()}
        elif key == "$ref" and isinstance(value, str):
            found[key] = f"#/$defs/{prefix}{value.rpartition('/')[2]}"
        elif key in ("enum", "const", "required"):
            found[key] = deepcopy(value)
        elif key not in _DROPPED:
            found[key] = _cleaned(value, prefix)
    if isinstance(found.get("properties"), dict):
        found["required"] = list(found["properties"])
        found.setdefault("additionalProperties", False)
    return found


def _with_definitions(schema: Json, definitions: Json) -> Json:
    return {**schema, "$defs": definitions} if definitions else schema
