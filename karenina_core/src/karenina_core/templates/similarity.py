"""How near two texts are in meaning. The core cannot tell: a plugin provides it."""

from __future__ import annotations

from collections.abc import Callable

SimilarityProvider = Callable[[str, str, str | None], float]
"""(one text, another, name of the embedding model or None for the default) -> cosine similarity."""

_providers: list[SimilarityProvider] = []


class SimilarityUnavailable(RuntimeError):
    """Nothing installed here can compare meanings."""

    def __init__(self) -> None:
        super().__init__(
            "comparing texts by meaning (SemanticMatch) needs an embedding model, and no plugin here provides one: "
            'pip install "karenina[embedding]"'
        )


def provide_similarity(provider: SimilarityProvider) -> None:
    """Make `provider` the one that compares meanings.

    The same provider may come twice. A different one while the first stands is a ValueError that names both; a plugin
    that is to replace it calls `withdraw_similarity` first.
    """
    if _providers and _providers[0] != provider:
        raise ValueError(
            f"two plugins provide text similarity: {_name(_providers[0])} and {_name(provider)}; block one of them"
        )
    _providers[:] = [provider]


def withdraw_similarity() -> None:
    """Forget the provider, if there is one."""
    _providers.clear()


def similarity(one: str, another: str, model: str | None = None) -> float:
    """The cosine similarity of two texts by the embedding `model`. SimilarityUnavailable without a provider."""
    if not _providers:
        raise SimilarityUnavailable
    return float(_providers[0](one, another, model))


def _name(provider: SimilarityProvider) -> str:
    return f"{provider.__module__}.{getattr(provider, '__qualname__', type(provider).__qualname__)}"
