"""The primitive that compares meanings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import Number, text_of
from karenina_template.templates.similarity import check_similarity, similarity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig


class SemanticMatch(Primitive):
    """Passes when the cosine similarity of the two texts' embeddings is at least `threshold` (above 0, at most 1).

    `model` names the embedding model; None leaves it to the plugin. Needs the embedding plugin: without it a run is
    refused, and every check of a text raises `SimilarityUnavailable`. None and a blank text never pass, and cannot be
    the truth. Similarity does not see a negation: "toxic" and "not toxic" are near.
    """

    from_files: ClassVar[FromFiles] = "any"
    is_slow: ClassVar[bool] = True

    threshold: Annotated[Number, Field(gt=0, le=1)] = 0.85
    model: str | None = Field(
        default=None, description="The embedding model.", json_schema_extra={"from_files": "name"}
    )

    def check_expected(self, expected: object) -> None:
        """Raise ValueError unless the truth has a text that is not blank."""
        self._truth(expected)

    def before_run(self, config: VerificationConfig) -> None:
        """Raise RuntimeError where nothing here can compare meanings."""
        check_similarity(self.model, config)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the texts are near enough in meaning."""
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        return similarity(text, truth, self.model) >= self.threshold

    def _truth(self, expected: object) -> str:
        truth = text_of(expected)
        if truth is None or not truth.strip():
            raise self._wrong_truth("a text", expected)
        return truth
