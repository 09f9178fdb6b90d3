"""Settings of this distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from karenina_core.data.question import FewShotExample
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig


def _expand_short_form(mode: object) -> object:
    return "k-shot" if mode == "k" else mode


Mode = Annotated[Literal["none", "all", "k-shot", "custom"], BeforeValidator(_expand_short_form)]
Choice = Annotated[int, Field(ge=0)] | str
"""An example: its position among the question's examples, from 0, its question, or the MD5 of its question."""


class QuestionFewShot(StrictSettings):
    """The examples of one question, if they differ from those of the others."""

    mode: Mode | Literal["inherit"] = Field(
        default="inherit", description="Mode of this question; inherit uses the mode of all questions."
    )
    k: int | None = Field(default=None, ge=0, description="With k-shot: number of examples, if it differs.")
    selected_examples: tuple[Choice, ...] = Field(default=(), description="With custom: the examples, in this order.")
    excluded_examples: tuple[Choice, ...] = Field(default=(), description="Examples that are never used.")
    external_examples: tuple[FewShotExample, ...] = Field(default=(), description="Further examples, always used.")


class FewShotConfig(StrictSettings):
    """The value of `few_shot_config`: the examples that a model sees before a question.

    Both generations of names of the reference project are accepted (`global_mode` is also `pool_mode`, and so on);
    `mode`, `k` and `external_examples` are short forms.
    `custom` uses the examples that `question_configs` selects, and none for other questions.
    """

    enabled: bool = Field(default=True, description="Use examples.")
    source: Literal["disabled", "question_pool", "global", "both"] = Field(
        default="both",
        description="Source of examples: those of each question, those for all questions, both, or none.",
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
        description="With k-shot: number of examples.",
    )
    seed: int = Field(default=0, description="With k-shot: seed of the random selection.")
    question_configs: dict[str, QuestionFewShot] = Field(default={}, description="Examples by question id.")
    global_external_examples: tuple[FewShotExample, ...] = Field(
        default=(),
        validation_alias=AliasChoices("global_external_examples", "global_examples", "external_examples"),
        description="Examples for all questions, after their own, in every mode except none.",
    )


class GenerationSettings(BaseModel):
    """Settings of answer generation."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    few_shot_config: FewShotConfig | None = Field(
        default=None, description="Examples that answering models see before a question; none by default."
    )
    strip_reasoning: bool = Field(
        default=True,
        description="Store thoughts before an answer (<think>...</think> and the like) as reasoning, which judges do "
        "not see.",
    )


def few_shot_settings(config: VerificationConfig) -> FewShotConfig | None:
    """Return the configuration of examples, or None if no examples are used."""
    found = config.section(GenerationSettings).few_shot_config
    return found if found is not None and found.enabled and found.source != "disabled" else None
