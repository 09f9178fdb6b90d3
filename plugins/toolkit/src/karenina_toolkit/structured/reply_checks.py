"""Decides for all adapters whether a reply is an answer or an error.

The first rule that applies is used: the reply was filtered, it failed, it was cut off, or it is empty. A run passes all
replies through `check_reply`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from karenina_core.models.ports import (
    AgentReply,
    ErrorCategory,
    FinishReason,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    Turn,
    Usage,
)
from karenina_toolkit.replies.reply_bounds import (
    BrokenReply,
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
    sanitize_turn,
)
from karenina_toolkit.structured.reply_parser import read_object
from karenina_toolkit.traces.formats.openai_chat import write_arguments
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from karenina_core.models.ports import StructuredMode

R = TypeVar("R", bound=LLMReply | ParserReply | AgentReply | Turn)
ReplyKind = Literal["llm", "parser", "agent", "turn"]

_FINISH_REASONS: Final = get_args(FinishReason)
_REPLIES: Final[Mapping[ReplyKind, type[LLMReply | ParserReply | AgentReply | Turn]]] = {
    "llm": LLMReply,
    "parser": ParserReply,
    "agent": AgentReply,
    "turn": Turn,
}

_REASONING: Final = (
    "the server put everything into reasoning_content (or thoughts); check its reasoning parser, or raise max_tokens"
)


class EmptyReply(PortError):
    """Raised if a reply is empty. The call is retried once. `is_blank` states whether it has no thoughts, calls or
    other parts either.
    """

    def __init__(self, message: str, usage: Usage, *, is_blank: bool = False) -> None:
        super().__init__(message, category=ErrorCategory.EMPTY, usage=usage)
        self.is_blank = is_blank


def text_reply(reply: Turn) -> LLMReply:
    """Convert a turn to the reply of a plain-text port, without its tool calls."""
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
    """Convert a turn that was requested in `mode` to the reply of a parser port: the turn's text or, if there is none
    or the mode is "tool", the arguments of its tool call, or `arguments` if given. The arguments of several calls are
    joined with line breaks, which is not valid JSON.
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
    """Send a request with `ask`, and return the reply if `check_reply` finds it usable. A refusal by the provider's
    filter becomes an empty reply with the finish reason `content_filter`, unless `kind` is "agent". Raises `PortError`
    if the request fails or the reply is rejected.

    `where` is the model and its server. `max_tokens` is explained in `check_reply`.
    """
    try:
        reply = await ask()
    except PortError as error:
        reply = filtered_reply(kind, error)
    return check_reply(where, reply, max_tokens, kind)


def filtered_reply(kind: ReplyKind, error: PortError) -> Any:
    """Return an empty reply with the finish reason `content_filter` if the provider's filter refused the request. If
    `error` has another cause, or if `kind` is "agent", `error` is raised.
    """
    if error.category is not ErrorCategory.FILTERED or kind == "agent":
        raise error
    if kind == "llm":
        return LLMReply("", error.usage, "content_filter", notes=(str(error),))
    if kind == "parser":
        return ParserReply("", "prompt", error.usage, "content_filter", server_reason=str(error))
    return Turn(Message.assistant(), error.usage, "content_filter")


def check_reply(where: str, reply: R, max_tokens: int | None = None, kind: ReplyKind | None = None) -> R:
    """Sanitize a reply, and return it if it is usable; replies of agents are only sanitized. If a judge's text is empty
    and its reasoning contains a single JSON object, the reasoning becomes the text. Raises `PortError` if the reply
    failed, cannot be read or is not of the given kind, and `EmptyReply` if it is empty but was neither cut off nor
    filtered. A reply without text counts as cut off if its reasoning used up `max_tokens`, even if the server reports
    another reason.

    `where` is the model and its server. A judge's reasoning is not stored.
    """
    if (mistake := _find_mistake(reply, kind)) is not None:
        what = f"the adapter of {where} returned {mistake}; correct the adapter"
        raise PortError(what, category=ErrorCategory.PERMANENT)
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
                why = _explain_empty(where, thoughts, called=called, notes=notes)
                raise EmptyReply(why, checked.usage, is_blank=not (called or thoughts or notes))
            checked = replace(checked, text=thoughts)
    return cast("R", checked)


def _find_mistake(reply: object, kind: ReplyKind | None) -> str | None:
    """Return what is wrong with the types of a reply, or None. Adapters may not be type-checked."""
    if not isinstance(reply, LLMReply | ParserReply | AgentReply | Turn):
        return f"{reply!r:.100}, which is not a reply with a text"
    if kind is not None and not isinstance(reply, wanted := _REPLIES[kind]):
        return f"{type(reply).__name__} instead of {wanted.__name__}"
    text: object = getattr(reply, "text", "")
    usage: object = reply.usage
    if not isinstance(text, str):
        return f"{reply!r:.100}, which is not a reply with a text"
    if not isinstance(usage, Usage):
        return f"the usage {usage!r:.100}, which is not a Usage"
    for name in ("model", "server_reason"):
        value: object = getattr(reply, name)
        if not isinstance(value, str | None):
            return f"the {name} {value!r:.100}, which must be a string"
    if reply.finish_reason not in _FINISH_REASONS:
        return f"the finish reason {reply.finish_reason!r:.100}, which is none of {', '.join(_FINISH_REASONS)}"
    return None


def wrote_nothing(outcome: LLMReply | ParserReply | AgentReply | Turn | PortError) -> bool:
    """Return whether a model wrote nothing, not even reasoning: the error of its call states that the reply was blank,
    or its reply is empty because of the provider's filter. False for replies of agents.
    """
    if isinstance(outcome, PortError):
        return isinstance(outcome, BrokenReply | EmptyReply) and outcome.is_blank
    if outcome.finish_reason != "content_filter" or isinstance(outcome, AgentReply):
        return False
    if isinstance(outcome, Turn):
        message = outcome.message
        return not (message.content or message.tool_calls or message.reasoning)
    return not (outcome.text or outcome.reasoning)


def ends_empty(trace: Sequence[Message]) -> bool:
    """Return whether an agent's trace is empty or ends in an empty assistant message."""
    last = trace[-1] if trace else Message.assistant()
    return last.role == "assistant" and not last.tool_calls and not has_content(last.content)


def _holds_object(text: str) -> bool:
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _explain_empty(where: str, reasoning: str | None, *, called: bool, notes: tuple[str, ...]) -> str:
    """Return why a reply is empty. `called` states whether it ended with a tool call. The first of these that applies
    is given as the reason: the call, the `reasoning`, the `notes`, or the server.
    """
    if called:
        why = "the reply calls a tool that was not offered"
    elif reasoning:
        why = _REASONING
    else:
        why = "; ".join(notes) or "the reply has neither text nor thoughts; check the server and its chat template"
    return f"{where} sent an empty reply: {why}"
