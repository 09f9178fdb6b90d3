"""Hooks for trait kinds and trait evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.data.rubrics import RubricTrait
    from karenina_core.plugins import Plugins
    from karenina_rubric.evaluators import TraitEvaluator


@hookspec
def karenina_trait_kinds() -> Sequence[type[RubricTrait]]:
    """Return new kinds of rubric traits. Benchmarks can use them in the same way as the built-in kinds."""


@hookspec
def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
    """Return evaluators for rubric traits.

    Each trait is scored by the first evaluator that claims it. Evaluators with a higher precedence are asked first.
    """


def offered(plugins: Plugins) -> None:
    """Register the plugins' trait kinds. Kinds and evaluators that are invalid are rejected, so that they are listed as
    failed.
    """
    from karenina_core.data.rubrics import RubricTrait, register_trait_kind
    from karenina_rubric.evaluators import find_flaw

    for offer in plugins.offers(karenina_trait_kinds, type[RubricTrait]):
        try:
            register_trait_kind(offer.value)
        except ValueError as error:
            plugins.reject(offer, error)
    for evaluator in plugins.offers(karenina_trait_evaluators):
        flaw = find_flaw(evaluator.value)
        if flaw is not None:
            plugins.reject(evaluator, TypeError(flaw))
