"""A scripted server, and bodies of its replies, for the tests of the LangChain adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from note_agents import tool_calls

from karenina_core.models.model import ModelConfig
from karenina_testing.server import Reply, ScriptedServer


class Scripted(ScriptedServer):
    """A server at `/v1` whose replies depend on the bodies of requests."""

    def __init__(self) -> None:
        super().__init__(path="/v1")

    def says(self, *bodies: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer the first request with the first body, and so on; the last one again and again."""
        super().says(*(Reply(body, status, headers or {}) for body in bodies))

    def _set_answer(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        super().says(lambda request: answer(request.body))

    answer = property(fset=_set_answer, doc="A function from the body of each request to what it is sent.")

    @property
    def headers(self) -> list[Mapping[str, str]]:
        """The headers of all requests."""
        return [request.headers for request in self.requests]

    @property
    def paths(self) -> list[str]:
        """The paths of all requests."""
        return [request.path for request in self.requests]


def completion(content: str | None = "Paris.", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion of OpenAI's that says `content`."""
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def calls(*wanted: tuple[str, dict[str, Any] | str]) -> dict[str, Any]:
    """A completion that calls tools: names with their arguments."""
    return completion(None, "tool_calls", tool_calls=tool_calls(*wanted))


def claude(*blocks: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    """A message of Anthropic's."""
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-served",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "output_tokens": 3,
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 0,
        },
    }


def model(url: str | None, interface: str = "openai_endpoint", **fields: Any) -> ModelConfig:
    """A model behind `url`."""
    return ModelConfig(
        **{"id": "m", "interface": interface, "model_name": "served", "endpoint_base_url": url, **fields}
    )


def claude_model(server: Scripted, **fields: Any) -> ModelConfig:
    """A model of Anthropic's behind the server."""
    given = {"model_name": "claude-haiku-4-5", "endpoint_api_key": "sk-ant-1", **fields}
    return model(server.url.removesuffix("/v1"), "langchain", **given)
