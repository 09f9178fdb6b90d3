"""A model server that answers most requests correctly, and one question with the bytes of an attack.

It speaks chat completions, the Messages API and, below `/mcp`, MCP over HTTP. A request whose text holds
`ATTACK: name.` gets the attack of that name; all others, and those of a judge (below `/judge`), are answered well.
Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import preloaded
from conftest import Environment

MARK = re.compile(r"ATTACK: ([^.]+)\.")
Attack = Callable[["Wire"], None]


class Gone(Exception):
    """Raised if the client has closed the connection."""


@dataclass
class Wire:
    """One connection, and the request that came over it."""

    socket: socket.socket
    method: str = ""
    path: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    def send(self, data: bytes) -> None:
        """Send bytes. Raises `Gone`."""
        try:
            self.socket.sendall(data)
        except OSError:
            raise Gone from None

    def reply(self, body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> None:
        """Send a whole reply."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join([*lines, "\r\n"]).encode() + body)

    def begin(self, *headers: str, kind: str = "application/json") -> None:
        """Send the head of a reply in chunks."""
        lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *headers]
        self.send("\r\n".join([*lines, "\r\n"]).encode())

    def chunk(self, data: bytes) -> None:
        """Send a chunk."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def says(self, text: str | None, **message: Any) -> None:
        """Send a reply of the model, in the words of the protocol that was spoken."""
        self.reply(json.dumps(self.completion(text, **message)).encode())

    def result(self, result: Any = None, **instead: Any) -> None:
        """Send the result of a request of MCP."""
        self.reply(json.dumps(self.answer(result, **instead)).encode())

    def answer(self, result: Any = None, **instead: Any) -> dict[str, Any]:
        """Return the result of a request of MCP."""
        return {"jsonrpc": "2.0", "id": self.body.get("id"), **(instead or {"result": result})}

    def heard_tools(self) -> bool:
        """Return whether the request brings the result of a tool."""
        text = json.dumps(self.body)
        return '"role": "tool"' in text or '"tool_result"' in text

    def completion(self, text: str | None, usage: Any = None, **message: Any) -> dict[str, Any]:
        """Return a reply of the model, in the words of the protocol that was spoken."""
        if self.path.endswith("/messages"):
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


class Hostile:
    """Serves connections with threads."""

    def __init__(self, attacks: Mapping[str, Attack], slow: float = 0) -> None:
        self.attacks = attacks
        self.slow = slow
        self.url = ""

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection."""
        wire = Wire(connection)
        with suppress(Gone, OSError), connection:
            while self._read(wire):
                self._answer(wire)

    def _read(self, wire: Wire) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = wire.socket.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        line, *headers = head.decode("latin-1").split("\r\n")
        lengths = [one.partition(":")[2] for one in headers if one.lower().startswith("content-length:")]
        length = int(lengths[0]) if lengths else 0
        pieces, size = [body], len(body)
        while size < length:
            piece = wire.socket.recv(1 << 20)
            if not piece:
                return False
            pieces.append(piece)
            size += len(piece)
        wire.method, wire.path = line.split(" ")[:2]
        text = b"".join(pieces)
        wire.body = json.loads(text) if text else {}
        return True

    def _answer(self, wire: Wire) -> None:
        if wire.path.startswith("/judge"):
            wire.says(json.dumps({"city": "Paris"}))
        elif wire.path.startswith("/mcp"):
            self._answer_as_tools(wire)
        elif (found := MARK.search(json.dumps(wire.body))) is not None:
            self.attacks[found[1]](wire)
        else:
            wire.says("Paris.")

    def _answer_as_tools(self, wire: Wire) -> None:
        asked = wire.body.get("method", "")
        found = MARK.search(json.dumps(wire.body))
        if wire.method != "POST":
            wire.reply(b"", status="405 Method Not Allowed")
        elif asked.startswith("notifications/"):
            wire.reply(b"", status="202 Accepted")
        elif asked == "tools/list" and "tools/list" in self.attacks:
            self.attacks["tools/list"](wire)
        elif found is not None:
            self.attacks[found[1]](wire)
        elif asked in RESULTS:
            time.sleep(self.slow)
            wire.result(RESULTS[asked])
        else:
            wire.result(error={"code": -32601, "message": "unknown method"})


@contextmanager
def hostile_server(attacks: Mapping[str, Attack], slow: float = 0) -> Iterator[Hostile]:
    """Serve as long as the block lasts; tools take `slow` seconds."""
    server = Hostile(attacks, slow)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as door:
        server.url = f"http://127.0.0.1:{door.getsockname()[1]}"

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = door.accept()
                    threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server


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
        return str(self.results[question]["metadata"]["error"] or "")

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
    began = time.monotonic()
    ended = preloaded.run(
        command, folder=site.folder, environment={**environment, "COLUMNS": "400"}, timeout=240, script=script
    )
    found = [json.loads(line) for line in output.read_text("utf-8").splitlines()[1:]] if output.exists() else []
    results = {one["metadata"]["question_id"]: one for one in found if "metadata" in one}
    return Done(ended.returncode, ended.stderr, results, ended.megabytes, time.monotonic() - began)
