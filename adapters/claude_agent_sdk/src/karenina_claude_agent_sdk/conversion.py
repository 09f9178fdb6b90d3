"""Karenina's messages to those of the Messages API, and replies back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karenina_core.models.ports import FinishReason, Message, Turn
from karenina_core.text import replace_surrogates, replace_surrogates_in
from karenina_toolkit.traces.anthropic import read, read_usage
from karenina_toolkit.traces.format_error import TraceFormatError

Wire = dict[str, Any]

SERVER = "karenina"
"""The name under which the CLI knows the tools that a run brings."""

_PREFIX = f"mcp__{SERVER}__"
_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def to_wire(messages: Sequence[Message], brought: Sequence[str] = ()) -> tuple[str, list[Wire]]:
    """The system prompt, and the other messages as the Messages API wants them.

    What one side says without a word of the other is one message. `brought` are the names of the tools that the run
    brings, which the CLI knows under longer ones.
    """
    system: list[str] = []
    wire: list[Wire] = []
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


def turn_of(reply: Wire) -> Turn:
    """A reply as a turn; `wire` is the reply itself. Raises `ValueError`, which says what is missing."""
    content = reply.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ValueError("its content is no list of blocks")
    blocks = [
        {**block, "name": plain_tool_name(block["name"])} if isinstance(block.get("name"), str) else block
        for block in content
    ]
    try:
        found = list(read([{"role": "assistant", "content": blocks}]))
    except TraceFormatError as error:
        raise ValueError(f"its content cannot be read: {error}") from None
    model = reply.get("model")
    return Turn(
        found[0] if found else Message.assistant(),
        read_usage(reply.get("usage")),
        _FINISH.get(str(reply.get("stop_reason")), "other"),
        model if isinstance(model, str) else None,
        wire=reply,
    )


def results_in(request: Wire) -> dict[str, tuple[str, bool]]:
    """What the CLI tells the model of its last turn's tools: text and whether it failed, by the id of the call."""
    blocks: list[Wire] = []
    for entry in reversed(request.get("messages", [])):
        if entry["role"] == "assistant":
            break
        if isinstance(entry["content"], list):
            blocks = [*(block for block in entry["content"] if isinstance(block, dict)), *blocks]
    return results_of(blocks)


def results_of(blocks: Sequence[Wire]) -> dict[str, tuple[str, bool]]:
    """The results of tools among `blocks`: text and whether the tool failed, by the id of the call."""
    found = [block for block in blocks if block.get("type") == "tool_result"]
    return {
        str(said.tool_call_id): (said.content, said.is_error)
        for said in read([{"role": "user", "content": found}])
        if said.role == "tool"
    }


def plain_tool_name(name: str) -> str:
    """The name of a tool as it is called outside the CLI."""
    return name.removeprefix(_PREFIX)


def _blocks_of(message: Message, brought: Sequence[str]) -> list[Wire]:
    if message.role == "tool":
        failed = {"is_error": True} if message.is_error else {}
        result = {"tool_use_id": message.tool_call_id or "", "content": message.content, **failed}
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
    return [{"type": "text", "text": message.content}, *calls]


def _is_blank(block: Wire) -> bool:
    return block["type"] == "text" and not str(block["text"]).strip()


def reply_of(turn: Turn, brought: Sequence[str]) -> Wire:
    """The reply of the Messages API that is this turn: as it came, or where that was not kept, what it says."""
    if isinstance(turn.wire, dict):
        return turn.wire
    reason = next((name for name, reason in _FINISH.items() if reason == turn.finish_reason), "end_turn")
    return {"content": _blocks_of(turn.message, brought), "stop_reason": reason}
