"""Questions, their correct answers, and how answers to them are judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self
from uuid import NAMESPACE_URL, uuid5

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    field_validator,
    model_validator,
)

from karenina_core.data.rubrics import DynamicRubric, Rubric
from karenina_core.models.attachments import Attachment, read_attachments
from karenina_core.text import compose


def question_id(text: str, attachments: Iterable[Attachment] = ()) -> str:
    """Return a question's default id, a URN that depends only on `text` in NFC form and on the attachments' paths."""
    files = "".join(f"\0{file.source}\0{file.pages or ''}" for file in attachments)
    return uuid5(NAMESPACE_URL, f"karenina:question:{compose(text + files)}").urn


class FewShotExample(BaseModel, defer_build=True):
    """An example for an answering model: another question and its answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field(min_length=1, description="The example question.")
    answer: str = Field(description="The answer to the example question.")


class Question(BaseModel, defer_build=True):
    """A question in a benchmark.

    Questions are immutable. Use `changed` to get a changed copy, and `Benchmark.replace` to store it.

    `answer_template` is source code or a class. A class is considered your own code: it is trusted, available as
    `answer_class`, and saved as source code. Source code is only loaded when needed (`template_of`). A blank template
    or an empty rubric becomes None. `id` defaults to a URN based on the text and the paths of attachments. Raises
    pydantic's `ValidationError` (a `ValueError`) if the text is empty or a field has the wrong type.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(default="", description="The question's id, unique within a benchmark; results are paired by id.")
    question: str = Field(min_length=1, description="The text that is sent to the answering model.")
    raw_answer: str | None = Field(default=None, description="The correct answer as text for human readers.")
    answer_template: str | None = Field(default=None, description="The source of the answer template.")
    attachments: Annotated[tuple[Attachment, ...], BeforeValidator(read_attachments)] = Field(
        default=(), description="Files that are sent with the question, as paths or as mappings with file and pages."
    )
    keywords: tuple[str, ...] = Field(default=(), description="Words for selecting and grouping questions.")
    few_shot_examples: tuple[FewShotExample, ...] = Field(default=(), description="Examples shown before the question.")
    rubric: Rubric | None = Field(default=None, description="Traits for this question only.")
    dynamic_rubric: DynamicRubric | None = Field(
        default=None, description="Traits that are scored only for answers that contain their concept."
    )
    workspace_path: str | None = Field(default=None, description="Folder or tar archive below the workspace root.")
    author: JsonValue = Field(default=None, description="Who wrote the question.")
    sources: JsonValue = Field(default=None, description="Where the question comes from.")
    metadata: dict[str, JsonValue] = Field(default_factory=dict, description="Further information about the question.")
    date_created: str | None = Field(default=None, description="When the question was added (ISO 8601).")
    date_modified: str | None = Field(default=None, description="When the question was last changed (ISO 8601).")
    extra: dict[str, JsonValue] = Field(
        default_factory=dict, description="Fields owned by plugins (`Stage.question_settings`), keyed by full name."
    )
    unread: dict[str, JsonValue] = Field(
        default_factory=dict, description="Fields that this version does not know; they are saved unchanged."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _keep_the_class(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Build the question, with a template class in `answer_class` instead of `answer_template`, and with an id
        derived from its text and attachments if it has none.
        """
        answer_class: object = None
        if isinstance(data, (dict, Mapping)) and isinstance(data.get("answer_template"), type):
            answer_class = data["answer_template"]
            data = {**data, "answer_template": None}
        question = handler(data)
        if isinstance(answer_class, type):
            question._keep("answer_class", answer_class)
        if not question.id:
            object.__setattr__(question, "id", question_id(question.question, question.attachments))
        return question

    @field_validator("question", "id")
    @classmethod
    def _visible(cls, text: str) -> str:
        """Raise `ValueError` if `text` consists only of whitespace. An empty string is accepted."""
        if text and not text.strip():
            raise ValueError("the text has no visible characters")
        return text

    @field_validator("answer_template")
    @classmethod
    def _blank_is_none(cls, source: str | None) -> str | None:
        return source if source and source.strip() else None

    @field_validator("rubric", "dynamic_rubric")
    @classmethod
    def _empty_is_none(cls, rubric: Rubric | None) -> Rubric | None:
        return rubric or None

    @property
    def answer_class(self) -> type[Any] | None:
        """The template class, or None if the template was not given as a class."""
        return (self.__pydantic_private__ or {}).get("answer_class")

    @property
    def has_template(self) -> bool:
        """Whether there is a template, either a class or source code. The template is not loaded."""
        return self.answer_class is not None or self.answer_template is not None

    @property
    def derived(self) -> object:
        """The value last stored with `keep_derived`, or None."""
        return (self.__pydantic_private__ or {}).get("derived")

    def keep_derived(self, value: object) -> None:
        """Keep a value derived from the question, such as its loaded template. Comparisons ignore it."""
        self._keep("derived", value)

    def _keep(self, name: str, value: object) -> None:
        """Keep a value where pydantic keeps private attributes; declaring them doubles the time to build a question."""
        object.__setattr__(self, "__pydantic_private__", {**(self.__pydantic_private__ or {}), name: value})

    def trait_names(self) -> tuple[str, ...]:
        """Return the names of the question's traits, with static traits before dynamic ones."""
        return tuple(name for rubric in (self.rubric, self.dynamic_rubric) if rubric for name in rubric.names)

    def changed(self, **changes: Any) -> Self:
        """Return a validated copy with the given fields changed. Other fields, including `id`, stay the same. The value
        stored with `keep_derived` is not copied.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        if self.answer_class is not None:
            values["answer_template"] = self.answer_class
        return type(self).model_validate({**values, **changes})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Question):
            return NotImplemented
        same_files = [file.source for file in self.attachments] == [file.source for file in other.attachments]
        return same_files and self.__dict__ == other.__dict__ and self.answer_class is other.answer_class

    def __hash__(self) -> int:
        return hash((self.id, self.question))
