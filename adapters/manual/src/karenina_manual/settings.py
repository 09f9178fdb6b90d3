"""What can be set for the `manual` interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from karenina_core.models import adapters
from karenina_core.models.from_files import FromFiles
from karenina_core.models.strict_settings import StrictSettings

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


class ManualExtra(StrictSettings):
    """`ModelConfig.extra` of the `manual` interface: which columns and rows of a file of rows count."""

    from_files: ClassVar[FromFiles] = "any"

    id_field: str | None = Field(default=None, description="Column of the question id; else question_id or id.")
    question_field: str | None = Field(default=None, description="Column of the question's text; else question.")
    response_field: str | None = Field(
        default=None,
        description="Column of the recording; else the first of response, answer, trace, messages, trace_messages, "
        "exchanges and text.",
    )
    delimited: bool = Field(
        default=False,
        description="Text that begins with a heading such as '--- AI Message ---' is a conversation, as the reference "
        "project writes it. That of entries whose key is the MD5 of a question always is.",
    )
    model: str | None = Field(
        default=None,
        description="Only rows whose column 'model' says this, and rows without one: a file may hold several models.",
    )

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that may hold the id, the first that is there counts."""
        return (self.id_field,) if self.id_field else ("question_id", "id")

    @property
    def questions(self) -> tuple[str, ...]:
        """The columns that may hold the question's text."""
        return (self.question_field,) if self.question_field else ("question",)

    @property
    def responses(self) -> tuple[str, ...]:
        """The columns that may hold the recording."""
        if self.response_field:
            return (self.response_field,)
        return ("response", "answer", "trace", "messages", "trace_messages", "exchanges", "text")


def extra_of(model: ModelConfig) -> ManualExtra:
    """The validated `extra` of `model`. Raises `AdapterConfigError`."""
    return adapters.extra_of(model, ManualExtra)
