"""How near two texts are in meaning. The core cannot tell: a plugin provides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

SimilarityProvider = Callable[[str, str, str | None], float]
"""(one text, another, name of the embedding model or None for the default) -> cosine similarity."""

SimilarityReady = Callable[[str | None, "VerificationConfig"], None]
"""(name of the embedding model or None, configuration of a run) -> nothing, or a RuntimeError with what is missing."""

_providers: list[SimilarityProvider] = []
_ready: list[SimilarityReady] = []


class SimilarityUnavailable(RuntimeError):
    """Nothing installed here can compare meanings."""

    def __init__(self) -> None:
        super().__init__(
            "comparing texts by meaning (SemanticMatch) needs an embedding model, and no plugin here provides one: "
            'pip install "karenina[embedding]"'
        )


def provide_similarity(provider: SimilarityProvider, *, ready: SimilarityReady | None = None) -> None:
    """Make `provider` the one that compares meanings.

    `ready` is asked before a run whose templates compare by it; it raises RuntimeError where that could not work.

    The same provider may come twice. A different one while the first stands is a ValueError that names both; a plugin
    that is to replace it calls `withdraw_similarity` first.
    """
    if _providers and _providers[0] != provider:
        raise ValueError(
            f"two plugins provide text similarity: {_name(_providers[0])} and {_name(provider)}; block one of them"
        )
    _providers[:] = [provider]
    _ready[:] = [ready] if ready is not None else []


def withdraw_similarity() -> None:
    """Forget the provider, if there is one."""
    _providers.clear()
    _ready.clear()


def similarity(one: str, another: str, model: str | None = None) -> float:
    """The cosine similarity of two texts by the embedding `model`. SimilarityUnavailable without a provider."""
    if not _providers:
        raise SimilarityUnavailable
    return float(_providers[0](one, another, model))


def check_similarity(model: str | None, config: VerificationConfig) -> None:
    """See whether a run under `config` can compare by `model`. Raises RuntimeError with what to do where it cannot."""
    if not _providers:
        raise SimilarityUnavailable
    for ready in _ready:
        ready(model, config)


def _name(provider: SimilarityProvider) -> str:
    return f"{provider.__module__}.{getattr(provider, '__qualname__', type(provider).__qualname__)}"
