"""Decides, for all adapters, whether a reply is an answer or an error with an apparent cause.

The first rule that applies decides: the provider's filter stopped the reply, the reply failed, it was cut off, or it is
empty. The run passes the replies of every adapter through `check_reply`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from karenina_core.models.ports import AgentReply, ErrorCategory, LLMReply, Message, ParserReply, PortError, Turn
from karenina_toolkit.replies.reply_bounds import (
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
    sanitize_turn,
)
from karenina_toolkit.structured.reply_parser import read_object
from karenina_toolkit.traces.formats.openai_chat import write_arguments
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from karenina_core.models.ports import StructuredMode, Usage

R = TypeVar("R", bound=LLMReply | ParserReply | AgentReply | Turn)
ReplyKind = Literal["llm", "parser", "agent", "turn"]

_REASONING: Final = (
    "the server put everything into reasoning_content (or thoughts); check its reasoning parser, or raise max_tokens"
)


class EmptyReply(PortError):
    """Raised when a reply is empty. The call is retried once."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message, category=ErrorCategory.EMPTY, usage=usage)


def text_reply(reply: Turn) -> LLMReply:
    """Return a reply as a plain-text port's reply, without its tool calls."""
    message = reply.message
    return LLMReply(
        message.content,
        reply.usage,
        reply.finish_reason,
        reply.model,
        message.reasoning,
        reply.server_reason,
        message.notes,
    )


def json_reply(reply: Turn, mode: StructuredMode, arguments: str | None = None) -> ParserReply:
    """Return a reply that was requested in `mode` as a parser port's reply.

    Its text is the model's text, or the arguments of its tool call if the mode is "tool" or there is no text. The
    arguments of several calls are joined, which makes the result invalid JSON. If `arguments` is set, it replaces the
    arguments of the calls.
    """
    text = reply.message.content
    if mode == "tool" or not text.strip():
        calls = reply.message.tool_calls
        written = "\n".join(write_arguments(call.arguments) for call in calls) if calls else text
        text = written if arguments is None else arguments
    parser_reply = ParserReply(text, mode, reply.usage, reply.finish_reason, reply.model)
    parser_reply.reasoning, parser_reply.server_reason = reply.message.reasoning, reply.server_reason
    return parser_reply


async def receive(where: str, kind: ReplyKind, ask: Callable[[], Awaitable[R]], max_tokens: int | None = None) -> R:
    """Return the reply requested by `ask` from the model and server named in `where`, if it can be used.

    If the provider's filter refused the request, the result is an empty reply whose finish reason is `content_filter`,
    unless `kind` is "agent". Raises `PortError` if the request fails otherwise or if `check_reply`, which explains
    `max_tokens`, rejects the reply.
    """
    try:
        reply = await ask()
    except PortError as error:
        reply = filtered_reply(kind, error)
    return check_reply(where, reply, max_tokens)


def filtered_reply(kind: ReplyKind, error: PortError) -> Any:
    """Return an empty reply of this `kind`, with the finish reason `content_filter`, for a request refused by the
    provider's filter.

    Raises `error` if it has any other cause or if `kind` is "agent".
    """
    if error.category is not ErrorCategory.FILTERED or kind == "agent":
        raise error
    if kind == "llm":
        return LLMReply("", error.usage, "content_filter", notes=(str(error),))
    if kind == "parser":
        return ParserReply("", "prompt", error.usage, "content_filter", server_reason=str(error))
    return Turn(Message.assistant(), error.usage, "content_filter")


def check_reply(where: str, reply: R, max_tokens: int | None = None) -> R:
    """Return the sanitized reply from the model and server named in `where`, if it can be used.

    A judge's thoughts are not stored. If its text is empty and its thoughts contain the only JSON object, the thoughts
    become the text. A reply without text is treated as cut off if its thoughts used up `max_tokens`, whatever the
    server says. An agent's reply is only sanitized.

    Raises `PortError` if the reply failed or cannot be read, and `EmptyReply` if it is empty, unless it was cut off or
    stopped by the provider's filter.
    """
    checked: LLMReply | ParserReply | AgentReply | Turn
    notes: tuple[str, ...] = ()
    if isinstance(reply, AgentReply):
        return cast("R", sanitize_agent_reply(where, reply))
    if isinstance(reply, Turn):
        checked = sanitize_turn(where, reply)
        message = checked.message
        thoughts, notes = message.reasoning, message.notes
        usable = bool(message.tool_calls) or checked.unfinished or has_content(message.content)
    elif isinstance(reply, LLMReply):
        checked = sanitize_llm_reply(reply)
        thoughts, notes, usable = checked.reasoning, checked.notes, has_content(checked.text)
    else:
        checked = sanitize_parser_reply(reply)
        thoughts, usable = checked.reasoning, has_content(checked.text)
        if thoughts is not None:
            checked = replace(checked, reasoning=None)
    if checked.finish_reason == "failed":
        raise PortError(
            f"{where} broke off its reply (finish reason {checked.server_reason or 'error'!r}), so the reply was "
            "discarded",
            category=ErrorCategory.SERVER,
            usage=checked.usage,
        )
    if not usable:
        if thoughts and max_tokens is not None and checked.usage.output_tokens >= max_tokens:
            checked = replace(checked, finish_reason="length")
        if checked.finish_reason not in ("content_filter", "length"):
            if not (isinstance(checked, ParserReply) and thoughts and _holds_object(thoughts)):
                called = isinstance(checked, LLMReply) and checked.finish_reason == "tool_calls"
                raise EmptyReply(_explain_empty(where, thoughts, called=called, notes=notes), checked.usage)
            checked = replace(checked, text=thoughts)
    return cast("R", checked)


def ends_empty(trace: Sequence[Message]) -> bool:
    """Return whether an agent's trace is empty or ends with an assistant message without text and tool calls."""
    last = trace[-1] if trace else Message.assistant()
    return last.role == "assistant" and not last.tool_calls and not has_content(last.content)


def _holds_object(text: str) -> bool:
    """Return whether a string contains exactly one readable JSON object."""
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _explain_empty(where: str, reasoning: str | None, *, called: bool, notes: tuple[str, ...]) -> str:
    """Return the error message for an empty reply. `called` says whether the reply ended with a tool call.

    The reason is the first that applies: the call, the `reasoning` (if the reply has some), the `notes`, or the server.
    """
    if called:
        why = "the reply calls a tool that was not offered"
    elif reasoning:
        why = _REASONING
    else:
        why = "; ".join(notes) or "the reply has neither text nor thoughts; check the server and its chat template"
    return f"{where} sent an empty reply: {why}"
