"""Conversion of messages to the format of the Messages API, and of replies from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import Message, Turn
from karenina_core.text import replace_surrogates, replace_surrogates_in
from karenina_toolkit.attachments.wire import Contents, neutral_name
from karenina_toolkit.replies.reply_ends import PAUSED, read_end
from karenina_toolkit.traces.blocks import TraceFormatError, describe_block
from karenina_toolkit.traces.formats.anthropic import read, read_usage
from karenina_toolkit.traces.formats.openai_chat import read_arguments

Block = dict[str, Any]


def join_turns(before: Turn, after: Turn) -> Turn:
    """Return a paused reply, `before`, joined with its continuation, `after`: text, reasoning, notes and usage are
    added up, and everything else, such as tool calls, is taken from `after`.
    """
    message = replace(
        after.message,
        content=before.message.content + after.message.content,
        reasoning="\n".join(filter(None, (before.message.reasoning, after.message.reasoning))) or None,
        notes=(*before.message.notes, *after.message.notes),
    )
    return replace(after, message=message, usage=before.usage + after.usage)


def to_wire(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt, and the other messages, without their reasoning, in the format of the Messages API.
    Consecutive messages from the same side, such as tool results and the user message after them, are merged, and empty
    assistant messages omitted, because the API rejects them.

    Reasoning is omitted, because the API requires its signature, which is not stored.
    """
    system: list[str] = []
    wire: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            system.append(message.content)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        add(wire, role, _blocks_of(message))
    return replace_surrogates("\n\n".join(system)), wire


def add(wire: list[dict[str, Any]], role: str, blocks: Sequence[Block]) -> None:
    """Append `blocks` to `wire`: to its last message if that has the same role, otherwise as a new message. Blank text,
    which the API rejects, is omitted, but a blank user message is kept, because the request would change without it.
    Lone surrogates are replaced.
    """
    whole_blocks = replace_surrogates_in(list(blocks))
    sent = [block for block in whole_blocks if not _is_blank(block)]
    if wire and wire[-1]["role"] == role:
        wire[-1]["content"] += sent
    elif sent or role == "user":
        wire.append({"role": role, "content": sent or whole_blocks})


def from_wire(data: Mapping[str, Any]) -> Turn:
    """Convert a reply to a `Turn`. Calls to tools that the server has run become reasoning, because they must not be
    run again and are not part of the answer. Raises `ValueError` with the reason if the reply has no readable content.

    If a call's arguments are not an object, they become an object with their text.
    """
    content = data.get("content")
    if not isinstance(content, list) or not all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in content
    ):
        raise ValueError("the message content is not a list of blocks")
    blocks = [{**block, "input": read_arguments(block.get("input"))} if _is_call(block) else block for block in content]
    try:
        messages = list(read([{"role": "assistant", "content": [_server_tool_as_thought(block) for block in blocks]}]))
    except TraceFormatError as error:
        raise ValueError(f"the message content cannot be read: {error}") from None
    model = data.get("model")
    stop_reason = str(data.get("stop_reason") or "")
    finish_reason, server_reason = read_end(stop_reason)
    return Turn(
        messages[0] if messages else Message.assistant(),
        read_usage(data.get("usage")),
        finish_reason,
        model if isinstance(model, str) else None,
        unfinished=stop_reason in PAUSED,
        wire=blocks,
        server_reason=server_reason,
    )


def _blocks_of(message: Message) -> list[Block]:
    """Return a message's content blocks without its reasoning. The text may be empty."""
    if message.role == "tool":
        failed = {"is_error": True} if message.is_error else {}
        content: str | list[Block] = message.content
        if message.attachments:
            text = [{"type": "text", "text": message.content}] if message.content.strip() else []
            content = [*text, *map(block_of, message.attachments, count(1))]
        result = {"tool_use_id": message.tool_call_id or "", "content": content, **failed}
        return [{"type": "tool_result", **result}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in message.tool_calls
    ]
    files = map(block_of, message.attachments, count(1))  # before the text, as Anthropic recommends
    return [*files, {"type": "text", "text": message.content}, *calls]


def block_of(attachment: Attachment, number: int) -> Block:
    """Return the block for attachment `number` of a message, counted from 1. Its contents are filled in when it is
    sent.
    """
    source = {"type": "base64", "media_type": attachment.media_type, "data": Contents(attachment)}
    if attachment.media_type == "application/pdf":
        return {"type": "document", "source": source, "title": neutral_name(number)}
    return {"type": "image", "source": source}


def _server_tool_as_thought(block: Block) -> Block:
    """Return a call to one of the server's own tools, or its result, as a block of thoughts, and any other block
    unchanged.
    """
    kind = block["type"]
    if not _is_call(block) and kind.endswith(("tool_use", "tool_result")):
        return {"type": "thinking", "thinking": describe_block(kind, block)}
    return block


def _is_call(block: Block) -> bool:
    """Return whether a block is a call to a tool that this process must run."""
    return bool(block["type"] == "tool_use")


def _is_blank(block: Block) -> bool:
    """Return whether a block is text that contains only whitespace."""
    return block["type"] == "text" and not str(block.get("text") or "").strip()
