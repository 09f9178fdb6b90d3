"""The configuration names that this distribution owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from karenina_core.data.question import FewShotExample
from karenina_core.models.from_files import FromFiles
from karenina_core.models.strict_settings import StrictSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig


def _expand_short_form(mode: object) -> object:
    return "k-shot" if mode == "k" else mode


Mode = Annotated[Literal["none", "all", "k-shot", "custom"], BeforeValidator(_expand_short_form)]
Choice = Annotated[int, Field(ge=0)] | str
"""An example by its place among the question's examples, from 0; by its question; or by the MD5 of its question."""


class QuestionFewShot(StrictSettings):
    """Which examples one question is shown, where it differs from the others."""

    mode: Mode | Literal["inherit"] = Field(default="inherit", description="As for all questions, or its own.")
    k: int | None = Field(default=None, ge=0, description="With k-shot: how many, where it differs.")
    selected_examples: tuple[Choice, ...] = Field(default=(), description="With custom: which, in this order.")
    excluded_examples: tuple[Choice, ...] = Field(default=(), description="Which are never shown.")
    external_examples: tuple[FewShotExample, ...] = Field(default=(), description="Further ones, shown always.")


class FewShotConfig(StrictSettings):
    """The value of `few_shot_config`: which examples a model is shown before it is asked a question.

    Both generations of names of the reference project are accepted (`global_mode` is also `pool_mode`, and so on);
    `mode`, `k` and `external_examples` are short forms.
    `custom` shows what `question_configs` selects, and nothing to questions that are not in it.
    """

    enabled: bool = Field(default=True, description="Show examples.")
    source: Literal["disabled", "question_pool", "global", "both"] = Field(
        default="both", description="Show the examples of the questions, those for all questions, both, or none."
    )
    global_mode: Mode = Field(
        default="all",
        validation_alias=AliasChoices("global_mode", "pool_mode", "mode"),
        description="Which of a question's examples: none, all, k of them, or those that are selected.",
    )
    global_k: int = Field(
        default=3, ge=0, validation_alias=AliasChoices("global_k", "pool_k", "k"), description="With k-shot: how many."
    )
    seed: int = Field(default=0, description="With k-shot: which; the same seed draws the same ones.")
    question_configs: dict[str, QuestionFewShot] = Field(default={}, description="By question id.")
    global_external_examples: tuple[FewShotExample, ...] = Field(
        default=(),
        validation_alias=AliasChoices("global_external_examples", "global_examples", "external_examples"),
        description="Examples for all questions, after their own, in every mode but none.",
    )


class GenerationSettings(BaseModel):
    """Settings of answer generation."""

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(frozen=True)

    few_shot_config: FewShotConfig | None = Field(
        default=None, description="Examples that answering models are shown before a question; none where absent."
    )
    strip_reasoning: bool = Field(
        default=True, description="Keep <think>...</think> before an answer as reasoning, which judges do not see."
    )


def few_shot_settings(config: VerificationConfig) -> FewShotConfig | None:
    """What the configuration says about examples; None where none are to be shown."""
    found = config.section(GenerationSettings).few_shot_config
    return found if found is not None and found.enabled and found.source != "disabled" else None
