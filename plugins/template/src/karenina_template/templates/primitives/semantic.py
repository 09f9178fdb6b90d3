"""Compares strings by meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from karenina_core.catalog import install_command
from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import Number, text_of
from karenina_toolkit.folding import fold

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

SimilarityProvider = Callable[[str, str, str | None], float]
"""A function that takes two strings and the name of an embedding model, and returns the strings' similarity.

None means the default model.
"""

SimilarityReady = Callable[[str | None, "VerificationConfig"], None]
"""A function that takes the name of a model and a configuration. None means the default model.

It must raise `RuntimeError` if strings cannot be compared.
"""

_providers: list[SimilarityProvider] = []
_ready: list[SimilarityReady] = []


class SimilarityUnavailable(RuntimeError):
    """Raised if no installed plugin can compare strings by meaning."""

    def __init__(self) -> None:
        super().__init__(
            "comparing strings by meaning (SemanticMatch) requires an embedding model, but no plugin "
            f"provides one. To install one, run: {install_command('karenina-embedding')}"
        )


def provide_similarity(provider: SimilarityProvider, *, ready: SimilarityReady | None = None) -> None:
    """Register the function that compares strings by meaning, for the whole process. `ready` is called before runs that
    need it, and must raise `RuntimeError` if `provider` cannot work. Raises `ValueError` if another provider is
    registered; call `withdraw_similarity` first to replace it.

    Registering the same provider again only replaces `ready`.
    """
    if _providers and _providers[0] != provider:
        raise ValueError(
            f"two plugins provide text similarity: {_name(_providers[0])} and {_name(provider)}; block one of them "
            "with [plugins] block"
        )
    _providers[:] = [provider]
    _ready[:] = [ready] if ready is not None else []


def withdraw_similarity() -> None:
    """Remove the registered similarity function, if any."""
    _providers.clear()
    _ready.clear()


def similarity(one: str, another: str, model: str | None = None) -> float:
    """Return the similarity of two strings according to an embedding model, where None means the default model. Higher
    is more alike. Raises `SimilarityUnavailable` if no plugin can compare strings.
    """
    if not _providers:
        raise SimilarityUnavailable
    return float(_providers[0](one, another, model))


def check_similarity(model: str | None, config: VerificationConfig) -> None:
    """Raise `RuntimeError` with a fix if a run with `config` cannot use `model`."""
    if not _providers:
        raise SimilarityUnavailable
    for ready in _ready:
        ready(model, config)


def _name(provider: SimilarityProvider) -> str:
    return f"{provider.__module__}.{getattr(provider, '__qualname__', type(provider).__qualname__)}"


class SemanticMatch(Primitive, defer_build=True):
    """Passes if the cosine similarity of the strings' embeddings is at least `threshold` (above 0, at most 1).

    `model` is the name of the embedding model. None means the plugin's default. Without the embedding plugin, runs do
    not start and checks raise `SimilarityUnavailable`. None and blank strings never pass, and cannot be the ground
    truth. Beware of negations: "toxic" and "not toxic" are similar.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    is_slow: ClassVar[bool] = True
    needs_model: ClassVar[bool] = True

    threshold: Annotated[Number, Field(gt=0, le=1)] = 0.85
    model: str | None = Field(
        default=None, description="The embedding model.", json_schema_extra={"allowed_in_files": "name"}
    )

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a non-blank string."""
        self._truth(expected)

    def before_run(self, config: VerificationConfig) -> None:
        """Raise `RuntimeError` if strings cannot be compared by meaning."""
        check_similarity(self.model, config)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the similarity of the strings is at least `threshold`. A value without text fails. Raises
        `SimilarityUnavailable` if no plugin can compare strings.
        """
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        # a provider may return NumPy numbers
        return bool(similarity(fold(text), truth, self.model) >= self.threshold)

    def _truth(self, expected: object) -> str:
        """Return the folded ground truth. Raises `ValueError` if it is blank or not a string."""
        truth = text_of(expected)
        if truth is None or not truth.strip():
            raise self._wrong_truth("a string", expected)
        return fold(truth)
