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
    """Provide kinds of rubric traits, which benchmarks can then use in the same way as the built-in kinds."""


@hookspec
def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
    """Provide evaluators for rubric traits. Each trait goes to the first evaluator that claims it, by descending
    precedence.
    """


def offered(plugins: Plugins) -> None:
    """Register the trait kinds offered by plugins, and list invalid kinds and evaluators as failed."""
    from karenina_core.data.rubrics import register_trait_kind
    from karenina_rubric.evaluators import find_flaw

    for offer in plugins.offers(karenina_trait_kinds):
        try:
            register_trait_kind(offer.value)
        except ValueError as error:
            plugins.reject(offer, error)
    for evaluator in plugins.offers(karenina_trait_evaluators):
        flaw = find_flaw(evaluator.value)
        if flaw is not None:
            plugins.reject(evaluator, TypeError(flaw))
