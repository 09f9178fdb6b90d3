"""Servers for the tests of the `openai` interface."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from karenina_core.models.model import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Pieces:
    """A streamed reply: pieces of the body, each after so many seconds. `cut` breaks the connection at the end."""

    pieces: list[tuple[float, str]]
    cut: bool = False

    async def to(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for seconds, piece in self.pieces:
            await asyncio.sleep(seconds)
            await response.write(piece.encode())
        if self.cut:
            assert request.transport is not None
            request.transport.close()
        return response


@dataclass
class Scripted:
    """A server that answers each request with `answer`, and records the requests."""

    url: str = ""
    answer: Callable[[dict[str, Any]], web.Response | Pieces] | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: list[web.BaseRequest] = field(default_factory=list)

    def says(self, status: int = 200, body: Any = None, headers: dict[str, str] | None = None) -> None:
        """Answer every request the same; text is sent as it is, anything else as JSON."""
        if isinstance(body, str):
            self.answer = lambda _: web.Response(status=status, text=body, headers=headers)
        else:
            self.answer = lambda _: web.json_response(body, status=status, headers=headers)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.json())
        assert self.answer is not None
        answer = self.answer(self.bodies[-1])
        return await answer.to(request) if isinstance(answer, Pieces) else answer


def completion(content: str | None = "Paris.", **message: Any) -> dict[str, Any]:
    """Return a chat completion with `content`."""
    return {
        "model": "served-model",
        "choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def chunk(finish: str | None = None, **delta: Any) -> str:
    """Return an event of a stream with `delta`."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"model": "served-model", "choices": [choice]})


def event(data: Any) -> str:
    """Return an event of a stream."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def streamed(completion: dict[str, Any], size: int = 5) -> str:
    """Return `completion` as a stream, with texts and arguments in parts of so many characters."""
    (choice,) = completion["choices"]
    message = choice["message"]
    text = message.get("content") or ""
    events = [chunk(role="assistant", content="")]
    events += [chunk(content=text[start : start + size]) for start in range(0, len(text), size)]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {"index": index, "id": call["id"], "type": "function", "function": {**function, "arguments": ""}}
        events.append(chunk(tool_calls=[begun]))
        for start in range(0, len(function["arguments"]), size):
            part = {"arguments": function["arguments"][start : start + size]}
            events.append(chunk(tool_calls=[{"index": index, "function": part}]))
    events.append(chunk(choice["finish_reason"]))
    events.append(event({"model": completion["model"], "choices": [], "usage": completion["usage"]}))
    return "".join([*events, event("[DONE]")])


def model(url: str | None, **fields: Any) -> ModelConfig:
    """Return a model behind `url`."""
    return ModelConfig(id="m", interface="openai", model_name="served", endpoint_base_url=url, **fields)
