"""What the tests of the `openai` interface talk to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from karenina_core.models import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Scripted:
    """A server that answers each request as `answer` says, and keeps what it was sent."""

    url: str = ""
    answer: Callable[[dict[str, Any]], web.Response] | None = None
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
        return self.answer(self.bodies[-1])


def completion(content: str | None = "Paris.", **message: Any) -> dict[str, Any]:
    """A chat completion that says `content`."""
    return {
        "model": "served-model",
        "choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def model(url: str | None, **fields: Any) -> ModelConfig:
    """A model behind `url`."""
    return ModelConfig(id="m", interface="openai", model_name="served", endpoint_base_url=url, **fields)
