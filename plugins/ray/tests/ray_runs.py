"""Helpers: runs against a server on loopback that counts its calls, in this process and on workers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karenina_benchmark import Benchmark
from karenina_core import VerificationConfig
from karenina_core.data.result import VerificationResult
from karenina_engine.results.result_set import VerificationResultSet

KEY = "a-key-that-is-in-no-file"


@dataclass
class Server:
    """A server that replies to each text after `latency` seconds, and to the first after `processes` have called.

    `received` are process id and text of all calls in order, `answered` those that had their reply; `on_call` is called
    for each call, in the server's thread, and `reply` makes the reply to its body.
    """

    latency: float = 0.05
    processes: int = 1
    received: list[tuple[int, str]] = field(default_factory=list)
    answered: list[tuple[int, str]] = field(default_factory=list)
    most: int = 0
    keys: set[str | None] = field(default_factory=set)
    on_call: Callable[[int], None] = lambda _pid: None
    reply: Callable[[Mapping[str, Any]], str] = lambda body: _reply(body["text"])
    url: str = ""

    @property
    def calls(self) -> Counter[str]:
        """Return how often each text was sent."""
        return Counter(text for _, text in self.received)

    def by_process(self) -> Counter[int]:
        """Return the number of calls of each process."""
        return Counter(pid for pid, _ in self.received)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = json.loads(await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])))
        self.received.append((body["pid"], body["text"]))
        self.keys.add(body["key"])
        self.most = max(self.most, len(self.received) - len(self.answered))
        self.on_call(body["pid"])
        while len(self.by_process()) < self.processes:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.sleep(self.latency)
        writer.write(f"HTTP/1.0 200 OK\r\n\r\n{self.reply(body)}".encode())
        self.answered.append((body["pid"], body["text"]))
        writer.close()


def _reply(text: str) -> str:
    """Return the number of words to a judge, and an answer to any other model."""
    return json.dumps({"words": len(text.split())}) if " reads: " in text else f"It is {text}"


@contextmanager
def serving(latency: float = 0.05) -> Iterator[Server]:
    """Run a server in a thread for the block."""
    server, loop, ready, over = Server(latency), asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def work() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=512)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        ready.set()
        await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


def config(server: Server, executor: str, *, interface: str = "fake_plugin.fake", **values: Any) -> VerificationConfig:
    """Return a configuration in which two judges read each answer."""
    answering, *judges = [
        {
            "id": id,
            "interface": interface,
            "model_name": id,
            "endpoint_base_url": server.url,
            "endpoint_api_key": KEY,
            "max_tokens": 8,
        }
        for id in ("answering", "judge-1", "judge-2")
    ]
    return VerificationConfig(
        answering_models=[answering],
        parsing_models=judges,
        executor=executor,
        slots={"generate_answer": "Ask"},
        **{"evaluation_mode": "rubric_only", "ray_workers": 4, "ray_patience": 280.0, **values},
    )


def benchmark(count: int, *more: str) -> Benchmark:
    """Return a benchmark of `count` questions and those of `more`."""
    made = Benchmark.create("fake")
    for number in range(count):
        made.add_question(f"question {number}")
    for text in more:
        made.add_question(text, question_id=f"extra {len(made)}")
    return made


def run(
    server: Server, executor: str, questions: Benchmark, journal: Path | None = None, **values: Any
) -> VerificationResultSet:
    """Run, and return the results."""
    return questions.run_verification(config(server, executor, **values), journal=journal)


def comparable(results: VerificationResultSet) -> list[dict[str, Any]]:
    """Return results as data without times and ids: the keys of calls are those of a journal."""
    return [_comparable(one) for one in results]


def _comparable(result: VerificationResult) -> dict[str, Any]:
    data = json.loads(result.model_dump_json())
    for name in ("timestamp", "execution_time", "result_id"):
        data["metadata"].pop(name)
    for stage in data["stages"]:
        for name in ("seconds", "waited", "call_keys"):
            stage.pop(name)
    return data
