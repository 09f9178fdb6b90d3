"""Requests to a judge for structured output, with one retry."""

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
    StructuredMode,
    Usage,
)
from karenina_core.text import join_problems
from karenina_toolkit.fences import restore_special_tokens
from karenina_toolkit.structured.reply_parser import is_complete, read_object
from karenina_toolkit.structured.schema_forms import describe_type
from karenina_toolkit.structured.schema_repair import repair_and_check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karenina_core.models.attachments import Attachment
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.prompts import PromptTask
    from karenina_core.stages.context import VerificationContext

T = TypeVar("T")

REFUSAL = "Your reply cannot be used: "
"""The beginning of the message that asks a model for another reply."""
_JUDGE = "the judge"
_CUT_OFF = "the reply was cut off at max_tokens"
_NOT_ACCEPTED = "its values are not accepted"
_FILTERED = (
    "{who}'s provider stopped the reply with a content filter{why}; choose another {kind} for this item, "
    "or relax the filter"
)
_CALL_ARGUMENTS = ("arguments", "parameters")


class InvalidReply(ValueError):
    """Raised by a `validate` function to tell the judge what is wrong with its reply.

    The message is sent to the judge, so it must not contain anything that the judge should not see. The messages of
    other `ValueError`s are not sent, because a template's code may have put ground truth in them.
    """


@dataclass(slots=True)
class StructuredResult(Generic[T]):
    """A judge's validated reply.

    `data` is the object passed to `validate`. `tries` is the number of calls, and `usage` is their total usage.
    `repaired` is true if the last reply had to be extracted or repaired. `option_logprobs` comes from the last reply
    (see `ParserReply`).
    """

    value: T
    data: dict[str, Any]
    mode: StructuredMode
    tries: int
    repaired: bool
    usage: Usage
    model: str | None = None
    option_logprobs: Mapping[str, float] | None = None


async def ask(
    context: VerificationContext,
    task: PromptTask,
    user: str,
    schema: Mapping[str, Any],
    validate: Callable[[dict[str, Any]], T],
    model: ModelConfig | None = None,
    *,
    attachments: tuple[Attachment, ...] = (),
) -> StructuredResult[T]:
    """Ask a judge, by default the item's, to fill in `schema` with the prompt for `task` and its message `user`, a
    second time if the reply does not match `schema` or `validate` rejects it, and return the result of `validate` with
    facts about the reply. Raises `PortError` if a call fails, and `StructuredError` if no reply is accepted. If the
    last reply was incomplete, the item then counts as failed, and a resumed run runs it again.

    The message has the `attachments`. `validate` converts the object, as in `call_structured`. A reply that the
    provider's filter stopped is not asked for again.
    """
    form = _Form(context.prompt(task, user, model, attachments=attachments), schema, validate)
    parser = context.parser(model)
    try:
        while True:
            result = form.read(await parser.parse(form.messages, schema))
            if result is not None:
                return result
    except StructuredError as error:
        if not error.complete:
            context.count_failure()  # no reply was complete, so a resumed run runs the item again
        raise


async def call_structured(
    parser: ParserPort,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    validate: Callable[[dict[str, Any]], T],
    *,
    reasks: int = 1,
    info: CallInfo = NO_INFO,
    who: str = _JUDGE,
) -> StructuredResult[T]:
    """Request a JSON object from `parser` that matches `schema` and is accepted by `validate`, and return the result of
    `validate` with facts about the reply. Any other reply is sent back with the reason, at most `reasks` times, unless
    the provider's filter stopped it. Raises `StructuredError` if no reply is accepted, and `PortError` if a call fails.

    1. `read_object` reads the object from the reply, and `repair` makes unambiguous repairs.
    2. `find_mismatches` compares the object with the schema. A missing required key is an error, whether or not
       `validate` has a default for it.
    3. `validate` converts the object. It raises `ValueError` or `pydantic.ValidationError` to reject the object.

    Only two kinds of messages are sent to the judge: those written by pydantic itself, and those of an `InvalidReply`.
    Error messages refer to the model as `who`.
    """
    form = _Form(messages, schema, validate, reasks, who)
    while True:
        result = form.read(await parser.parse(form.messages, schema, info=info))
        if result is not None:
            return result


class _Form(Generic[T]):
    """A form for a judge to fill in. `messages` are the messages of the next request."""

    def __init__(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        validate: Callable[[dict[str, Any]], T],
        reasks: int = 1,
        who: str = _JUDGE,
    ) -> None:
        self.messages = self._first = list(messages)
        self._schema = schema
        self._validate = validate
        self._reasks = reasks
        self._who = who
        self._tries = 0
        self._usage = NO_USAGE

    def read(self, reply: ParserReply) -> StructuredResult[T] | None:
        """Return the result, or None if the judge should be asked again with the updated `messages`. Raises
        `StructuredError` after the last attempt, or if the reply was filtered.
        """
        self._tries += 1
        self._usage += reply.usage
        try:
            data, repaired = _read_and_repair(reply, self._schema)
            value = self._validate(data)
        except ValueError as error:
            for_judge, full = _explain(error, reply, self._who)
            filtered = reply.finish_reason == "content_filter"
            if self._tries > self._reasks or filtered:
                times = "to one request" if self._tries == 1 else f"to {self._tries} requests"
                raise StructuredError(
                    f"{self._who} gave no usable reply {times}: {full}",
                    self._tries,
                    self._usage,
                    reply.text,
                    complete=reply.finish_reason == "stop" and is_complete(reply.text),
                    filtered=filtered,
                ) from error
            self.messages = [*self._first, *_retry_messages(reply, for_judge, self._schema)]
            return None
        logprobs = reply.option_logprobs
        return StructuredResult(value, data, reply.mode, self._tries, repaired, self._usage, reply.model, logprobs)


def _read_and_repair(reply: ParserReply, schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the object in a reply, repaired to match the schema, with a flag that is true if it was extracted or
    repaired. The object may also be the arguments of a tool call written as text. Raises `InvalidReply` if there is no
    object that matches the schema.
    """
    try:
        parsed, unpacked = read_object(reply.text, whole=reply.finish_reason == "length")
    except ValueError as error:
        raise InvalidReply(str(error)) from None
    try:
        if "\u00a6" in reply.text or "\\u00a6" in reply.text.lower():  # the bar of broken tokens
            parsed = restore_special_tokens(parsed)
        data, repaired, problems = repair_and_check(parsed, schema)
    except RecursionError:
        raise InvalidReply("the JSON in the reply is nested too deeply") from None
    if problems:
        inner = _call_arguments(parsed, schema)
        if inner is not None:
            data, _, problems = repair_and_check(inner, schema)
            if not problems:
                return data, True
        raise InvalidReply(join_problems(problems))
    return data, unpacked or repaired


def _call_arguments(parsed: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a tool call that a judge wrote as text, or None. The result is always None if the schema
    has a field called `name`.
    """
    call = parsed.get("function", parsed)
    if not isinstance(call, dict) or "name" not in call or "name" in schema.get("properties", {}):
        return None
    arguments = next((call[name] for name in _CALL_ARGUMENTS if name in call), None)
    if isinstance(arguments, str):
        try:
            arguments = read_object(arguments)[0]
        except ValueError:
            return None
    return arguments if isinstance(arguments, dict) else None


def _explain(error: ValueError, reply: ParserReply, who: str) -> tuple[str, str]:
    """Return two explanations of an error: one for the judge, and one for the user. The one for the judge does not
    contain text written by template code. `who` names the model that replied.
    """
    if isinstance(error, ValidationError):
        for_judge, full = _join_errors(error, everything=False), _join_errors(error, everything=True)
    elif isinstance(error, InvalidReply):
        for_judge = full = str(error)
    else:
        for_judge, full = _NOT_ACCEPTED, str(error)
    if reply.finish_reason == "content_filter":
        why, kind = f" ({reply.server_reason})" if reply.server_reason else "", "judge" if who == _JUDGE else "model"
        return full, _FILTERED.format(who=who, why=why, kind=kind)
    if reply.finish_reason == "length":
        return f"{_CUT_OFF}; {for_judge}", f"{_CUT_OFF} ({full}); raise max_tokens or ask for less"
    return for_judge, full


def _join_errors(error: ValidationError, *, everything: bool) -> str:
    """Return pydantic's errors as one text. Messages from template code are replaced unless `everything` is set."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in problem["loc"]) or "the reply"
        own = problem["type"] in _pydantic_error_types()
        lines.append(f"{place}: {problem['msg'] if own or everything else 'this value is not accepted'}")
    return join_problems(lines)


@cache
def _pydantic_error_types() -> frozenset[str]:
    """Return the types of errors whose messages pydantic writes. Messages of other types come from template code."""
    from pydantic_core.core_schema import ErrorType

    return frozenset(get_args(ErrorType)) - {"value_error", "assertion_error", "default_factory_not_called"}


def _retry_messages(reply: ParserReply, problem: str, schema: Mapping[str, Any]) -> list[Message]:
    """Return the messages for a retry: the judge's reply, unless it is blank, and a description of the problem and of
    the fields in `schema`.
    """
    fields = join_problems(
        [f"{name}: {describe_type(part, schema)}" for name, part in schema.get("properties", {}).items()]
    )
    request = Message.user(
        f"{REFUSAL}{problem}. "
        "Reply again, with one complete JSON object that fits the schema and nothing around it"
        + (f". Its fields: {fields}." if fields else ".")
    )
    # Several servers refuse an assistant message without text.
    return [Message.assistant(reply.text), request] if reply.text.strip() else [request]
