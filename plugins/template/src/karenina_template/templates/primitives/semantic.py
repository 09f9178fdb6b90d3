"""The primitive that compares texts by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import Number, text_of
from karenina_template.templates.similarity import check_similarity, similarity
from karenina_toolkit.folding import fold

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig


class SemanticMatch(Primitive):
    """Passes if the cosine similarity of the embeddings of both texts is at least `threshold` (above 0, at most 1).

    `model` is the name of the embedding model; None means the plugin's default. Without the embedding plugin, no run
    starts, and checks raise `SimilarityUnavailable`. None and blank texts never pass, and cannot be the truth.
    Similarity ignores negations: "toxic" and "not toxic" are similar.
    """

    from_files: ClassVar[FromFiles] = "any"
    is_slow: ClassVar[bool] = True

    threshold: Annotated[Number, Field(gt=0, le=1)] = 0.85
    model: str | None = Field(
        default=None, description="The embedding model.", json_schema_extra={"from_files": "name"}
    )

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the truth is a text that is not blank."""
        self._truth(expected)

    def before_run(self, config: VerificationConfig) -> None:
        """Raise `RuntimeError` if texts cannot be compared by meaning."""
        check_similarity(self.model, config)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the texts are similar enough."""
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        # a provider may return numbers of NumPy
        return bool(similarity(fold(text), truth, self.model) >= self.threshold)

    def _truth(self, expected: object) -> str:
        truth = text_of(expected)
        if truth is None or not truth.strip():
            raise self._wrong_truth("a text", expected)
        return fold(truth)
