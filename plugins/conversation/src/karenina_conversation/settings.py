"""Settings of conversations."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.model import ModelConfig
from karenina_core.models.settings_models import AllowedInFiles


class ConversationSettings(BaseModel, defer_build=True):
    """Settings of conversations."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    simulated_user: ModelConfig | None = Field(
        default=None,
        description="The model that plays the users of questions with `user`.",
        json_schema_extra={"allowed_in_files": "models", "option": "--user"},
    )
    check_user: bool = Field(
        default=False,
        description="Ask the judge whether a simulated user kept to its brief. Conversations in which it did not are "
        "not judged.",
    )
