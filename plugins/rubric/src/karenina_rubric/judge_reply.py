"""Replies of a judge about LLM traits: their schemas, and the reasoning and score that are read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from karenina_core.data.rubrics import LLMRubricTrait
from karenina_rubric.prompts import REASONING
from karenina_rubric.score_schema import Json, Score, ScoreSchema, read_score, score_schema, with_definitions
from karenina_toolkit.structured import InvalidReply, find_mismatches, object_schema, repair


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's score of one trait, with its reasoning."""

    score: Score
    reasoning: str


def trait_schema(trait: LLMRubricTrait) -> Json:
    """Return the schema of a reply about one trait: `reasoning`, then `score`."""
    score = score_schema(trait)
    return score.complete(_reasoned_score_schema(score))


def batch_schema(traits: Sequence[LLMRubricTrait]) -> Json:
    """Return the schema of a reply about several traits: an object with a judgement under each trait's name."""
    scores = {trait.name: score_schema(trait, prefix=f"t{position}_") for position, trait in enumerate(traits)}
    definitions = {name: part for score in scores.values() for name, part in score.definitions.items()}
    return with_definitions(
        object_schema({name: _reasoned_score_schema(score) for name, score in scores.items()}), definitions
    )


def read_judgement(trait: LLMRubricTrait, given: object) -> Judgement:
    """Return the judgement in one trait's part of a reply. Raises `InvalidReply` with the problem."""
    if not isinstance(given, Mapping):
        raise InvalidReply(f"there is no judgement of {trait.name!r}")
    schema = trait_schema(trait)
    fitted, _ = repair(given, schema)
    problems = find_mismatches(fitted, schema)
    if problems:
        raise InvalidReply("; ".join(problems[:5]))
    return Judgement(read_score(trait, fitted["score"]), fitted["reasoning"] or "")


def _reasoned_score_schema(score: ScoreSchema) -> Json:
    return object_schema({"reasoning": {"type": "string", "description": REASONING}, "score": score.schema})
