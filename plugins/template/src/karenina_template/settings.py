"""The configuration names that this distribution owns."""

from __future__ import annotations

from pydantic import BaseModel, Field


class TemplateSettings(BaseModel):
    """Settings of template parsing."""

    include_extraction_hints: bool = Field(
        default=True, description="Show the judge the extraction hints that template authors wrote."
    )
