"""The similarity of two texts in meaning, which a plugin computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

SimilarityProvider = Callable[[str, str, str | None], float]
"""A function of two texts and the name of the embedding model (None for the default) to their cosine similarity."""

SimilarityReady = Callable[[str | None, "VerificationConfig"], None]
"""A check of the embedding model's name (or None) and a run's configuration, which raises `RuntimeError`."""

_providers: list[SimilarityProvider] = []
_ready: list[SimilarityReady] = []


class SimilarityUnavailable(RuntimeError):
    """No installed plugin compares texts by meaning."""

    def __init__(self) -> None:
        super().__init__(
            "comparing texts by meaning (SemanticMatch) needs an embedding model, but no plugin provides one: "
            'pip install "karenina[embedding]"'
        )


def provide_similarity(provider: SimilarityProvider, *, ready: SimilarityReady | None = None) -> None:
    """Register the function that compares texts by meaning.

    `ready` is called before runs with templates that use it, and raises `RuntimeError` if it would not work.
    Registering a provider again has no effect. Raises `ValueError` if another one is registered; a plugin that replaces
    it must call `withdraw_similarity` first.
    """
    if _providers and _providers[0] != provider:
        raise ValueError(
            f"two plugins provide text similarity: {_name(_providers[0])} and {_name(provider)}; block one of them"
        )
    _providers[:] = [provider]
    _ready[:] = [ready] if ready is not None else []


def withdraw_similarity() -> None:
    """Remove the registered provider, if there is one."""
    _providers.clear()
    _ready.clear()


def similarity(one: str, another: str, model: str | None = None) -> float:
    """Return the cosine similarity of two texts by the embedding `model`. Raises `SimilarityUnavailable`."""
    if not _providers:
        raise SimilarityUnavailable
    return float(_providers[0](one, another, model))


def check_similarity(model: str | None, config: VerificationConfig) -> None:
    """Raise `RuntimeError`, with the cure, if a run with this configuration cannot compare texts with `model`."""
    if not _providers:
        raise SimilarityUnavailable
    for ready in _ready:
        ready(model, config)


def _name(provider: SimilarityProvider) -> str:
    return f"{provider.__module__}.{getattr(provider, '__qualname__', type(provider).__qualname__)}"
