"""Settings of this distribution."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.models.settings_models import AllowedInFiles


class RubricSettings(BaseModel):
    """Settings of rubric evaluation."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    rubric_evaluation_strategy: Literal["batch", "sequential"] = Field(
        default="batch",
        description="Score all LLM traits in one call to the judge, or each trait in its own call.",
    )


class TraitFields(BaseModel, defer_build=True):
    """Fields that this distribution adds to LLM traits."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    include_ground_truth: bool = Field(
        default=False, description="Show the judge the question's reference answer (raw_answer) beside the response."
    )
