"""What the core's `SemanticMatch` compares by."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from karenina_embedding.embedder import get_embedder
from karenina_embedding.settings import DEFAULT_MODEL, EmbeddingSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig

CONFIGURED_MODEL: Final[ContextVar[str]] = ContextVar("karenina_embedding_model", default=DEFAULT_MODEL)
"""The `embedding_check_model` of the run under way."""


def compute_similarity(one: str, another: str, model: str | None) -> float:
    """The cosine similarity of two texts, 0 to 1, by `model`, or by the one that the run's configuration names.

    The model is loaded at the first call of the process, and never downloaded: a template that came with somebody's
    file cannot make this machine fetch one. Raises `ModelUnavailable`.
    """
    return get_embedder(model or CONFIGURED_MODEL.get()).similarity(one, another)


def load_model(model: str | None, config: VerificationConfig) -> None:
    """Load what comparisons by `model`, or by the one that `config` names, will need. Raises `ModelUnavailable`."""
    get_embedder(model or config.section(EmbeddingSettings).embedding_check_model)
