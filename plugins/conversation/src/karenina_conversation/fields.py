"""The fields that conversations add to questions, template fields and traits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from karenina_core.models.attachments import Attachment, read_attachments
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_core.text import did_you_mean
from karenina_template.templates.primitives import Primitive, known_primitives, primitive_from_json
from karenina_toolkit.conversations import MAX_TURNS, script_entries
from karenina_toolkit.printable import is_blank

_RESERVED = ("last", "all")


def _read_primitive(value: object) -> Primitive:
    """Return the value as a primitive, parsed from JSON if needed. Raises `ValueError` if it is not a valid primitive,
    or needs a ground truth.
    """
    try:
        primitive = value if isinstance(value, Primitive) else primitive_from_json(value)
    except ValidationError as error:
        raise _name_parameters(error, cast("Mapping[str, str]", value)["type"]) from None
    if not primitive.reads_trace:
        try:
            primitive.check_expected(None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{error}; use a primitive that needs no ground truth, such as TraceRegex") from None
    return primitive


def _name_parameters(error: ValidationError, name: str) -> ValidationError:
    """Return a copy of a primitive's validation error that suggests a known name for each unknown parameter."""
    lines: list[InitErrorDetails] = []
    for item in error.errors(include_url=False):
        kind, message = item["type"], item["msg"]
        if kind == "extra_forbidden":
            known = known_primitives()[name].model_fields
            near = did_you_mean(str(item["loc"][-1]), known)
            kind, message = "unknown_name", f"{name} has no such parameter{near or ', because it has none'}"
        problem = PydanticCustomError(kind, message)
        lines.append(InitErrorDetails(type=problem, loc=item["loc"], input=item["input"]))
    return ValidationError.from_exception_data(name, lines)


Said = Annotated[
    Primitive,
    PlainValidator(_read_primitive),
    PlainSerializer(lambda value: value.to_json()),
    WithJsonSchema({"type": "object", "required": ["type"]}),
]


def _refuse_blank(text: str) -> str:
    """Return the text. Raises `ValueError` if it is empty or blank."""
    if is_blank(text):
        raise ValueError("it must not be blank")
    return text


Words = Annotated[str, AfterValidator(_refuse_blank)]


_PATH: dict[str, JsonValue] = {"anyOf": [{"type": "string"}, {"type": "object"}]}
_PATHS = WithJsonSchema({"anyOf": [_PATH, {"type": "array", "items": _PATH}]})


class Condition(StrictSettings):
    """A condition on what the model did since the last message of the user."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    said: Said | None = Field(
        default=None, description="A primitive on the model's last answer, such as TraceRegex with a pattern."
    )
    tool: Words | None = Field(
        default=None, description="The name of a tool that the model called, with or without mcp__SERVER__."
    )
    not_said: Said | None = Field(
        default=None, description="A primitive on the model's last answer; the condition holds if it does not pass."
    )
    not_tool: Words | None = Field(default=None, description="The name of a tool that the model did not call.")

    @model_validator(mode="after")
    def _check_one_test(self) -> Self:
        """Return the condition. Raises `ValueError` unless it sets exactly one of its four fields."""
        if sum(value is not None for value in (self.said, self.tool, self.not_said, self.not_tool)) != 1:
            raise ValueError(
                "a condition must have exactly one of `said` (a primitive that tests the last answer), `tool` (the "
                "name of a tool) and their negations, `not_said` and `not_tool`"
            )
        return self


class Entry(StrictSettings):
    """An entry of a script: a message (`say`), with an optional condition and id, or a way out (`end`)."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    say: Words | None = Field(default=None, description="What the user says.")
    attachments: Annotated[tuple[Attachment, ...], BeforeValidator(read_attachments), _PATHS] = Field(
        default=(), description="Files that are sent with the message, as paths or as mappings with file and pages."
    )
    when: Condition | None = Field(default=None, description="Say it only if this holds.")
    id: str | None = Field(default=None, description="A name for the turn, for `turn`.")
    end: Condition | None = Field(default=None, description="End the conversation here if this holds.")

    @model_validator(mode="after")
    def _check_entry(self) -> Self:
        """Return the entry. Raises `ValueError` unless it is either a message, with an allowed id, or nothing but an
        `end`.
        """
        if (self.say is None) is (self.end is None):
            raise ValueError("an entry of `turns` must have either `say` (a message) or `end` (a condition)")
        if self.attachments and self.say is None:
            raise ValueError("`attachments` are sent with a message, so they need `say`")
        if self.end is not None and (self.when is not None or self.id is not None):
            raise ValueError("an `end` is not a turn, so it cannot have `when` or `id`")
        if self.id is not None and (self.id in _RESERVED or self.id.isdecimal() or not self.id.strip()):
            raise ValueError(
                f"the id of a turn must not be empty, a number, last or all, but it is {self.id!r}; choose another id"
            )
        return self


def _read_entry(value: object) -> object:
    """Return a plain text as an entry that says it, and a mapping unchanged. Raises `ValueError` for other values."""
    if not isinstance(value, str | Mapping | Entry):
        raise ValueError(f"write text in quotes, or a mapping with `say` or `end`, not {value!r:.60}")  # noqa: TRY004
    return {"say": value} if isinstance(value, str) else value


Says = Annotated[Entry, BeforeValidator(_read_entry, json_schema_input_type=Entry | str)]


def _read_turns(value: object) -> object:
    """Return the value of `turns` as a list of entries that are not validated yet.

    Raises `ValueError` for a value that is not a list, and for an empty list.
    """
    entries = script_entries(value)
    if not isinstance(entries, list | tuple):
        raise ValueError("write a list of messages, each either text or a mapping with `say`")  # noqa: TRY004
    if not entries:
        raise ValueError("the list is empty; write what the user says after the first answer, or remove `turns`")
    return entries


def _check_ids(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the entries. Raises `ValueError` if two of them have the same id."""
    ids = [entry.id for entry in entries if entry.id is not None]
    if twice := next((id for id in ids if ids.count(id) > 1), None):
        raise ValueError(f"two turns have the id {twice!r}; rename one of them")
    return entries


Turns = Annotated[
    tuple[Says, ...],
    BeforeValidator(_read_turns, json_schema_input_type=tuple[Says, ...] | str),
    AfterValidator(_check_ids),
]


class UserBrief(StrictSettings):
    """A user played by a model: who it is, what it knows, and what it wants."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    brief: Words = Field(description="Who the user is, and how the user behaves.")
    knows: dict[str, JsonValue] = Field(default={}, description="What the user knows, by name.")
    goal: Words | None = Field(default=None, description="What the user wants to reach.")
    max_turns: int = Field(
        default=MAX_TURNS,
        ge=1,
        strict=True,
        description="The most messages of the user, including the question, before it is stopped.",
    )
    at_limit: Literal["judge", "fail"] = Field(
        default="judge",
        description="What happens if the conversation is stopped at max_turns: it is judged as it is, or it fails.",
    )


def _read_user(value: object) -> object:
    """Return the value. Raises `ValueError` if it is not a mapping, such as null."""
    if not isinstance(value, Mapping | UserBrief):
        raise ValueError("write a mapping with `brief`, which says who the user is, or remove `user`")  # noqa: TRY004
    return value


class QuestionFields(BaseModel, defer_build=True):
    """Fields of questions."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    turns: Turns = Field(
        default=(),
        description="What the user says after the first answer: a list of messages (say) and ways out (end).",
    )

    user: Annotated[UserBrief | None, BeforeValidator(_read_user, json_schema_input_type=UserBrief)] = Field(
        default=None,
        description="A user played by the model `simulated_user`, who asks the question and goes on from there.",
    )

    @model_validator(mode="after")
    def _check_one_side(self) -> Self:
        """Return the fields. Raises `ValueError` if there are turns and a user."""
        if self.turns and self.user is not None:
            raise ValueError(
                "a question can have `turns` (a script) or `user` (played by a model), but not both; remove one"
            )
        return self


Number = Annotated[int, Field(ge=1)]


class OnlyTurn(StrictSettings):
    """A turn that is judged without the turns before it."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    only: Number | str = Field(description="The number or id of a turn, or last.")


def _read_turn(value: object) -> object:
    """Return the turn that a field or trait names: a number from 1, an id, `last`, `all`, or an `OnlyTurn` for a
    mapping `{only: ...}`. Raises `ValueError` for any other value.
    """
    only = isinstance(value, Mapping) and [*value] == ["only"]
    turn = value["only"] if isinstance(value, Mapping) and only else value
    is_number = isinstance(turn, int) and not isinstance(turn, bool) and turn >= 1
    if not is_number and not (isinstance(turn, str) and turn.strip()):
        raise ValueError(
            "write a turn number (1 is the question), a turn id, last, all, or a mapping such as {only: 2}"
        )
    if only and turn == "all":
        raise ValueError("`only` shows one turn; for the whole conversation, write turn: all")
    return OnlyTurn.model_validate({"only": turn}) if only else turn


TurnName = Annotated[int | str | OnlyTurn, PlainValidator(_read_turn, json_schema_input_type=Number | str | OnlyTurn)]


class TurnFields(BaseModel, defer_build=True):
    """Options of template fields, and fields of traits that read the answer's text."""

    trait_kinds: ClassVar[tuple[str, ...]] = ("llm", "regex", "callable", "metric")
    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    turn: TurnName | None = Field(
        default=None,
        description="The turn of a conversation that is read: its number (1 is the question) or id, last, or all; "
        "{only: 2} shows a judge this turn without those before it.",
    )
    missing_turn: Literal["undecided", "wrong"] = Field(
        default="undecided",
        description="How the field counts if its turn did not take place: by default, a turn that was left out does "
        "not count, and one that is missing because the conversation broke off is undecided.",
    )
