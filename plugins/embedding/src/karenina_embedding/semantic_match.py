"""The similarity function of the primitive `SemanticMatch`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from karenina_embedding.embedder import get_embedder
from karenina_embedding.settings import DEFAULT_MODEL, EmbeddingSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig

CONFIGURED_MODEL: Final[ContextVar[str]] = ContextVar("karenina_embedding_model", default=DEFAULT_MODEL)
"""The `embedding_check_model` of the current run."""


def compute_similarity(one: str, another: str, model: str | None) -> float:
    """Return the cosine similarity of two texts, from 0 to 1; `model` defaults to the run's `embedding_check_model`.

    The first call in a process loads the model. Models are never downloaded, so somebody else's template cannot
    trigger a download. Raises `ModelUnavailable`.
    """
    return get_embedder(model or CONFIGURED_MODEL.get()).similarity(one, another)


def load_model(model: str | None, config: VerificationConfig) -> None:
    """Load `model`, which defaults to the `embedding_check_model` of `config`. Raises `ModelUnavailable`."""
    get_embedder(model or config.section(EmbeddingSettings).embedding_check_model)
