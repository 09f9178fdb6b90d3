"""The primitive that compares texts by meaning, and their similarity, which a plugin computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import Number, text_of
from karenina_toolkit.folding import fold

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


class SemanticMatch(Primitive):
    """Passes if the cosine similarity of the embeddings of both texts is at least `threshold` (above 0, at most 1).

    `model` is the name of the embedding model; None means the plugin's default. Without the embedding plugin, no run
    starts, and checks raise `SimilarityUnavailable`. None and blank texts never pass, and cannot be the truth.
    Similarity ignores negations: "toxic" and "not toxic" are similar.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    is_slow: ClassVar[bool] = True

    threshold: Annotated[Number, Field(gt=0, le=1)] = 0.85
    model: str | None = Field(
        default=None, description="The embedding model.", json_schema_extra={"allowed_in_files": "name"}
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
