"""A scripted server of the standard library for the tests of the LangChain adapter."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from karenina_core.models.model import ModelConfig


@dataclass
class Answer:
    """One HTTP reply; text is sent as it is, anything else as JSON. `cut` closes the connection in the middle."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    wait: threading.Event | None = None


@dataclass
class Scripted:
    """A server that answers each request as `answer` says, and keeps what it was sent."""

    url: str = ""
    answer: Callable[[dict[str, Any]], Answer] | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def says(self, *bodies: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer the first request with the first body, and so on; the last one again and again."""
        left = list(bodies)
        self.answer = lambda _: Answer(left.pop(0) if len(left) > 1 else left[0], status, headers or {})


@contextmanager
def serving() -> Iterator[Scripted]:
    """A running server, gone at the end."""
    scripted = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scripted.bodies.append(body)
            scripted.headers.append({name.lower(): value for name, value in self.headers.items()})
            scripted.paths.append(self.path)
            assert scripted.answer is not None
            answer = scripted.answer(body)
            if answer.wait is not None:
                answer.wait.wait(10)
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode()) + (100 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(text.encode())
            self.close_connection = self.close_connection or answer.cut

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Quick(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128  # the default 5 is less than tests send at once: a busy machine then resets some

    made = Quick(("127.0.0.1", 0), Handler)
    scripted.url = f"http://127.0.0.1:{made.server_address[1]}/v1"
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


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
    tool_calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(wanted)
    ]
    return completion(None, "tool_calls", tool_calls=tool_calls)


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
