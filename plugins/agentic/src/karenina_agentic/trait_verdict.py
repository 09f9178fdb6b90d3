"""Verdicts on agentic traits: reasoning, score, and for a dynamic trait whether its concept is present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karenina_core.data.rubrics import AgenticRubricTrait
from karenina_rubric.score_schema import Json, Score, read_score, score_schema
from karenina_toolkit.structured import object_schema


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict. `score` is None if a dynamic trait's concept is not present in the answer."""

    score: Score | None
    reasoning: str

    @property
    def present(self) -> bool:
        """Return whether the trait's concept is present in the answer."""
        return self.score is not None


def scoring_schema(trait: AgenticRubricTrait, *, dynamic: bool) -> Json:
    """Return the JSON Schema of a verdict: `reasoning`, for a dynamic trait `present`, then `score`."""
    score = score_schema(trait)
    reasoning = {"type": "string", "description": "What in the report decides."}
    if not dynamic:
        return score.complete(object_schema({"reasoning": reasoning, "score": score.schema}))
    present = {
        "type": "boolean",
        "description": "Whether the answer has anything to do with this quality; if not, the score is null.",
    }
    or_null = {"anyOf": [score.schema, {"type": "null"}]}
    return score.complete(object_schema({"reasoning": reasoning, "present": present, "score": or_null}))


def read_verdict(trait: AgenticRubricTrait, given: Mapping[str, Any], *, dynamic: bool) -> Verdict:
    """Return the verdict of a reply that fits the schema. Raises `InvalidReply` for an invalid score."""
    reasoning = given["reasoning"] or ""
    if dynamic and given["present"] is False:
        return Verdict(None, reasoning)
    return Verdict(read_score(trait, given["score"]), reasoning)
