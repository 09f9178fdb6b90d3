"""Conversion of messages to and from LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, message_to_dict

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import FinishReason, Message, ToolCall, Turn, Usage
from karenina_toolkit.attachments.wire import Contents, fill, neutral_name
from karenina_toolkit.replies.reply_bounds import read_token_count
from karenina_toolkit.replies.reply_ends import NO_REASON, read_end
from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.formats.anthropic import read_usage as read_messages_usage
from karenina_toolkit.traces.formats.openai_chat import (
    CITATIONS,
    UNREADABLE_ARGUMENTS,
    from_wire,
    refused,
    split_parts,
    write_arguments,
)
from karenina_toolkit.traces.token_counts import add_tier, read_usage

_CACHE_WRITES: Final = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""LangChain's names for cache-write tokens, in total or by lifetime."""
_PAID_TOOLS: Final = ("file_search_call", "code_interpreter_call", "image_generation_call")
"""Tools of the Responses API whose price does not depend on tokens."""


def to_langchain(messages: Sequence[Message]) -> list[BaseMessage]:
    """Convert `messages` to LangChain messages, without reasoning, and with placeholders for attachments, which are
    filled in when the messages are sent. Most providers accept only text as the result of a tool, so the attachments of
    tool results follow them in a message of the user.
    """
    sent: list[BaseMessage] = []
    pending: list[str | dict[Any, Any]] = []
    for message in messages:
        if message.role != "tool" and pending:
            sent.append(HumanMessage(content=pending))
            pending = []
        sent.append(_to_langchain(message))
        if message.role == "tool" and message.attachments:
            text = f"Attachments of the result of {message.tool_name or 'the tool'}:"
            pending += [{"type": "text", "text": text}, *map(_block_of, message.attachments, count(1))]
    return [*sent, HumanMessage(content=pending)] if pending else sent


def _block_of(attachment: Attachment, number: int) -> dict[Any, Any]:
    """Return LangChain's block for attachment `number` of a message, counted from 1. Its contents are filled in when it
    is sent.
    """
    kind = attachment.media_type.partition("/")[0]
    # LangChain derives OpenAI's names of formats from the media type, and "mpeg" is not one of them.
    media_type = "audio/mp3" if attachment.media_type == "audio/mpeg" else attachment.media_type
    block = {"base64": Contents(attachment), "mime_type": media_type}
    if kind == "application":
        return {"type": "file", **block, "filename": neutral_name(number)}
    return {"type": kind, **block}


async def fill_messages(sent: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages, with their attachments' contents filled in. Raises `PortError` if a file cannot be
    read.
    """
    return [
        message.model_copy(update={"content": await fill(message.content)})
        if isinstance(message.content, list)
        else message
        for message in sent
    ]


def from_langchain(said: AIMessage, *, ends_with_reason: bool = False) -> Turn:
    """Convert LangChain's reply to a `Turn`, with a refusal as part of its text, and with calls that have invalid
    arguments. Raises `ValueError` if the reply lacks a finish reason although the server's streams end with one, which
    `ends_with_reason` states: LangChain does not notice that such a stream was cut off.
    """
    text, commentary = _split_text(said)
    refusals = [block["refusal"] for block in _blocks(said) if refused(block)]  # of the Responses API
    if refused(said.additional_kwargs):
        refusals.append(said.additional_kwargs["refusal"])
    calls = [ToolCall(call["id"] or "", call["name"], call["args"]) for call in said.tool_calls]
    calls += [
        ToolCall(call["id"] or "", call["name"] or "", {UNREADABLE_ARGUMENTS: call["args"] or ""})
        for call in said.invalid_tool_calls
    ]
    metadata = said.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    content = "\n".join(filter(None, (text, *refusals)))
    reasoning = "\n".join(filter(None, (_reasoning(said), commentary))) or None
    message = Message("assistant", content, tuple(calls), reasoning=reasoning, notes=_notes(said))
    end, server_reason = _read_end(metadata)
    if ends_with_reason and server_reason == NO_REASON and not metadata.get("done"):
        raise ValueError("the stream ended before the reply was complete")
    reason: FinishReason = "content_filter" if refusals or _is_blocked(metadata) else end
    return Turn(
        message,
        _usage(said),
        reason,
        model if isinstance(model, str) else None,
        wire=message_to_dict(said),
        server_reason=server_reason,
    )


def from_completion(completion: Mapping[str, Any], said: AIMessage | None) -> Turn:
    """Convert a chat completion to a `Turn`, whose `wire` is `said`, LangChain's message for the completion. If
    LangChain failed and `said` is None, it is the completion converted to such a message. Raises `ValueError` if the
    completion cannot be read.
    """
    reply = from_wire(completion)
    if said is None:
        converted = to_langchain([reply.message])[0]
        said = converted if isinstance(converted, AIMessage) else AIMessage(reply.message.content)
    return replace(reply, wire=message_to_dict(said))


def _to_langchain(message: Message) -> BaseMessage:
    """Convert a message to LangChain's format, without the attachments of a tool result, which `to_langchain` sends in
    a message of their own. Calls with unreadable arguments become invalid tool calls.
    """
    if message.role == "system":
        return SystemMessage(message.content)
    if message.role == "user":
        if not message.attachments:
            return HumanMessage(message.content)
        text = [{"type": "text", "text": message.content}] if message.content else []
        return HumanMessage(content=[*map(_block_of, message.attachments, count(1)), *text])
    if message.role == "tool":
        return ToolMessage(
            message.content,
            tool_call_id=message.tool_call_id or "",
            name=message.tool_name,
            status="error" if message.is_error else "success",
        )
    readable = [call for call in message.tool_calls if set(call.arguments) != {UNREADABLE_ARGUMENTS}]
    return AIMessage(
        message.content,
        tool_calls=[
            {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)} for call in readable
        ],
        invalid_tool_calls=[
            {
                "type": "invalid_tool_call",
                "id": call.id,
                "name": call.name,
                "args": write_arguments(call.arguments),
                "error": None,
            }
            for call in message.tool_calls
            if call not in readable
        ],
    )


def _blocks(message: AIMessage) -> list[dict[str, Any]]:
    """Return the content blocks of a message, with text as a block and without citations, which are inside of text. If
    the content is text alone, the list is empty.
    """
    if isinstance(message.content, str):
        return []
    blocks = [block if isinstance(block, dict) else {"type": "text", "text": block} for block in message.content]
    return [block for block in blocks if block.get("type") not in CITATIONS]


def _split_text(message: AIMessage) -> tuple[str, str]:
    """Return the text of a message, and the commentary that preceded it. Text begins a new line after any other block,
    and so does each message of the Responses API, which has an `id`. Without a final answer, its commentary is part of
    the text.
    """
    if not (blocks := _blocks(message)):
        return str(message.text), ""
    is_final = any(block.get("phase") == "final_answer" for block in blocks)
    answer: list[str] = []
    commentary: list[str] = []
    before: Mapping[str, Any] = {}
    for block in blocks:
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str) and text:
            part = commentary if is_final and block.get("phase") == "commentary" else answer
            continues = before.get("type") == "text" and before.get("id") == block.get("id")
            part += [text] if continues or not part else ["\n", text]
        before = block
    return "".join(answer), "".join(commentary)


def _notes(message: AIMessage) -> tuple[str, ...]:
    """Return notes about unknown content blocks, or about content that cannot be read; there may be none."""
    if isinstance(message.content, str):
        return ()
    blocks = [block for block in message.content if not (isinstance(block, dict) and _is_of_a_tool(block))]
    try:
        return split_parts(blocks).notes
    except TraceFormatError as error:
        return (str(error),)


def _is_of_a_tool(block: Mapping[str, Any]) -> bool:
    """Return whether a content block is a tool call or a tool result."""
    return str(block.get("type")).endswith(("tool_use", "tool_call", "tool_call_chunk", "tool_result", "_call"))


def _reasoning(message: AIMessage) -> str | None:
    """Return the model's reasoning, or None. Reasoning outside of the content takes precedence."""
    apart = message.additional_kwargs.get("reasoning_content")
    if isinstance(apart, str) and apart:
        return apart
    if isinstance(message.content, str):
        return None
    blocks: Sequence[Mapping[str, Any]] = message.content_blocks
    thoughts = [str(block.get("reasoning") or "") for block in blocks if block.get("type") == "reasoning"]
    return "\n".join(thought for thought in thoughts if thought) or None


def _usage(message: AIMessage) -> Usage:
    """Return the usage of one call, with the searches and other services that the server used for it. If the message
    has no counts, all tokens are 0. Anthropic's own counts say more than LangChain's.
    """
    metadata, counted = message.response_metadata, message.usage_metadata
    own = metadata.get("usage")
    if isinstance(own, Mapping) and metadata.get("model_provider") == "anthropic":
        return read_messages_usage(own)
    usage = Usage(calls=1)
    if counted is not None:
        details: Mapping[str, Any] = counted.get("input_token_details", {})
        written = read_token_count(sum(read_token_count(details.get(name)) for name in _CACHE_WRITES))
        usage = replace(read_usage(counted), cache_write_tokens=written)
    blocks = _blocks(message)
    grounding = metadata.get("grounding_metadata")  # of Google, which charges for searches depending on the model
    grounded = isinstance(grounding, Mapping) and bool(grounding.get("web_search_queries"))
    unpriced = grounded or any(block.get("type") in _PAID_TOOLS for block in blocks)
    usage = replace(usage, web_searches=sum(map(_is_search, blocks)), unpriced_calls=int(unpriced))
    return add_tier(usage, metadata.get("service_tier"))


def _is_search(block: Mapping[str, Any]) -> bool:
    """Return whether a block is a web search by OpenAI's server. Opening a page costs nothing."""
    action = block.get("action")
    kind = action.get("type", "search") if isinstance(action, Mapping) else "search"
    return block.get("type") == "web_search_call" and kind == "search"


def _is_blocked(metadata: Mapping[str, Any]) -> bool:
    """Return whether Google blocked the prompt, so that the reply is empty and has no finish reason."""
    feedback = metadata.get("prompt_feedback")
    return isinstance(feedback, Mapping) and bool(feedback.get("block_reason")) and not metadata.get("finish_reason")


def _read_end(metadata: Mapping[str, Any]) -> tuple[FinishReason, str | None]:
    """Return the meaning of the finish reason in a message's metadata, and the server's own text for it, as `read_end`
    does.

    The fields that may contain it are tried in order.
    """
    incomplete = metadata.get("incomplete_details")
    return read_end(
        (incomplete.get("reason") if isinstance(incomplete, Mapping) else None)
        or metadata.get("finish_reason")
        or metadata.get("stop_reason")
        or metadata.get("stopReason")
        or metadata.get("done_reason")
        or metadata.get("status")
    )
