"""What a reply comes to: an answer, or an error with the cause that can be seen. The same for all adapters.

The first rule that applies: a filter of the provider stopped the reply; it failed; it was cut off; it is empty. The
port factory of a run passes the replies of every adapter through these functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from karenina_core.models.ports import (
    ErrorCategory,
    FinishReason,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    StructuredMode,
    Turn,
    Usage,
)
from karenina_toolkit.structured.reply_parser import read_object
from karenina_toolkit.traces.reasoning import has_content

R = TypeVar("R", LLMReply, ParserReply, Turn)

_REASONING: Final = (
    "the server put everything into reasoning_content (or thoughts): check its reasoning parser, or raise max_tokens"
)


class EmptyReply(PortError):
    """An error for a reply without content. The call is retried once."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message, category=ErrorCategory.EMPTY, usage=usage)


class ReadReply(Protocol):
    """A reply as an adapter has read it."""

    @property
    def message(self) -> Message:
        """The message of the model."""

    @property
    def usage(self) -> Usage:
        """The tokens."""

    @property
    def finish_reason(self) -> FinishReason:
        """The reason for the end."""

    @property
    def model(self) -> str | None:
        """The name that the provider reports."""

    @property
    def server_reason(self) -> str | None:
        """The server's own reason for the end, if it is not a normal one."""


def text_reply(reply: ReadReply) -> LLMReply:
    """Return a reply as that of a port for text."""
    said = reply.message
    return LLMReply(
        said.content, reply.usage, reply.finish_reason, reply.model, said.reasoning, reply.server_reason, said.notes
    )


async def ask_llm(where: str, ask: Callable[[], Awaitable[LLMReply]], max_tokens: int | None = None) -> LLMReply:
    """Return the reply that `ask` requests from the model and server `where`, if it can be used. Raises `PortError`."""
    try:
        reply = await ask()
    except PortError as error:
        return LLMReply("", _usage_of_refusal(error), "content_filter", notes=(str(error),))
    if reply.finish_reason == "failed":
        raise _failure(where, reply)
    if has_content(reply.text):
        return reply
    reply = _cut_off(reply, bool(reply.reasoning), max_tokens)
    if reply.finish_reason not in ("content_filter", "length"):
        called = reply.finish_reason == "tool_calls"
        raise EmptyReply(_explain_empty(where, reply.reasoning, called=called, notes=reply.notes), reply.usage)
    return reply


async def ask_parser(
    where: str, ask: Callable[[], Awaitable[ParserReply]], max_tokens: int | None = None
) -> ParserReply:
    """Return the judge's reply that `ask` requests, if it can be used. Raises `PortError`.

    A reply whose only JSON object is in its reasoning is read from there.
    """
    try:
        reply = await ask()
    except PortError as error:
        mode: StructuredMode = "prompt"
        return ParserReply("", mode, _usage_of_refusal(error), "content_filter", server_reason=str(error))
    if reply.finish_reason == "failed":
        raise _failure(where, reply)
    if has_content(reply.text):  # its thoughts are neither used nor stored
        return reply if reply.reasoning is None else replace(reply, reasoning=None)
    reply = _cut_off(reply, bool(reply.reasoning), max_tokens)
    if reply.finish_reason in ("content_filter", "length"):
        return replace(reply, reasoning=None)
    if reply.reasoning and _holds_object(reply.reasoning):
        return replace(reply, text=reply.reasoning, reasoning=None)
    raise EmptyReply(_explain_empty(where, reply.reasoning), reply.usage)


async def ask_turn(where: str, ask: Callable[[], Awaitable[Turn]], max_tokens: int | None = None) -> Turn:
    """Return the agent's turn that `ask` requests, if it can be used. Raises `PortError`."""
    try:
        turn = await ask()
    except PortError as error:
        return Turn(Message.assistant(), _usage_of_refusal(error), "content_filter")
    if turn.finish_reason == "failed":
        raise _failure(where, turn)
    message = turn.message
    if message.tool_calls or turn.unfinished or has_content(message.content):
        return turn
    turn = _cut_off(turn, bool(message.reasoning), max_tokens)
    if turn.finish_reason not in ("content_filter", "length"):
        raise EmptyReply(_explain_empty(where, message.reasoning, notes=message.notes), turn.usage)
    return turn


def ends_empty(trace: Sequence[Message]) -> bool:
    """Return whether an agent's trace ends with a message of the assistant that has neither text nor tool calls."""
    last = trace[-1] if trace else Message.assistant()
    return last.role == "assistant" and not last.tool_calls and not has_content(last.content)


def _usage_of_refusal(error: PortError) -> Usage:
    """Return the usage of a request that the provider's filter refused. Raises any other error."""
    if error.category is not ErrorCategory.FILTERED:
        raise error
    return error.usage


def _failure(where: str, reply: LLMReply | ParserReply | Turn) -> PortError:
    return PortError(
        f"{where} broke off its reply (finish reason {reply.server_reason or 'error'!r}), which is not used",
        category=ErrorCategory.SERVER,
        usage=reply.usage,
    )


def _cut_off(reply: R, thinks: bool, max_tokens: int | None) -> R:
    """Return a reply without text as cut off if thoughts used all tokens of the model, whatever the server says."""
    if thinks and max_tokens is not None and reply.usage.output_tokens >= max_tokens:
        return replace(reply, finish_reason="length")
    return reply


def _holds_object(text: str) -> bool:
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _explain_empty(where: str, reasoning: str | None, *, called: bool = False, notes: tuple[str, ...] = ()) -> str:
    if called:
        why = "it calls a tool that was not offered"
    elif reasoning:
        why = _REASONING
    else:
        why = "; ".join(notes) or "it has neither text nor thoughts: check the server and its chat template"
    return f"{where} sent an empty reply: {why}"
