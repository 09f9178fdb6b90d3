"""The configuration names that this distribution owns."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from karenina_core.models.from_files import FromFiles


class RubricSettings(BaseModel):
    """Settings of rubric evaluation."""

    from_files: ClassVar[FromFiles] = "any"
    rubric_evaluation_strategy: Literal["batch", "sequential"] = Field(
        default="batch",
        description="Ask the judge for all LLM traits in one call, or for each in one of its own.",
    )
