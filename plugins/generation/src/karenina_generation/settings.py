"""Settings for answer generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from karenina_core.data.question import FewShotExample
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig


def _expand_short_form(mode: object) -> object:
    """Replace the short form `k` by `k-shot`. Returns any other value unchanged."""
    return "k-shot" if mode == "k" else mode


Mode = Annotated[Literal["none", "all", "k-shot", "custom"], BeforeValidator(_expand_short_form)]
Choice = Annotated[int, Field(ge=0)] | str
"""How to refer to an example of a question: by position (from 0), by its question, or by the MD5 of it."""


class QuestionFewShot(StrictSettings, defer_build=True):
    """The few-shot settings of one question, where they differ from the general ones."""

    mode: Mode | Literal["inherit"] = Field(
        default="inherit", description="The mode for this question; inherit uses the mode for all questions."
    )
    k: int | None = Field(
        default=None, ge=0, description="With k-shot: the number of examples, if different for this question."
    )
    selected_examples: tuple[Choice, ...] = Field(default=(), description="With custom: the examples, in this order.")
    excluded_examples: tuple[Choice, ...] = Field(default=(), description="Examples that are never used.")
    external_examples: tuple[FewShotExample, ...] = Field(default=(), description="Further examples, always used.")


class FewShotConfig(StrictSettings, defer_build=True):
    """The value of `few_shot_config`: which examples to show to a model before a question.

    Both the old and the new names of the reference project are accepted (`global_mode` is also `pool_mode`, and so on).
    `mode`, `k` and `external_examples` are short forms. With the mode `custom`, only the examples selected in
    `question_configs` are used.
    """

    enabled: bool = Field(default=True, description="Use examples.")
    source: Literal["disabled", "question_pool", "global", "both"] = Field(
        default="both",
        description="The source of examples: question_pool (each question's own), global (for all questions), both, or "
        "disabled (none).",
    )
    global_mode: Mode = Field(
        default="all",
        validation_alias=AliasChoices("global_mode", "pool_mode", "mode"),
        description="Which of a question's examples are used: none, all, k of them, or those selected.",
    )
    global_k: int = Field(
        default=3,
        ge=0,
        validation_alias=AliasChoices("global_k", "pool_k", "k"),
        description="With k-shot: the number of examples.",
    )
    seed: int = Field(default=0, description="With k-shot: the seed of the random selection.")
    question_configs: dict[str, QuestionFewShot] = Field(default={}, description="Examples by question id.")
    global_external_examples: tuple[FewShotExample, ...] = Field(
        default=(),
        validation_alias=AliasChoices("global_external_examples", "global_examples", "external_examples"),
        description="Examples for all questions, sent after their own, in every mode except none.",
    )


class GenerationSettings(BaseModel):
    """Settings for answer generation."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    few_shot_config: FewShotConfig | None = Field(
        default=None, description="Few-shot examples that answering models see before a question; none by default."
    )
    strip_reasoning: bool = Field(
        default=True,
        description="Separate thoughts before an answer (<think>...</think> and the like) and store them as reasoning, "
        "which judges do not see.",
    )


def few_shot_settings(config: VerificationConfig) -> FewShotConfig | None:
    """Return the few-shot settings, or None if no examples are used."""
    few_shot = config.section(GenerationSettings).few_shot_config
    return few_shot if few_shot is not None and few_shot.enabled and few_shot.source != "disabled" else None
