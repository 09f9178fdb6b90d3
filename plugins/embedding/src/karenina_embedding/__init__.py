"""Stage 9, and what `SemanticMatch` compares by: texts as an embedding model sees them. The entry point names `plugin`.

Nothing heavy is imported here: sentence-transformers comes with the extra `models`, and is imported where a model is
loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import Stage, hookimpl

if TYPE_CHECKING:
    from karenina_template.templates import Primitive


class plugin:  # noqa: N801 - what entry points name
    """Offers the stage, and gives the core's `SemanticMatch` what it compares by."""

    @staticmethod
    @hookimpl
    def karenina_embedding_check() -> Sequence[type[Stage]]:
        """Slot 9."""
        from karenina_embedding.embedding_check import EmbeddingCheck

        return [EmbeddingCheck]

    @staticmethod
    @hookimpl
    def karenina_primitives() -> Sequence[type[Primitive]]:
        """None of its own: it brings what the core's `SemanticMatch` is lacking."""
        from karenina_embedding.semantic_match import compute_similarity, load_model
        from karenina_template.templates.similarity import provide_similarity

        provide_similarity(compute_similarity, ready=load_model)
        return []
