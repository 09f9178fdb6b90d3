"""Bodies of replies for the tests of the `claude_tool` interface."""

from __future__ import annotations

from typing import Any

from karenina_core.models.model import ModelConfig


def reply(*blocks: dict[str, Any] | str, stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    """Return a message of the assistant, with texts and other blocks."""
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    usage = {"input_tokens": 7, "output_tokens": 3}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "served-model"}
    return {**head, "content": content, "stop_reason": stop, "usage": usage, **fields}


def call(name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": f"toolu_{number:03d}", "name": name, "input": arguments}


def thought(text: str) -> dict[str, Any]:
    """Return a block that the server signed, and expects to be sent back unchanged."""
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}


def error(kind: str, message: str) -> dict[str, Any]:
    """Return an error in the API's format."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def model(url: str | None, **fields: Any) -> ModelConfig:
    """Return a model behind `url`."""
    return ModelConfig(id="m", interface="claude_tool", model_name="served", endpoint_base_url=url, **fields)
