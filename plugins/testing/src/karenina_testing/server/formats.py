"""Chat completions and Messages API replies: whole, streamed, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import ToolCall, Usage
from karenina_testing.server.exchange import Reply, Request, Say, event

_STOPS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_PIECE: Final = 16
"""The number of characters per stream event."""


def spoken(request: Request, said: Say) -> Reply:
    """Return the reply for `said` in the request's API format, streamed if the request asks for this. If the request
    forces a tool, text that is a JSON object becomes a call of that tool.
    """
    said = as_forced_call(said, request)
    streamed = bool(request.fields.get("stream"))
    if request.speaks_messages:
        message = message_of(said, request)
        return Reply(chunks=[*_message_events(message)]) if streamed else Reply(message)
    completion = completion_of(said, request)
    if not streamed:
        return Reply(completion)
    options = request.fields.get("stream_options")
    counted = isinstance(options, dict) and bool(options.get("include_usage"))
    return Reply(chunks=[*_completion_events(completion, counted)], done=True)


def as_forced_call(said: Say, request: Request) -> Say:
    """Return `said` as a call of the tool that the request forces, with its text as the arguments, or unchanged if no
    tool is forced, it has calls already, or its text is not a JSON object.
    """
    choice = request.fields.get("tool_choice")
    if said.calls or not isinstance(choice, dict):
        return said
    name = choice.get("name") or (choice.get("function") or {}).get("name")
    try:
        arguments = json.loads(said.text or "")
    except ValueError:
        return said
    if not name or not isinstance(arguments, dict):
        return said
    return replace(said, text="", calls=(ToolCall("call_1", name, arguments),))


def failure(request: Request, status: int, message: str) -> Any:
    """Return an error body in the request's API format. Only that of the Messages API depends on `status`."""
    return message_error(status, message) if request.speaks_messages else completion_error(message)


def completion_error(message: str) -> dict[str, Any]:
    """Return a chat completions error body."""
    return {"error": {"type": "scripted_error", "message": message, "param": None, "code": None}}


def message_error(status: int, message: str) -> dict[str, Any]:
    """Return a Messages API error body, with the error type for `status`."""
    return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}


def completion_of(said: Say, request: Request | None = None) -> dict[str, Any]:
    """Return a chat completion with one choice. Usage that `said` does not state is estimated from lengths of text."""
    usage = said.usage or _estimate_usage(said, request)
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": said.finish or ("tool_calls" if said.calls else "stop")}
    if said.logprobs is not None:
        choice["logprobs"] = said.logprobs
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": said.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        },
    }


def message_of(said: Say, request: Request | None = None) -> dict[str, Any]:
    """Return a Messages API message. Usage that `said` does not state is estimated from lengths of text."""
    usage = said.usage or _estimate_usage(said, request)
    finish = said.finish or ("tool_calls" if said.calls else "stop")
    content: list[dict[str, Any]] = []
    if said.reasoning:
        content.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2lnbmVk"})
    if said.text:
        content.append({"type": "text", "text": said.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in said.calls
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": content,
        "stop_reason": _STOPS.get(finish, finish),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        },
    }


def _estimate_usage(said: Say, request: Request | None) -> Usage:
    """Estimate the usage as one token for every four characters, with at least one input and one output token."""
    sent = len(request.data) if request is not None else 0
    return Usage(max(sent // 4, 1), max(len(said.text or "") // 4, 1), calls=1)


def _completion_events(completion: Mapping[str, Any], counted: bool) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a streamed completion. If `counted`, the last chunk contains the usage."""
    head = {"id": completion["id"], "object": "chat.completion.chunk", "created": 1, "model": completion["model"]}
    (choice,) = completion["choices"]
    message = choice["message"]

    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk(role="assistant", content="")
    yield from (chunk(reasoning_content=part) for part in _parts(message.get("reasoning_content")))
    for part in _parts(message["content"]):
        yield chunk(content=part)
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield chunk(tool_calls=[{"index": index, **call, "function": {"name": function["name"], "arguments": ""}}])
        for part in _parts(function["arguments"]):
            yield chunk(tool_calls=[{"index": index, "function": {"arguments": part}}])
    last = chunk(choice["finish_reason"])
    if "logprobs" in choice:
        last["choices"][0]["logprobs"] = choice["logprobs"]
    yield last
    if counted:
        yield {**head, "choices": [], "usage": completion["usage"]}


def _message_events(message: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a streamed Messages API message, encoded."""

    def named(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)

    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield named("message_start", message=begun)
    for index, block in enumerate(message["content"]):
        yield named("content_block_start", index=index, content_block={**block, **_EMPTY[block["type"]]})
        yield from (named("content_block_delta", index=index, delta=delta) for delta in _deltas(block))
        yield named("content_block_stop", index=index)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield named("message_delta", delta=ended, usage=message["usage"])
    yield named("message_stop")


_EMPTY: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the deltas in which the Messages API streams a content block."""
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": part} for part in _parts(block["text"]))
    elif block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        arguments = json.dumps(block["input"])
        yield from ({"type": "input_json_delta", "partial_json": part} for part in _parts(arguments))


def _parts(text: str | None) -> Sequence[str]:
    """Split text into pieces of 16 characters. None and "" have no pieces."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)] if text else []
