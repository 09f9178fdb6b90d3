"""The stage for slot 9, and embedding models for the primitive `SemanticMatch`.

Importing this package is cheap. sentence-transformers, which the extra `models` installs, is only imported when the
first model is loaded. The entry point refers to `plugin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from karenina_template.templates import Primitive


class plugin:  # noqa: N801 - the entry points' name
    """The stage for slot 9, and the similarity function for `SemanticMatch`."""

    karenina_embedding_check = offer("karenina_embedding.embedding_check:EmbeddingCheck")

    @staticmethod
    @hookimpl
    def karenina_primitives() -> Sequence[type[Primitive]]:
        """Set the similarity function for `SemanticMatch`. No primitives are returned."""
        from karenina_embedding.embedder import compute_similarity, load_model
        from karenina_template.templates.primitives.semantic import provide_similarity

        provide_similarity(compute_similarity, ready=load_model)
        return []
