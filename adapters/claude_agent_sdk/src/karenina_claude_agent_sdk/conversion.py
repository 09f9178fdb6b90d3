"""Conversion of messages to and from the Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import FinishReason, Message, Turn
from karenina_core.text import replace_surrogates, replace_surrogates_in
from karenina_toolkit.attachments.wire import Contents, describe, neutral_name
from karenina_toolkit.replies.reply_ends import read_end
from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.formats.anthropic import read, read_usage

WireMessage = dict[str, Any]

SERVER = "karenina"
"""The name of the MCP server that offers the run's tools to the CLI."""

_PREFIX = f"mcp__{SERVER}__"
_STOPS: dict[FinishReason, str] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""Stop reasons for turns from a journal, which have no original reply."""


def to_wire(messages: Sequence[Message], brought: Sequence[str] = ()) -> tuple[str, list[WireMessage]]:
    """Return the system prompt, and the other messages in the format of the Messages API. Consecutive messages from the
    same side are merged, and blank text, reasoning, and messages with nothing else are omitted. `brought` contains the
    names of the run's tools, which have a prefix in the CLI.
    """
    system: list[str] = []
    wire: list[WireMessage] = []
    for message in messages:
        if message.role == "system":
            system.append(message.content)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [block for block in replace_surrogates_in(_blocks_of(message, brought)) if not _is_blank(block)]
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return replace_surrogates("\n\n".join(system)), wire


def without_attachments(messages: Sequence[Message]) -> list[Message]:
    """Return copies of the messages in which descriptions in the text take the place of attachments."""
    return [
        replace(message, content="\n".join([*map(describe, message.attachments), message.content]), attachments=())
        if message.attachments
        else message
        for message in messages
    ]


def count_attachments(wire: Sequence[WireMessage]) -> int:
    """Return the number of images and documents in a conversation, including those in tool results."""
    count = 0
    for entry in wire:
        for block in entry["content"] if isinstance(entry["content"], list) else ():
            kind = block.get("type")
            count += kind in ("image", "document")
            count += count_attachments([block]) if kind == "tool_result" else 0
    return count


def turn_of(reply: WireMessage) -> Turn:
    """Convert a reply to a turn, removing the CLI's prefix from tool names. The turn's `wire` is the original reply.
    Raises `ValueError` with the reason if the content cannot be read.
    """
    content = reply.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ValueError("the message content is not a list of blocks")
    blocks = [
        {**block, "name": plain_tool_name(block["name"])} if isinstance(block.get("name"), str) else block
        for block in content
    ]
    try:
        messages = list(read([{"role": "assistant", "content": blocks}]))
    except TraceFormatError as error:
        raise ValueError(f"the message content cannot be read: {error}") from None
    model = reply.get("model")
    end, server_reason = read_end(reply.get("stop_reason"))
    return Turn(
        messages[0] if messages else Message.assistant(),
        read_usage(reply.get("usage")),
        end,
        model if isinstance(model, str) else None,
        wire=reply,
        server_reason=server_reason,
    )


def results_in(request: WireMessage) -> dict[str, tuple[str, bool]]:
    """Return the text of each tool result after the last assistant message, and whether it failed, by call id."""
    blocks: list[WireMessage] = []
    for entry in reversed(request.get("messages", [])):
        if entry["role"] == "assistant":
            break
        if isinstance(entry["content"], list):
            blocks = [*(block for block in entry["content"] if isinstance(block, dict)), *blocks]
    return results_of(blocks)


def results_of(blocks: Sequence[WireMessage]) -> dict[str, tuple[str, bool]]:
    """Return the text of each tool result in `blocks`, and whether it failed, by call id. Other blocks are skipped."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return {
        str(message.tool_call_id): (message.content, message.is_error)
        for message in read([{"role": "user", "content": results}])
        if message.role == "tool"
    }


def plain_tool_name(name: str) -> str:
    """Return a tool's name without the CLI's prefix."""
    return name.removeprefix(_PREFIX)


def _blocks_of(message: Message, brought: Sequence[str]) -> list[WireMessage]:
    """Return a message's content blocks without its reasoning, with the CLI's prefix for tools in `brought`. Text may
    be blank.
    """
    if message.role == "tool":
        failed = {"is_error": True} if message.is_error else {}
        content: str | list[WireMessage] = message.content
        if message.attachments:
            text = [{"type": "text", "text": message.content}] if message.content.strip() else []
            content = [*text, *map(_block_of, message.attachments, count(1))]
        result = {"tool_use_id": message.tool_call_id or "", "content": content, **failed}
        return [{"type": "tool_result", **result}]
    calls = [
        {
            "type": "tool_use",
            "id": call.id,
            "name": _PREFIX + call.name if call.name in brought else call.name,
            "input": dict(call.arguments),
        }
        for call in message.tool_calls
    ]
    files = map(_block_of, message.attachments, count(1))  # before the text, as Anthropic recommends
    return [*files, {"type": "text", "text": message.content}, *calls]


def _block_of(attachment: Attachment, number: int) -> WireMessage:
    """Return the block for attachment `number` of a message, counted from 1. Its contents are filled in when it is
    sent.
    """
    source = {"type": "base64", "media_type": attachment.media_type, "data": Contents(attachment)}
    if attachment.media_type == "application/pdf":
        return {"type": "document", "source": source, "title": neutral_name(number)}
    return {"type": "image", "source": source}


def _is_blank(block: WireMessage) -> bool:
    """Return whether a block is text that contains only whitespace."""
    return block["type"] == "text" and not str(block["text"]).strip()


def reply_of(turn: Turn, brought: Sequence[str]) -> WireMessage:
    """Return a turn's original reply or, without one, an equivalent reply in which tools in `brought` have the CLI's
    prefix.

    The equivalent reply contains no usage.
    """
    if isinstance(turn.wire, dict):
        return turn.wire
    reason = _STOPS.get(turn.finish_reason, "end_turn")
    return {"content": _blocks_of(turn.message, brought), "stop_reason": reason}
