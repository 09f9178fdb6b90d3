"""Servers for the tests of the `openai` interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from karenina_core.models.model import ModelConfig
from karenina_testing.server import Reply, ScriptedServer


class Scripted(ScriptedServer):
    """A server at `/v1` with one reply for all requests, or one that depends on a request's body."""

    def __init__(self) -> None:
        super().__init__(path="/v1")

    def says(self, status: int = 200, body: Any = None, headers: dict[str, str] | None = None) -> None:
        """Answer every request the same; text is sent as it is, anything else as JSON."""
        super().says(Reply(body, status, headers or {}))

    def _set_answer(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        super().says(lambda request: answer(request.body))

    answer = property(fset=_set_answer, doc="A function from the body of each request to what it is sent.")


SILENCE = (120.0, "")
"""A piece that no test waits for: the client closes the connection before."""


def in_pieces(parts: Iterable[tuple[float, str]], *, cut: bool = False) -> Reply:
    """Return a streamed reply: pieces, each after so many seconds. `cut` breaks the connection at the end."""
    chunks = (one for seconds, piece in parts for one in (seconds, piece))
    return Reply(chunks=chunks, cut=1 if cut else None, end="close" if cut else "keep")


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
