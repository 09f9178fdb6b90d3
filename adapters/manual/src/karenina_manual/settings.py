"""Settings for the `manual` interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_toolkit import adapter_settings

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


class ManualExtra(StrictSettings):
    """`ModelConfig.extra` for `manual`, which selects the columns and rows of a file."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    id_field: str | None = Field(
        default=None, description="Column that contains the question id; by default, question_id, id or instance_id."
    )
    question_field: str | None = Field(
        default=None, description="Column that contains the question text; by default, question."
    )
    response_field: str | None = Field(
        default=None,
        description="Column that contains the recording; by default, the first of response, answer, trace, messages, "
        "trace_messages, exchanges and text.",
    )
    delimited: bool | None = Field(
        default=None,
        description="Whether text that looks like a conversation is read as one: a conversation in JSON, or text "
        "that begins with a heading such as '--- AI Message ---' (the format of the reference project) or with a "
        "role such as 'User:'. Without this setting, such text is an error; with false, the text is judged "
        "unchanged. The columns messages, trace and trace_messages, and entries with headings whose key is the MD5 of "
        "a question, are always read as conversations.",
    )
    model: str | None = Field(
        default=None,
        description="Use only rows with this value in the column 'model', and rows without a model.",
    )

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that may contain the question id, in order of preference."""
        return (self.id_field,) if self.id_field else ("question_id", "id", "instance_id")

    @property
    def questions(self) -> tuple[str, ...]:
        """The columns that may contain the question text."""
        return (self.question_field,) if self.question_field else ("question",)

    @property
    def responses(self) -> tuple[str, ...]:
        """The columns that may contain the recording, in order of preference."""
        if self.response_field:
            return (self.response_field,)
        return ("response", "answer", "trace", "messages", "trace_messages", "exchanges", "text")


def extra_of(model: ModelConfig) -> ManualExtra:
    """Return a model's validated `extra`. Raises `AdapterConfigError` if it is invalid."""
    return adapter_settings.extra_of(model, ManualExtra)
