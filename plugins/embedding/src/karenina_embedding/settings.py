"""The configuration names that this distribution owns."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import BaseModel, Field, field_validator

from karenina_core.models.from_files import FromFiles

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"


class EmbeddingSettings(BaseModel):
    """Whether, by which model and how strictly a wrong-looking answer is compared with the truth by meaning."""

    from_files: ClassVar[FromFiles] = "any"
    embedding_check_enabled: bool = Field(
        default=False,
        description="Where the fields are wrong, compare them with the truth by meaning, and ask the judge.",
        json_schema_extra={"env": "EMBEDDING_CHECK"},
    )
    embedding_check_model: str = Field(
        default=DEFAULT_MODEL,
        description="The embedding model: a name, or a folder of sentence-transformers with a slash (./folder).",
        json_schema_extra={"env": "EMBEDDING_CHECK_MODEL", "from_files": "name"},
    )
    embedding_check_threshold: float = Field(
        default=0.85,
        ge=0,
        le=1,
        description="From which cosine similarity, 0 to 1, the judge is asked; `karenina prompts` shows the request "
        "with 0.",
        json_schema_extra={"env": "EMBEDDING_CHECK_THRESHOLD"},
    )

    @field_validator("embedding_check_model")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError(f"name a model or a folder, such as {DEFAULT_MODEL}")
        return value.strip()
