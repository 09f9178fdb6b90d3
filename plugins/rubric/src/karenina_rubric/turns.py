"""The turns of a conversation on which traits are scored, and the traits whose turn did not take place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from karenina_core.data.rubrics import (
    AgenticRubricTrait,
    CallableRubricTrait,
    LLMRubricTrait,
    RegexRubricTrait,
    RubricTrait,
)
from karenina_rubric.evaluators import TraitScore
from karenina_toolkit.conversations import Conversation, TurnChoice


@dataclass(slots=True)
class TurnGroups:
    """Traits, grouped by the part of a conversation on which they are scored.

    `groups` contains the names of the traits to score. `settled` contains the scores of traits whose turn is missing.
    `left_out` contains the reasons why traits do not count, keyed by name.
    """

    groups: dict[TurnChoice, list[str]] = field(default_factory=dict)
    settled: list[tuple[RubricTrait, TraitScore]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def group_traits(traits: Sequence[RubricTrait], conversation: Conversation, default: str) -> TurnGroups:
    """Return the traits grouped by the turns that they read, which is `default` ("all" or "last") for those without a
    `turn`. A trait whose turn did not take place gets the worst score if it counts as wrong. Otherwise it gets an
    error, or is left out if a condition skipped the turn and others are scored.
    """
    found = TurnGroups()
    for trait in traits:
        choice = TurnChoice.read(trait.extra, default)
        if conversation.text_of(choice) is not None:
            found.groups.setdefault(conversation.normalized(choice), []).append(trait.name)
        elif choice.missing_is_wrong:
            found.settled.append((trait, _lowest(trait, conversation.why_not(choice))))
        elif conversation.is_left_out(choice):
            found.left_out[trait.name] = conversation.why_not(choice)
        else:
            found.settled.append((trait, _unscored(trait, conversation.why_not(choice))))
    if not found.groups and not found.settled:
        found.settled = [(trait, _unscored(trait, found.left_out[trait.name])) for trait in traits]
        found.left_out = {}
    return found


def _unscored(trait: RubricTrait, error: str) -> TraitScore:
    return TraitScore(trait.name, f"{trait.type}_trait_scores", error=error)


def _lowest(trait: RubricTrait, why: str) -> TraitScore:
    """Return the worst possible score for a trait. If its kind has none, the score contains an error that begins with
    `why`.
    """
    where, worst = f"{trait.type}_trait_scores", _worst_score(trait)
    return TraitScore(
        trait.name, where, worst, None if worst is not None else f"{why}, and this kind of trait has no worst score"
    )


def _worst_score(trait: RubricTrait) -> Any:
    """Return the value of the worst possible score for a trait, or None if there is none."""
    if trait.higher_is_better is None:
        return None
    if isinstance(trait, RegexRubricTrait):
        return not trait.higher_is_better
    if isinstance(trait, LLMRubricTrait | CallableRubricTrait | AgenticRubricTrait):
        if trait.kind == "boolean":
            return not trait.higher_is_better
        return trait.min_score if trait.higher_is_better else trait.max_score
    return None
