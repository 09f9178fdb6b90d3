"""The settings for answer generation."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit.answers.few_shot import FewShotConfig


class GenerationSettings(BaseModel, defer_build=True):
    """The settings for answer generation."""

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
