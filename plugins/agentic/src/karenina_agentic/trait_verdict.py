"""What a judge gives for an agentic trait: reasoning, for a dynamic trait whether it is there at all, and the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karenina_core.data.rubrics import AgenticRubricTrait
from karenina_rubric.score_schema import Json, Score, read_score, score_schema
from karenina_toolkit.structured import object_schema


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge gave. There is no score where the answer has nothing of a dynamic trait's concept."""

    score: Score | None
    reasoning: str

    @property
    def present(self) -> bool:
        """Whether the answer has anything of the trait's concept."""
        return self.score is not None


def scoring_schema(trait: AgenticRubricTrait, *, dynamic: bool) -> Json:
    """The JSON Schema of a verdict: `reasoning`, for a dynamic trait `present`, then `score`."""
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
    """The verdict in a reply that fits the schema. Raises `InvalidReply` for a score that is none."""
    reasoning = given["reasoning"] or ""
    if dynamic and given["present"] is False:
        return Verdict(None, reasoning)
    return Verdict(read_score(trait, given["score"]), reasoning)
