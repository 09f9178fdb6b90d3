"""How one rubric trait is judged, from the four modes, the trait's own wishes and the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.errors import ConfigError
from karenina_deep_judgment.quoting import Demand
from karenina_deep_judgment.settings import DeepJudgmentSettings, TraitFields, deep_judgment

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig


@dataclass(frozen=True, slots=True)
class Judged:
    """What is done for a trait: with excerpts, how many, and with a search."""

    excerpts: bool
    demand: Demand
    search: bool


def judged(trait: RubricTrait, question_id: str, settings: DeepJudgmentSettings) -> Judged | None:
    """How a trait is judged deeply, or None where it is not.

    Only LLM traits that are yes or no, a score or a class are: one that fills a schema has no score to reason about.
    """
    if not isinstance(trait, LLMRubricTrait) or trait.kind == "template":
        return None
    searching = settings.deep_judgment_rubric_search_enabled
    match settings.deep_judgment_rubric_mode:
        case "enable_all":
            return _judged(settings, settings.deep_judgment_rubric_global_excerpts, searching)
        case "use_checkpoint":
            own = fields_of(trait)
            if own.deep_judgment_enabled:
                return _judged(
                    settings,
                    own.deep_judgment_excerpt_enabled,
                    own.deep_judgment_search_enabled,
                    own.deep_judgment_max_excerpts,
                    own.deep_judgment_fuzzy_match_threshold,
                    own.deep_judgment_excerpt_retry_attempts,
                )
        case "custom" if settings.deep_judgment_rubric_config is not None:
            wishes = settings.deep_judgment_rubric_config.of(question_id, trait.name)
            if wishes is not None and wishes.enabled:
                return _judged(
                    settings,
                    wishes.excerpt_enabled,
                    searching if wishes.search_enabled is None else wishes.search_enabled,
                    wishes.max_excerpts,
                    wishes.fuzzy_match_threshold,
                    wishes.excerpt_retry_attempts,
                )
    return None


def fields_of(trait: LLMRubricTrait) -> TraitFields:
    """Return what a trait itself wishes. Raises `ConfigError` if a value does not fit."""
    try:
        return TraitFields.model_validate(trait.extra)
    except ValidationError as error:
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        raise ConfigError([f"trait {trait.name!r}: {name}: {message}" for name, message in found]) from error


def check_traits(question: Question) -> None:
    """Raise `ConfigError` if a trait of the question has a wish that does not fit."""
    for trait in _traits(question):
        if isinstance(trait, LLMRubricTrait):
            fields_of(trait)


def _traits(question: Question) -> list[RubricTrait]:
    rubrics = (question.rubric, question.dynamic_rubric)
    return [trait for rubric in rubrics if rubric is not None for trait in rubric.traits]


def searches(config: VerificationConfig, question: Question) -> bool:
    """Whether any trait of the question would be looked up."""
    settings = deep_judgment(config)
    found = [judged(trait, question.id, settings) for trait in _traits(question)]
    return any(one is not None and one.search for one in found)


def _judged(
    settings: DeepJudgmentSettings,
    excerpts: bool,
    search: bool,
    most: int | None = None,
    threshold: float | None = None,
    retries: int | None = None,
) -> Judged:
    demand = Demand(
        settings.deep_judgment_rubric_max_excerpts_default if most is None else most,
        settings.deep_judgment_rubric_fuzzy_match_threshold_default if threshold is None else threshold,
        settings.deep_judgment_rubric_excerpt_retry_attempts_default if retries is None else retries,
        settings.deep_judgment_exact_facts,
    )
    return Judged(excerpts, demand, search and excerpts)
