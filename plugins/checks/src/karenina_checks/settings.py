"""Settings of this distribution."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.settings_models import AllowedInFiles


class ChecksSettings(BaseModel):
    """Settings of the checks before an answer is parsed."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    abstention_enabled: bool = Field(
        default=False, description="Ask the judge whether the answer abstains; such answers are not parsed."
    )
    sufficiency_enabled: bool = Field(
        default=False,
        description="Ask the judge whether the answer suffices to fill the template; others are not parsed.",
    )
