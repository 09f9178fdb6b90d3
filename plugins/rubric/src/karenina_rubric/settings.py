"""The configuration names that this distribution owns."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class RubricSettings(BaseModel):
    """Settings of rubric evaluation."""

    rubric_evaluation_strategy: Literal["batch", "sequential"] = Field(
        default="batch",
        description="Ask the judge for all LLM traits in one call, or for each in one of its own.",
    )
