"""A model server that answers most requests correctly, and one question with the bytes of an attack.

It speaks chat completions, the Messages API and, below `/mcp`, MCP over HTTP. A request whose text holds
`ATTACK: name.` gets the attack of that name; all others, and those of a judge (below `/judge`), are answered well.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import preloaded
from conftest import Environment

from karenina_testing.server import Reply, Request, ScriptedServer

MARK = re.compile(r"ATTACK: ([^.]+)\.")
Attack = Callable[["Asked"], Reply]


class Asked(Request):
    """A request, and replies in the words of the protocol that it speaks."""

    def reply(self, body: bytes, *headers: str, status: int = 200, kind: str = "application/json") -> Reply:
        """Return a whole reply."""
        named = dict(header.split(": ", 1) for header in headers)
        return Reply(body, status, {"Content-Type": kind, **named})

    def stream(self, *pieces: Any, kind: str = "application/json", packed: str = "") -> Reply:
        """Return a reply in chunks; one iterable of pieces may be without an end."""
        chunks = pieces[0] if len(pieces) == 1 and not isinstance(pieces[0], bytes) else pieces
        return Reply(chunks=chunks, headers={"Content-Type": kind, **({"Content-Encoding": packed} if packed else {})})

    def says(self, text: str | None, **message: Any) -> Reply:
        """Return a reply of the model."""
        return self.reply(json.dumps(self.completion(text, **message)).encode())

    def result(self, result: Any = None, **instead: Any) -> Reply:
        """Return the result of a request of MCP."""
        return Reply({"jsonrpc": "2.0", "id": self.fields.get("id"), **(instead or {"result": result})})

    def heard_tools(self) -> bool:
        """Return whether the request brings the result of a tool."""
        text = json.dumps(self.fields)
        return '"role": "tool"' in text or '"tool_result"' in text

    def completion(self, text: str | None, usage: Any = None, **message: Any) -> dict[str, Any]:
        """Return a reply of the model as JSON values."""
        if self.speaks_messages:
            blocks = [{"type": "text", "text": text}] if text is not None else []
            calls = [
                {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}
                for call in message.get("tool_calls", ())
            ]
            counts = {"input_tokens": 3, "output_tokens": 2} if usage is None else {"input_tokens": usage}
            stop = "tool_use" if calls else "end_turn"
            head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop}
            return {**head, "content": [*blocks, *calls], "usage": {"output_tokens": 2, **counts}}
        counts = {"prompt_tokens": 3 if usage is None else usage, "completion_tokens": 2, "total_tokens": 5}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": counts}


class Hostile(ScriptedServer):
    """A server with attacks; its tools take `slow` seconds."""

    def __init__(self, attacks: Mapping[str, Attack], slow: float = 0) -> None:
        super().__init__(self._answer, is_call=lambda _: True, keep_log=False)
        self.attacks = attacks
        self.slow = slow

    def _answer(self, request: Request) -> Reply:
        asked = Asked(request.method, request.path, request.head, request.data)
        if asked.path.startswith("/judge"):
            return asked.says(json.dumps({"city": "Paris"}))
        if asked.path.startswith("/mcp"):
            return self._answer_as_tools(asked)
        found = MARK.search(json.dumps(asked.fields))
        return self.attacks[found[1]](asked) if found is not None else asked.says("Paris.")

    def _answer_as_tools(self, asked: Asked) -> Reply:
        method = asked.fields.get("method", "")
        found = MARK.search(json.dumps(asked.fields))
        if asked.method != "POST":
            return Reply(status=405)
        if method.startswith("notifications/"):
            return Reply(status=202)
        if method == "tools/list" and "tools/list" in self.attacks:
            return self.attacks["tools/list"](asked)
        if found is not None:
            return self.attacks[found[1]](asked)
        if method in RESULTS:
            return replace(asked.result(RESULTS[method]), delay=self.slow)
        return asked.result(error={"code": -32601, "message": "unknown method"})


MODELS: dict[str, dict[str, Any]] = {
    "openai": {"interface": "openai"},
    "claude_tool": {"interface": "claude_tool", "endpoint_api_key": "k"},
    "langchain": {"interface": "langchain", "model_provider": "openai", "endpoint_api_key": "k"},
}
LOOK = {"name": "look", "description": "Look.", "inputSchema": {"type": "object"}}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "tools/list": {"tools": [LOOK]},
    "tools/call": {"content": [{"type": "text", "text": "Paris."}]},
}
GOOD = {"good 1": "What is the capital of France?", "good 2": "Where is the Louvre?"}
TEMPLATE = """
class Answer(BaseAnswer):
    city: str = VerifiedField(description="The city", ground_truth="Paris", verify_with=ExactMatch())
"""


@dataclass
class Done:
    """A completed command: exit code, stderr, results by question, peak memory in megabytes, and seconds."""

    code: int
    errors: str
    results: dict[str, dict[str, Any]]
    megabytes: float
    seconds: float

    def error(self, question: str) -> str:
        """Return the error of an item."""
        return str(self.results[question]["metadata"].get("error", ""))

    def outcomes(self) -> dict[str, str]:
        """Return the outcomes by question."""
        return {id: str(result["outcome"]) for id, result in self.results.items()}


def run_against(
    site: Environment,
    server: Hostile,
    adapter: str,
    *settings: str,
    questions: Mapping[str, str] | None = None,
    script: bool = False,
    **fields: Any,
) -> Done:
    """Run a benchmark with the installed command, its answering model on the hostile server.

    Its questions are one for each attack between good ones, unless others are given.
    """
    good, last = GOOD
    attacks = {name: f"ATTACK: {name}." for name in server.attacks}
    questions = questions or {good: GOOD[good], **attacks, last: GOOD[last]}
    lines = [
        json.dumps({"id": id, "question": text, "raw_answer": "Paris", "template": TEMPLATE})
        for id, text in questions.items()
    ]
    file = site.write("cities.jsonl", "\n".join(lines) + "\n")
    base = server.url if adapter.startswith("claude_tool") else f"{server.url}/v1"
    answering = {"id": "a", "model_name": "m", "endpoint_base_url": base, **MODELS[adapter.partition(" ")[0]], **fields}
    judging = {
        "id": "j",
        "model_name": "m",
        "interface": "openai",
        "endpoint_base_url": f"{server.url}/judge/v1",
    }
    output = site.folder / "results.jsonl"
    usual = ("retry_connection=0", "retry_timeout=0", "retry_server=0", "retry_rate_limit=0", "max_concurrency=1")
    chosen = [word for one in (*usual, *settings) for word in ("--set", one)]
    command = ["run", file, "-a", json.dumps(answering), "-j", json.dumps(judging), "-o", output, *chosen]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
    preloaded.scripts()  # its start is no part of the command
    began = time.monotonic()
    ended = preloaded.run(
        command, folder=site.folder, environment={**environment, "COLUMNS": "400"}, timeout=240, script=script
    )
    found = [json.loads(line) for line in output.read_text("utf-8").splitlines()[1:]] if output.exists() else []
    results = {one["metadata"]["question_id"]: one for one in found if "metadata" in one}
    return Done(ended.returncode, ended.stderr, results, ended.megabytes, time.monotonic() - began)
