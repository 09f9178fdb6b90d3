"""The settings of this distribution."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.from_files import FromFiles


class DraftingSettings(BaseModel):
    """Settings of drafts."""

    from_files: ClassVar[FromFiles] = "never"
    draft_templates: bool = Field(
        default=False, description="Draft a template for each question; `karenina draft` sets it."
    )
    draft_tries: int = Field(
        default=3, ge=1, le=10, description="How often a model may draft the template of a question."
    )
