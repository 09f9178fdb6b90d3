"""Decides whether a reply is an answer or an error, for all adapters.

The first rule that applies decides: the reply was filtered, it failed, it was cut off, or it is empty. A run passes all
replies through `check_reply`.
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
    """Return a turn as the reply of a plain-text port, without its tool calls."""
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
    """Return a turn requested in `mode` as the reply of a parser port.

    Its text is the text of the turn. If there is none, or the mode is "tool", it is the arguments of the tool call
    instead. The arguments of several calls are joined, which is not valid JSON. Set `arguments` to use these instead.
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
    """Send a request with `ask` and return the reply, if it can be used. `where` is the model and its server.

    If the provider's filter refuses the request, the reply is empty with the finish reason `content_filter`, except for
    the `kind` "agent". Raises `PortError` if the request fails or the reply is rejected. For `max_tokens`, see
    `check_reply`.
    """
    try:
        reply = await ask()
    except PortError as error:
        reply = filtered_reply(kind, error)
    return check_reply(where, reply, max_tokens)


def filtered_reply(kind: ReplyKind, error: PortError) -> Any:
    """Return an empty reply for a request that the provider's filter refused.

    Its finish reason is `content_filter`. Raises `error` if it has another cause or if `kind` is "agent".
    """
    if error.category is not ErrorCategory.FILTERED or kind == "agent":
        raise error
    if kind == "llm":
        return LLMReply("", error.usage, "content_filter", notes=(str(error),))
    if kind == "parser":
        return ParserReply("", "prompt", error.usage, "content_filter", server_reason=str(error))
    return Turn(Message.assistant(), error.usage, "content_filter")


def check_reply(where: str, reply: R, max_tokens: int | None = None) -> R:
    """Sanitize a reply and return it, if it can be used. `where` is the model and its server.

    A judge's thoughts are not stored, but if its text is empty and they contain a single JSON object, they become the
    text. A reply without text counts as cut off if its thoughts used up `max_tokens`, whatever the server says. Agents'
    replies are only sanitized.

    Raises `PortError` if the reply failed or cannot be read, and `EmptyReply` if it is empty without being cut off or
    filtered.
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
    """Return whether an agent's trace is empty or ends with an empty assistant message."""
    last = trace[-1] if trace else Message.assistant()
    return last.role == "assistant" and not last.tool_calls and not has_content(last.content)


def _holds_object(text: str) -> bool:
    """Return whether a string contains a single readable JSON object."""
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _explain_empty(where: str, reasoning: str | None, *, called: bool, notes: tuple[str, ...]) -> str:
    """Explain why a reply is empty. `called` says whether it ended with a tool call.

    This blames the call, the `reasoning`, the `notes` or the server, whichever comes first.
    """
    if called:
        why = "the reply calls a tool that was not offered"
    elif reasoning:
        why = _REASONING
    else:
        why = "; ".join(notes) or "the reply has neither text nor thoughts; check the server and its chat template"
    return f"{where} sent an empty reply: {why}"
