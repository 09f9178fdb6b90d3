"""A rubric trait's settings, resolved from the mode, the trait's own fields and the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.errors import ConfigError
from karenina_deep_judgment.excerpt_extraction import ExcerptLimits
from karenina_deep_judgment.settings import DeepJudgmentSettings, TraitFields, settings_of

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig


@dataclass(frozen=True, slots=True)
class ResolvedTraitSettings:
    """A trait's resolved settings: whether excerpts are required, their limits, and whether to search for them."""

    excerpts: bool
    limits: ExcerptLimits
    search: bool


def resolve_trait_settings(
    trait: RubricTrait, question_id: str, settings: DeepJudgmentSettings
) -> ResolvedTraitSettings | None:
    """Return the deep judgment settings of a trait, or None if the trait is scored without deep judgment.

    Deep judgment applies only to LLM traits of the kinds boolean, score and literal: a trait that fills a schema has no
    score to reason about.
    """
    if not isinstance(trait, LLMRubricTrait) or trait.kind == "template":
        return None
    searching = settings.deep_judgment_rubric_search_enabled
    match settings.deep_judgment_rubric_mode:
        case "enable_all":
            return _resolve(settings, settings.deep_judgment_rubric_global_excerpts, searching)
        case "use_checkpoint":
            own = read_trait_fields(trait)
            if own.deep_judgment_enabled:
                return _resolve(
                    settings,
                    own.deep_judgment_excerpt_enabled,
                    own.deep_judgment_search_enabled,
                    own.deep_judgment_max_excerpts,
                    own.deep_judgment_fuzzy_match_threshold,
                    own.deep_judgment_excerpt_retry_attempts,
                )
        case "custom" if settings.deep_judgment_rubric_config is not None:
            options = settings.deep_judgment_rubric_config.of(question_id, trait.name)
            if options is not None and options.enabled:
                return _resolve(
                    settings,
                    options.excerpt_enabled,
                    searching if options.search_enabled is None else options.search_enabled,
                    options.max_excerpts,
                    options.fuzzy_match_threshold,
                    options.excerpt_retry_attempts,
                )
    return None


def read_trait_fields(trait: LLMRubricTrait) -> TraitFields:
    """Return the deep judgment settings in a trait's own fields. Raises `ConfigError` if a value is invalid."""
    try:
        return TraitFields.model_validate(trait.extra)
    except ValidationError as error:
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        raise ConfigError([f"trait {trait.name!r}: {name}: {message}" for name, message in found]) from error


def check_traits(config: VerificationConfig, question: Question) -> None:
    """Raise `ConfigError` if a trait has an invalid setting, or combines deep judgment with `include_ground_truth`."""
    settings = settings_of(config)
    for trait in _traits(question):
        if isinstance(trait, LLMRubricTrait):
            read_trait_fields(trait)
            deep = resolve_trait_settings(trait, question.id, settings) is not None
            if deep and trait.extra.get("include_ground_truth"):
                raise ConfigError(
                    [
                        f"trait {trait.name!r} of question {question.id}: deep judgment never shows the ground truth; "
                        "remove include_ground_truth, or turn deep judgment off for the trait "
                        "(deep_judgment_rubric_mode)"
                    ]
                )


def _traits(question: Question) -> list[RubricTrait]:
    rubrics = (question.rubric, question.dynamic_rubric)
    return [trait for rubric in rubrics if rubric is not None for trait in rubric.traits]


def needs_search(config: VerificationConfig, question: Question) -> bool:
    """Return whether any of the question's traits needs a search."""
    settings = settings_of(config)
    found = [resolve_trait_settings(trait, question.id, settings) for trait in _traits(question)]
    return any(one is not None and one.search for one in found)


def _resolve(
    settings: DeepJudgmentSettings,
    excerpts: bool,
    search: bool,
    most: int | None = None,
    threshold: float | None = None,
    retries: int | None = None,
) -> ResolvedTraitSettings:
    limits = ExcerptLimits(
        settings.deep_judgment_rubric_max_excerpts_default if most is None else most,
        settings.deep_judgment_rubric_fuzzy_match_threshold_default if threshold is None else threshold,
        settings.deep_judgment_rubric_excerpt_retry_attempts_default if retries is None else retries,
        settings.deep_judgment_exact_facts,
    )
    return ResolvedTraitSettings(excerpts, limits, search and excerpts)
