"""The settings for deep judgment, in general and for individual traits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.errors import ConfigError
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig


Mode = Literal["disabled", "reasoning_only", "full"]
USUAL_TOOL: Final = "tavily"
_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"allowed_in_files": "never"}  # a search sends text to a service
RubricMode = Literal["disabled", "enable_all", "use_checkpoint", "custom"]


class SearchFunction(BaseModel, defer_build=True):
    """A search function passed in Python. Files only contain its name, so it cannot be loaded from them."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="The module and name of the function.")
    function: Callable[[str], str | Awaitable[str]] = Field(
        exclude=True, description="A function that takes a query and returns text."
    )


def _search(default: object, description: str) -> Any:
    """Return the field for a search setting, which files cannot set."""
    return Field(default=default, description=description, json_schema_extra=_NOT_FROM_FILES)


def _wrap_function(chosen: object) -> object:
    """Return a callable as a `SearchFunction`, and any other value unchanged."""
    if not callable(chosen):
        return chosen
    name = getattr(chosen, "__qualname__", type(chosen).__qualname__)
    return SearchFunction(name=f"{getattr(chosen, '__module__', None)}.{name}", function=chosen)


SearchChoice = Annotated[str | SearchFunction, BeforeValidator(_wrap_function), WithJsonSchema({"type": "string"})]


class TraitSettings(StrictSettings):
    """The settings for a single trait in `deep_judgment_rubric_config`.

    If a value is None, the general setting applies.
    """

    enabled: bool = Field(default=True, description="Score the trait from excerpts and reasoning.")
    excerpt_enabled: bool = Field(default=True, description="Require verbatim excerpts.")
    max_excerpts: int | None = Field(default=None, ge=1, description="Maximum number of excerpts.")
    fuzzy_match_threshold: float | None = Field(
        default=None, ge=0, le=1, description="Lowest similarity, from 0 to 1, at which an excerpt counts as found."
    )
    excerpt_retry_attempts: int | None = Field(
        default=None, ge=0, description="Number of retries if no excerpt was found."
    )
    search_enabled: bool | None = Field(default=None, description="Check excerpts with a search tool.")


class TraitFields(BaseModel, defer_build=True):
    """A trait's deep judgment settings in a benchmark.

    They are used if `deep_judgment_rubric_mode` is `use_checkpoint`. If a value is None, the number in the
    configuration applies.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    deep_judgment_enabled: bool = Field(default=False, description="Score the trait from excerpts and reasoning.")
    deep_judgment_excerpt_enabled: bool = Field(default=True, description="Require verbatim excerpts.")
    deep_judgment_max_excerpts: int | None = Field(default=None, ge=1, description="Maximum number of excerpts.")
    deep_judgment_fuzzy_match_threshold: float | None = Field(
        default=None, ge=0, le=1, description="Lowest similarity, from 0 to 1, at which an excerpt counts as found."
    )
    deep_judgment_excerpt_retry_attempts: int | None = Field(
        default=None, ge=0, description="Number of retries if no excerpt was found."
    )
    deep_judgment_search_enabled: bool = Field(
        default=False,
        description="Check excerpts with a search tool.",
        json_schema_extra={"allowed_in_files": "never"},
    )


class RubricTraitSettings(StrictSettings):
    """The value of `deep_judgment_rubric_config`: the settings for traits, keyed by name.

    Settings in `question_specific` replace those in `global`. Traits that are in neither are scored without deep
    judgment. The Python attribute for `global` is `everywhere`.
    """

    model_config = ConfigDict(populate_by_name=True)

    everywhere: dict[str, TraitSettings] = Field(
        default={}, alias="global", description="Trait settings for all questions, keyed by trait name."
    )
    question_specific: dict[str, dict[str, TraitSettings]] = Field(
        default={}, description="Trait settings for single questions, keyed by question id and then by trait name."
    )

    def of(self, question_id: str, trait: str) -> TraitSettings | None:
        """Return the settings for a trait, or None if it is scored without deep judgment."""
        return self.question_specific.get(question_id, {}).get(trait) or self.everywhere.get(trait)


class DeepJudgmentSettings(BaseModel, defer_build=True):
    """The deep judgment settings for templates and rubric traits."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    deep_judgment_enabled: bool = Field(
        default=False,
        description="Parse templates with excerpts and reasoning, which is equivalent to deep_judgment_mode full.",
    )
    deep_judgment_mode: Mode = Field(
        default="disabled",
        description="Parse templates without deep judgment, with reasoning, or with excerpts and reasoning.",
    )
    deep_judgment_max_excerpts_per_attribute: int = Field(
        default=3, ge=1, description="Maximum number of excerpts for one attribute."
    )
    deep_judgment_exact_facts: bool = Field(
        default=True,
        description="Require numbers and negations in excerpts, including those for traits, to agree with the "
        "response.",
    )
    deep_judgment_fuzzy_match_threshold: float = Field(
        default=0.80, ge=0, le=1, description="Lowest similarity, from 0 to 1, at which an excerpt counts as found."
    )
    deep_judgment_excerpt_retry_attempts: int = Field(
        default=2, ge=0, description="Number of retries if no excerpt was found for an attribute."
    )
    deep_judgment_search_enabled: bool = _search(
        False, "Search for the excerpts with a search tool, and assess the risk that they are invented."
    )
    deep_judgment_search_tool: SearchChoice = _search(
        USUAL_TOOL, "Name of the search tool or, in Python, a function that takes a query and returns text."
    )
    deep_judgment_rubric_mode: RubricMode = Field(
        default="disabled",
        description="Which LLM traits are scored from excerpts and reasoning: none, all, those marked in the "
        "benchmark, or those in deep_judgment_rubric_config.",
    )
    deep_judgment_rubric_global_excerpts: bool = Field(
        default=True, description="With enable_all, require excerpts, not reasoning alone."
    )
    deep_judgment_rubric_config: RubricTraitSettings | None = Field(
        default=None,
        validate_default=True,
        description="With custom, the traits to score from excerpts and reasoning, and their settings.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    deep_judgment_rubric_max_excerpts_default: int = Field(
        default=7, ge=1, description="Maximum number of excerpts for one trait."
    )
    deep_judgment_rubric_fuzzy_match_threshold_default: float = Field(
        default=0.80,
        ge=0,
        le=1,
        description="Lowest similarity, from 0 to 1, at which an excerpt for a trait counts as found.",
    )
    deep_judgment_rubric_excerpt_retry_attempts_default: int = Field(
        default=2, ge=0, description="Number of retries if no excerpt was found for a trait."
    )
    deep_judgment_rubric_search_enabled: bool = _search(
        False, "Search for the excerpts of traits that have no search setting of their own."
    )
    deep_judgment_rubric_search_tool: SearchChoice = _search(
        USUAL_TOOL, "The search tool for traits, like deep_judgment_search_tool."
    )

    @field_validator("deep_judgment_mode")
    @classmethod
    def _not_on_and_off(cls, mode: Mode, info: ValidationInfo) -> Mode:
        """Return the mode. Raises `ValueError` if it is `disabled` but `deep_judgment_enabled` is true."""
        if mode == "disabled" and info.data.get("deep_judgment_enabled"):
            raise ValueError(
                "deep_judgment_enabled is true, but deep_judgment_mode is disabled; remove one of the two settings"
            )
        return mode

    @model_validator(mode="after")
    def _enabled_is_full(self) -> Self:
        """Set the mode to `full` if `deep_judgment_enabled` is true and no mode is set."""
        if self.deep_judgment_enabled and self.deep_judgment_mode == "disabled":
            object.__setattr__(self, "deep_judgment_mode", "full")
        return self

    @field_validator("deep_judgment_search_enabled")
    @classmethod
    def _search_needs_excerpts(cls, searches: bool, info: ValidationInfo) -> bool:
        """Return the setting. Raises `ValueError` if searches are enabled in the mode `reasoning_only`, which has no
        excerpts.
        """
        if searches and info.data.get("deep_judgment_mode") == "reasoning_only":
            raise ValueError(
                "a search needs excerpts, but there are none if deep_judgment_mode is reasoning_only; set "
                "deep_judgment_mode to full, or deep_judgment_search_enabled to false"
            )
        return searches

    @field_validator("deep_judgment_rubric_config")
    @classmethod
    def _only_for_custom(cls, wishes: RubricTraitSettings | None, info: ValidationInfo) -> RubricTraitSettings | None:
        """Return the settings. Raises `ValueError` if they are missing in `custom` mode, or given in any other mode."""
        mode = info.data.get("deep_judgment_rubric_mode")
        if mode == "custom" and wishes is None:
            raise ValueError(
                "deep_judgment_rubric_mode is custom, which requires this setting; list the traits and their settings"
            )
        if mode not in ("custom", None) and wishes is not None:
            raise ValueError(
                f"this setting has an effect only if deep_judgment_rubric_mode is custom, but the mode is {mode}; "
                "change the mode, or remove this setting"
            )
        return wishes


class ExcerptLimits(NamedTuple):
    """Limits on excerpts: the maximum number per item (`most`), the minimum similarity (`threshold`), and the retries.

    With `exact_facts`, numbers and negations must be the same as in the text.
    """

    most: int
    threshold: float
    retries: int
    exact_facts: bool


def settings_of(config: VerificationConfig) -> DeepJudgmentSettings:
    """Return the deep judgment settings in a configuration."""
    return config.section(DeepJudgmentSettings)


class ResolvedTraitSettings(NamedTuple):
    """The settings that apply to a trait: whether it needs excerpts, their limits, and whether to search."""

    excerpts: bool
    limits: ExcerptLimits
    search: bool


def resolve_trait_settings(
    trait: RubricTrait, question_id: str, settings: DeepJudgmentSettings
) -> ResolvedTraitSettings | None:
    """Return the settings that apply to a trait, or None if it is scored without deep judgment, which is only available
    for LLM traits of the kinds boolean, score and literal. Raises `ConfigError` if the mode is `use_checkpoint` and the
    trait's own settings are invalid.

    For a trait that fills a schema, there is no score to reason about.
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
    """Return the deep judgment settings in a trait's own fields. Raises `ConfigError` if any of them is invalid."""
    try:
        return TraitFields.model_validate(trait.extra)
    except ValidationError as error:
        problems = [(".".join(map(str, detail["loc"])), detail["msg"]) for detail in error.errors(include_url=False)]
        raise ConfigError([f"trait {trait.name!r}, {name}: {message}" for name, message in problems]) from error


def check_traits(config: VerificationConfig, question: Question) -> None:
    """Raise `ConfigError` if a trait has an invalid setting, or needs both deep judgment and the ground truth."""
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
    """Return a question's static traits, followed by its dynamic ones."""
    rubrics = (question.rubric, question.dynamic_rubric)
    return [trait for rubric in rubrics if rubric is not None for trait in rubric.traits]


def needs_search(config: VerificationConfig, question: Question) -> bool:
    """Return whether any of the question's traits needs a search."""
    settings = settings_of(config)
    resolved = [resolve_trait_settings(trait, question.id, settings) for trait in _traits(question)]
    return any(setting is not None and setting.search for setting in resolved)


def _resolve(
    settings: DeepJudgmentSettings,
    excerpts: bool,
    search: bool,
    most: int | None = None,
    threshold: float | None = None,
    retries: int | None = None,
) -> ResolvedTraitSettings:
    """Return a trait's settings, with the defaults in the configuration for those that are None. Without excerpts,
    `search` has no effect.
    """
    limits = ExcerptLimits(
        settings.deep_judgment_rubric_max_excerpts_default if most is None else most,
        settings.deep_judgment_rubric_fuzzy_match_threshold_default if threshold is None else threshold,
        settings.deep_judgment_rubric_excerpt_retry_attempts_default if retries is None else retries,
        settings.deep_judgment_exact_facts,
    )
    return ResolvedTraitSettings(excerpts, limits, search and excerpts)
