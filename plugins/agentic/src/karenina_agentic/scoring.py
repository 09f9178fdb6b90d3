"""How a judge is asked for the score of an agentic trait, and how its reply is read."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from karenina_core.rubrics import AgenticRubricTrait
from karenina_core.structured import InvalidReply

Json = dict[str, Any]

_DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge gave: the score in the trait's kind, a literal trait's class name, and the reasoning.

    `present` is False where the answer has nothing of a dynamic trait's concept; there is no score then.
    """

    score: bool | int | Json | None
    label: str | None
    reasoning: str
    present: bool = True


def scoring_schema(trait: AgenticRubricTrait, *, dynamic: bool) -> Json:
    """The JSON Schema of a verdict: `reasoning`, for a dynamic trait `present`, then `score`."""
    score, definitions = _score(trait)
    properties: Json = {"reasoning": {"type": "string", "description": "What in the report decides."}}
    if dynamic:
        properties["present"] = {
            "type": "boolean",
            "description": "Whether the answer has anything to do with this quality; if not, the score is null.",
        }
        score = {"anyOf": [score, {"type": "null"}]}
    properties["score"] = score
    schema: Json = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def read_verdict(trait: AgenticRubricTrait, given: Mapping[str, Any], *, dynamic: bool) -> Verdict:
    """The verdict in a reply that fits the schema. Raises `InvalidReply` for a score that is none."""
    reasoning, score = given["reasoning"] or "", given["score"]
    if dynamic and given["present"] is False:
        return Verdict(None, None, reasoning, present=False)
    if score is None:
        raise InvalidReply("score must not be null")
    if trait.kind == "literal":
        return Verdict(trait.class_names.index(score), score, reasoning)
    if trait.kind == "score":
        assert trait.min_score is not None
        assert trait.max_score is not None
        if not trait.min_score <= score <= trait.max_score:
            raise InvalidReply(f"score must be from {trait.min_score} to {trait.max_score}, not {score}")
        return Verdict(int(score), None, reasoning)
    return Verdict(score, None, reasoning)


def _score(trait: AgenticRubricTrait) -> tuple[Json, Json]:
    """The schema of the score, and the definitions that it refers to."""
    if trait.kind == "boolean":
        return {"type": "boolean"}, {}
    if trait.kind == "score":
        # The bounds stand in words: some servers refuse `minimum`, and the reply is held to them anyway.
        return {"type": "integer", "description": f"From {trait.min_score} to {trait.max_score}."}, {}
    if trait.kind == "literal":
        return {"type": "string", "enum": list(trait.class_names)}, {}
    own = deepcopy(trait.template_schema or {})
    definitions: Json = {}
    for key in _DEFINITIONS:
        found = own.pop(key, None)
        if isinstance(found, dict):
            definitions.update(found)
    moved = _plain(own)
    return moved, {name: _plain(part) for name, part in definitions.items()}


def _plain(schema: Any) -> Any:
    """The schema with its references led to `$defs` of the whole, and without defaults, which are no model's business.

    A field may be called `default`: keys below `properties` are names.
    """
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: Json = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            made[key] = {name: _plain(part) for name, part in value.items()}
        elif key == "$ref" and isinstance(value, str):
            made[key] = f"#/$defs/{value.rpartition('/')[2]}"
        elif key in ("enum", "const", "required"):
            made[key] = value
        elif key != "default":
            made[key] = _plain(value)
    if isinstance(made.get("properties"), dict):
        made["required"] = list(made["properties"])
    return made
