"""Settings of this distribution."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.settings_models import AllowedInFiles


class ChecksSettings(BaseModel):
    """The checks of an answer before it is parsed."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    abstention_enabled: bool = Field(
        default=False, description="Ask the judge whether the answer is a refusal; refusals are not parsed."
    )
    sufficiency_enabled: bool = Field(
        default=False,
        description="Ask the judge whether the answer is sufficient to fill the template; others are not parsed.",
    )
