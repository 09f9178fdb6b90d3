"""`call_structured`: one structured question to a judge, with its one second chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from pydantic import ValidationError

from karenina_core.errors import StructuredError
from karenina_core.models.ports import (
    NO_INFO,
    NO_USAGE,
    CallInfo,
    Message,
    ParserPort,
    ParserReply,
    PortError,
    StructuredMode,
    Usage,
)
from karenina_core.text import join_problems
from karenina_toolkit.schema_description import describe_type
from karenina_toolkit.structured.reply_parser import is_complete, read_object
from karenina_toolkit.structured.schema_repair import repair_and_check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_CUT_OFF = "the reply was cut off at max_tokens"
_UNSAID = "its values are not accepted"


class InvalidReply(ValueError):
    """Raised by a `validate` function to tell the judge what is wrong with its reply.

    The message is sent to the judge: it must hold nothing that a judge may not see. The message of any other
    `ValueError` is not sent, because a template's own code may have written a ground truth into it.
    """


@dataclass(slots=True)
class StructuredResult(Generic[T]):
    """What a judge said, validated.

    `data` are the JSON values that `validate` got, `tries` the calls that were made, `repaired` whether the last
    reply was not clean JSON of the schema; `usage` sums all calls, also those whose reply could not be used.
    """

    value: T
    data: dict[str, Any]
    mode: StructuredMode
    tries: int
    repaired: bool
    usage: Usage
    model: str | None = None


async def call_structured(
    parser: ParserPort,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    validate: Callable[[dict[str, Any]], T],
    *,
    reasks: int = 1,
    info: CallInfo = NO_INFO,
) -> StructuredResult[T]:
    """Ask `parser` for a JSON object that fits `schema` and that `validate` accepts.

    The reply is read (`read_object`), repaired where that is unambiguous (`repair`), held against the schema
    (`misfits`: a required key that is missing is no reply, whatever defaults `validate` has), and handed to
    `validate`, which raises `ValueError` or `pydantic.ValidationError`. What is wrong is told to the judge and it is
    asked again, at most `reasks` times; of pydantic's errors it is told only those that pydantic itself words.

    Raises `StructuredError` when all tries fail. A `PortError` passes through; what the tries before it cost is
    `spent_before(error)`.
    """
    usage = NO_USAGE
    conversation = list(messages)
    tries = 0
    while True:
        try:
            reply = await parser.parse(conversation, schema, info=info)
        except PortError as error:
            vars(error)["spent_before"] = usage
            raise
        tries += 1
        usage += reply.usage
        try:
            data, repaired = _fitted(reply, schema)
            value = validate(data)
        except ValueError as error:
            told, full = _explain(error, reply)
            if tries > reasks:
                times = "once" if tries == 1 else f"{tries} times"
                raise StructuredError(
                    f"the judge was asked {times} and gave no usable reply: {full}",
                    tries,
                    usage,
                    reply.text,
                    complete=reply.finish_reason == "stop" and is_complete(reply.text),
                ) from error
            conversation = [*messages, *_second_chance(reply, told, schema)]
        else:
            return StructuredResult(value, data, reply.mode, tries, repaired, usage, reply.model)


def usage_before(error: PortError) -> Usage:
    """What `call_structured` had spent on earlier tries when `error` ended it; zero for errors from elsewhere."""
    spent = vars(error).get("spent_before")
    return spent if isinstance(spent, Usage) else Usage()


def _fitted(reply: ParserReply, schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    try:
        found, unpacked = read_object(reply.text, whole=reply.finish_reason == "length")
    except ValueError as error:
        raise InvalidReply(str(error)) from None
    try:
        data, repaired, problems = repair_and_check(found, schema)
    except RecursionError:
        raise InvalidReply("the JSON in the reply is nested too deeply") from None
    if problems:
        raise InvalidReply(join_problems(problems))
    return data, unpacked or repaired


def _explain(error: ValueError, reply: ParserReply) -> tuple[str, str]:
    """What the judge is told, and what the user is told."""
    if isinstance(error, ValidationError):
        told, full = _of_pydantic(error, everything=False), _of_pydantic(error, everything=True)
    elif isinstance(error, InvalidReply):
        told = full = str(error)
    else:
        told, full = _UNSAID, str(error)
    if reply.finish_reason == "length":
        return f"{_CUT_OFF}; {told}", f"{_CUT_OFF} ({full}); raise max_tokens or ask for less"
    return told, full


def _of_pydantic(error: ValidationError, *, everything: bool) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in problem["loc"]) or "the reply"
        own = problem["type"] in _pydantic_words()
        lines.append(f"{place}: {problem['msg'] if own or everything else 'this value is not accepted'}")
    return join_problems(lines)


@cache
def _pydantic_words() -> frozenset[str]:
    """The error types whose text is made of the schema and the input alone; code of a template writes the others."""
    from pydantic_core.core_schema import ErrorType

    return frozenset(get_args(ErrorType)) - {"value_error", "assertion_error", "default_factory_not_called"}


def _second_chance(reply: ParserReply, told: str, schema: Mapping[str, Any]) -> list[Message]:
    fields = join_problems(
        [f"{name}: {describe_type(part, schema)}" for name, part in schema.get("properties", {}).items()]
    )
    request = Message.user(
        f"Your reply cannot be used: {told}. "
        "Reply again, with one complete JSON object that fits the schema and nothing around it"
        + (f". Its fields: {fields}." if fields else ".")
    )
    # Several servers refuse an assistant message without text.
    return [Message.assistant(reply.text), request] if reply.text.strip() else [request]
