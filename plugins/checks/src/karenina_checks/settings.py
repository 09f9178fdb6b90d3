"""The configuration names that this distribution owns."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.from_files import FromFiles


class ChecksSettings(BaseModel):
    """Which checks look at an answer before it is parsed."""

    from_files: ClassVar[FromFiles] = "any"
    abstention_enabled: bool = Field(
        default=False, description="Ask the judge whether the answer is a refusal, and do not parse those that are."
    )
    sufficiency_enabled: bool = Field(
        default=False,
        description="Ask the judge whether the answer says enough to fill the template, and do not parse it if not.",
    )
