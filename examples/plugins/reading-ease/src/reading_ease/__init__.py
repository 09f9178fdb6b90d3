"""A kind of rubric trait: how easy the answer is to read, by the formula of Flesch for English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from karenina_core import VerificationContext, hookimpl
from karenina_core.data.rubrics import RubricTrait
from karenina_core.models.settings_models import AllowedInFiles
from karenina_rubric.evaluators import TraitEvaluator, TraitScore


class ReadingEaseTrait(RubricTrait):
    """A trait whose score is Flesch's reading ease, 0 (very hard) to 100 (very easy)."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["reading_ease.flesch"] = "reading_ease.flesch"


class ReadingEaseEvaluator:
    """Computes the score from the lengths of sentences and words, without a judge."""

    name: ClassVar[str] = "reading_ease"
    precedence: ClassVar[int] = 0

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether the trait is of this kind."""
        return isinstance(trait, ReadingEaseTrait)

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return the same score for each trait; an answer without words has none, and says why."""
        score = reading_ease(text)
        error = "the answer has no words" if score is None else None
        return [TraitScore(trait.name, "reading_ease_trait_scores", score, error) for trait in traits]


def reading_ease(text: str) -> float | None:
    """Return Flesch's reading ease of an English text, 0 to 100; None if it has no words."""
    words = re.findall(r"[A-Za-z']+", text)
    if not words:
        return None
    sentences = max(1, len(re.findall(r"[.!?]+(?:\s|$)", text)))
    syllables = sum(max(1, len(re.findall(r"[aeiouy]+", word.lower().removesuffix("e")))) for word in words)
    score = 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words)
    return round(min(100.0, max(0.0, score)), 1)


@hookimpl
def karenina_trait_kinds() -> list[type[RubricTrait]]:
    """Provide the kind: `{type: reading_ease.flesch, name: easy}`."""
    return [ReadingEaseTrait]


@hookimpl
def karenina_trait_evaluators() -> list[TraitEvaluator]:
    """Provide its evaluator."""
    return [ReadingEaseEvaluator()]
