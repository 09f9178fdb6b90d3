"""Messages in the format of the Anthropic Messages API: lists of content blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from karenina_core.models.ports import Message, ToolCall, Usage
from karenina_toolkit.replies.reply_bounds import read_token_count
from karenina_toolkit.traces.blocks import TraceFormatError, TurnBuilder, as_json, describe_block, in_entry, join_texts
from karenina_toolkit.traces.formats.openai_chat import Parts
from karenina_toolkit.traces.token_counts import add_tier, stated_cost

Entry = Mapping[str, Any]
_THOUGHTS = ("thinking", "redacted_thinking")
_MEDIA = ("image", "document", "container_upload", "search_result")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a block that only exists in Anthropic's format."""
    return any(_is_distinctive(block) for block in _blocks(entry.get("content")))


def read(entries: Sequence[Entry], numbers: Iterable[int] | None = None) -> Iterator[Message]:
    """Yield the messages in entries in the format of Anthropic's Messages API, with one message for each assistant
    turn, and a tool message for each tool result, which splits a turn that it is part of. If some entries were left
    out, `numbers` are the original numbers of those that remain, for error messages. Raises `TraceFormatError` if an
    entry is not in this format.

    Consecutive assistant entries are merged, because some agents write an entry for each block. Pictures and documents
    are described with `describe_block`, and other assistant blocks are described in `notes`. Citations and signatures
    are omitted.
    """
    turn = TurnBuilder()
    names: dict[str, str] = {}
    for number, entry in zip(numbers or count(1), entries, strict=False):
        with in_entry(number):
            if entry["role"] == "assistant":
                yield from _add_to_turn(turn, _blocks_of(entry), names)
                continue
            yield from turn.close()
            yield from _read_user_entry(entry, names)
    yield from turn.close()


def _add_to_turn(turn: TurnBuilder, blocks: Sequence[Entry], names: dict[str, str]) -> Iterator[Message]:
    """Add the blocks of an assistant entry to the turn, and the names of its calls to `names` by id. Yield the messages
    that are complete: a tool result ends the turn. Text only continues on the same line after text from the same entry.
    """
    if not blocks:
        turn.begin()
    previous = ""
    for block in blocks:
        kind = block["type"]
        if kind.endswith("tool_result"):
            yield from turn.close()
            yield _result(block, names)
        elif kind == "text":
            turn.add_text(_text(block), same_line=previous == "text")
        elif kind.endswith("tool_use"):
            call = _call(block)
            names[call.id] = call.name
            turn.add_call(call)
        elif kind == "thinking":
            turn.add_thought(str(block.get("thinking") or ""))
        elif kind == "redacted_thinking":
            turn.add_thought("[redacted_thinking]")
        elif kind in _MEDIA:
            turn.add_text(describe_block(kind, block))
        else:
            turn.add_note(Parts(unknown=[block]).notes[0])
        previous = kind


def _read_user_entry(entry: Entry, names: Mapping[str, str]) -> Iterator[Message]:
    """Convert a user entry to messages: the tool results, and the text between them. Raises `TraceFormatError` for an
    unknown role.
    """
    role = entry["role"]
    blocks = _blocks_of(entry)
    if role == "tool" and blocks and all(block["type"].endswith("tool_result") for block in blocks):
        role = "user"  # the reference project writes such blocks with the role "tool"
    if role not in ("user", "system"):
        raise TraceFormatError(f"unknown role {role!r}; the roles of Anthropic messages are 'user' and 'assistant'")
    yield from join_texts(role, (_read_user_block(block, names) for block in blocks))


def _read_user_block(block: Entry, names: Mapping[str, str]) -> str | Message:
    """Convert a block of a user entry to text, or to a message if it is a tool result."""
    if block["type"].endswith("tool_result"):
        return _result(block, names)
    return _text(block) if block["type"] == "text" else describe_block(block["type"], block)


def _result(block: Entry, names: Mapping[str, str]) -> Message:
    """Convert a tool result to a tool message. It is an error if the block states this (`is_error`), or if its content
    has a type that ends in `error` or a nonzero return code. Raises `TraceFormatError` if the block does not name the
    call.
    """
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise TraceFormatError("a tool_result has no tool_use_id")
    content = block.get("content")
    failed = isinstance(content, Mapping) and (
        str(content.get("type", "")).endswith("error") or bool(content.get("return_code"))
    )
    return Message(
        "tool",
        _result_text(content),
        tool_call_id=call_id,
        tool_name=names.get(call_id),
        is_error=bool(block.get("is_error")) or failed,
    )


def _result_text(content: Any) -> str:
    """Return the contents of a tool result as text. Images and documents are described, and anything else is converted
    to JSON.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(_result_text(item) for item in content)
    if isinstance(content, Mapping):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        if content.get("type") in ("image", "document"):
            return describe_block(content["type"], content)
    return as_json(content)


def _call(block: Entry) -> ToolCall:
    """Convert a `tool_use` block to a tool call. Raises `TraceFormatError` if it has no name or its input is not an
    object.
    """
    arguments = block.get("input") or {}
    if not isinstance(block.get("name"), str) or not isinstance(arguments, Mapping):
        raise TraceFormatError("a tool_use has no name, or its input is not an object")
    return ToolCall(str(block.get("id") or ""), block["name"], dict(arguments))


def _text(block: Entry) -> str:
    if not isinstance(block.get("text"), str):
        raise TraceFormatError("a text block has no text")
    return str(block["text"])


def _blocks_of(entry: Entry) -> list[Entry]:
    """Return the blocks of an entry. If it has no content, the list is empty. Raises `TraceFormatError` if the content
    is neither text nor a list, or if a block has no type.
    """
    content = entry.get("content")
    blocks = _blocks(content)
    if content is not None and not isinstance(content, (str, Sequence)):
        raise TraceFormatError(f"the content must be text or a list of blocks, not {type(content).__name__}")
    if isinstance(content, Sequence) and not isinstance(content, str) and len(blocks) < len(content):
        raise TraceFormatError("a content block has no type")
    return blocks


def _blocks(content: Any) -> list[Entry]:
    """Return the blocks of a message's content, which may be text. Malformed blocks are omitted."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, Sequence):
        return []
    return [block for block in content if isinstance(block, Mapping) and isinstance(block.get("type"), str)]


def _is_distinctive(block: Entry) -> bool:
    """Return whether the block only exists in Anthropic's format."""
    kind = block["type"]
    # Inspect also writes such blocks, with a `tool_type`, for calls that a server carried out.
    return kind in _THOUGHTS or (kind.endswith(("tool_use", "tool_result")) and "tool_type" not in block)


def read_usage(counted: Any) -> Usage:
    """Convert the `usage` of a reply. Missing counts are 0. The API counts tokens read from or written to its cache
    separately. Here, they are part of the input tokens. If the server shortened the conversation or asked an advisor,
    this counts as a further call, whose tokens only `iterations` contains. An advisor may be another, more expensive
    model, so its call is unpriced. Fast mode and a certain region cost more, and count as a service tier of their own.
    """
    if not isinstance(counted, Mapping):
        return Usage(calls=1)
    iterations = counted.get("iterations")
    further = [
        each
        for each in (iterations if isinstance(iterations, list) else ())
        if isinstance(each, Mapping) and each.get("type") in ("compaction", "advisor_message")
    ]
    dearer = counted.get("speed") == "fast" or counted.get("inference_geo") == "us"
    own = add_tier(_read_counts(counted), "of its own" if dearer else counted.get("service_tier"))
    searches = _count(counted.get("server_tool_use"), "web_search_requests")
    stated = stated_cost(counted) if "cost" in counted or "cost_in_usd_ticks" in counted else 0
    if searches or stated:
        own = replace(own, web_searches=searches, stated_cost=stated)
    return sum(map(_read_counts, further), own)


def _read_counts(counted: Mapping[str, Any]) -> Usage:
    """Convert the counts of a reply, or of one of its iterations, to the usage of one call. Input includes what was
    read from or written to the cache, and output includes thinking. Missing counts are 0.
    """
    cached = _count(counted, "cache_read_input_tokens")
    lifetimes = counted.get("cache_creation")
    long = _count(lifetimes, "ephemeral_1h_input_tokens")
    written = max(_count(counted, "cache_creation_input_tokens"), _count(lifetimes, "ephemeral_5m_input_tokens") + long)
    output = _count(counted, "output_tokens")
    return Usage(
        _count(counted, "input_tokens") + written + cached,
        output,
        cached,
        min(_count(counted.get("output_tokens_details"), "thinking_tokens"), output),
        calls=1,
        cache_write_tokens=written,
        long_write_tokens=long,
        unpriced_calls=int(counted.get("type") == "advisor_message"),
    )


def _count(counted: Any, key: str) -> int:
    """Return the token count under `key`, or 0 if it is missing."""
    return read_token_count(counted.get(key)) if isinstance(counted, Mapping) else 0
