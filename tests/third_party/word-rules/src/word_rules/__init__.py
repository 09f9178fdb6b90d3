"""A third-party plugin that owns a setting, fields of questions, traits and templates, and a primitive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from karenina_core import ArtifactKeys, Stage, VerificationContext, hookimpl
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.namespaces import read_owned
from karenina_template.templates import Primitive


class Settings(BaseModel):
    """In files: `word_rules.limit` and `word_rules.words_file`."""

    limit: int = Field(
        default=100,
        ge=1,
        description="The highest number of words of an answer.",
        json_schema_extra={"allowed_in_files": "any"},
    )
    words_file: Path | None = Field(default=None, description="A file with words.")


class QuestionSettings(BaseModel):
    """Fields of questions: `word_rules.level` and `word_rules.list`."""

    level: int = Field(
        default=1, ge=1, le=5, description="How hard it is.", json_schema_extra={"allowed_in_files": "any"}
    )
    list: Path | None = Field(default=None, description="A file with words.")


class FieldSettings(BaseModel):
    """Fields of templates: `word_rules.words` and `word_rules.stop`."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(extra="ignore")
    words: int = Field(default=3, ge=1, description="The highest number of words of a value.")
    stop: tuple[str, ...] = Field(default=(), description="Words that do not count.")


class TraitSettings(BaseModel):
    """Fields of traits: `word_rules.strict`."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    strict: bool = Field(default=False, description="Whether it is strict.")


class SameWords(Primitive):
    """Passes if the text has the words of the truth, in any order."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    ignore: tuple[str, ...] = Field(default=(), description="Words that do not matter.")

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the words are the same."""
        return isinstance(extracted, str) and self._words(extracted) == self._words(str(expected))

    def _words(self, text: str) -> set[str]:
        return set(text.casefold().split()) - set(self.ignore)


class WordRules(Stage):
    """Stores in the result the values that it is given."""

    name = "WordRules"
    requires = {ArtifactKeys.ANSWER_CLASS, ArtifactKeys.RAW_LLM_RESPONSE}
    settings = Settings
    question_settings = QuestionSettings
    field_settings = FieldSettings
    trait_settings = TraitSettings

    def execute(self, context: VerificationContext) -> None:
        """Store the values."""
        template = context.get_artifact(ArtifactKeys.ANSWER_CLASS)
        fields = {name: read_owned(FieldSettings, given) for name, given in template.options().items()}
        context.set_result_field("limit", context.setting("word_rules.limit"))
        context.set_result_field("level", context.question_settings.model_dump(mode="json")["level"])
        context.set_result_field("words", {name: found.words for name, found in fields.items()})


class plugin:
    """Offers the stage and the primitive."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Return the stage."""
        return [WordRules]

    @staticmethod
    @hookimpl
    def karenina_primitives() -> Sequence[type[Primitive]]:
        """Return the primitive."""
        return [SameWords]
