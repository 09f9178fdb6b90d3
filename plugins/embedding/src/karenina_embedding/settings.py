"""The settings of this distribution."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import BaseModel, Field, field_validator

from karenina_core.models.settings_models import AllowedInFiles

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"


class EmbeddingSettings(BaseModel, defer_build=True):
    """The settings for comparing failed fields with the ground truth by meaning."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    embedding_check_enabled: bool = Field(
        default=False,
        description="Compare fields that differ from the ground truth by meaning; if they are similar, the judge "
        "decides.",
        json_schema_extra={"env": "EMBEDDING_CHECK"},
    )
    embedding_check_model: str = Field(
        default=DEFAULT_MODEL,
        description="The embedding model: a name, or the path of a sentence-transformers folder, written with a slash "
        "(./folder).",
        json_schema_extra={"env": "EMBEDDING_CHECK_MODEL", "allowed_in_files": "name"},
    )
    embedding_check_threshold: float = Field(
        default=0.85,
        ge=0,
        le=1,
        description="The lowest cosine similarity (0 to 1) at which the judge is asked; with 0, `karenina prompts` "
        "shows the request.",
        json_schema_extra={"env": "EMBEDDING_CHECK_THRESHOLD"},
    )

    @field_validator("embedding_check_model")
    @classmethod
    def _named(cls, value: str) -> str:
        """Return the name without whitespace around it. Raises `ValueError` if it is blank."""
        if not value.strip():
            raise ValueError(f"the value must not be empty; set a model or a folder, such as {DEFAULT_MODEL}")
        return value.strip()
