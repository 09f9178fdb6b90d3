"""Kill a run again and again, over a server that fails, and see that nothing is lost and nothing is asked twice.

    python benchmarks/faults.py                           50 kills; takes some minutes
    python benchmarks/faults.py --kills 8 --questions 60  the same, smaller

Of the requests 10% are answered with status 429 and 5% with 500, 2% are never answered, for 2% the connection is closed
without a reply, and 2% get JSON that is cut off. The command `karenina run` is killed with SIGKILL at random moments,
while it starts and while it asks, and given again; the last time it may end. Then an undisturbed run over a server
without faults does the same work, and these must hold, or the script ends with 1:

- every item has one result, and the results say the same as the undisturbed run's, tokens included;
- no call came again after its reply, unless it was in flight when its run was killed: its reply neither in the journal,
  which is looked into after every kill, nor used: that run had not asked the judge, and no result was there. Which run
  a request is of, its API key says: it may reach the server when the run that sent it is dead;
- the same command once more makes no call, and a replay without the server writes the same file to the byte.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import own_state  # noqa: F401 - sets it

FAULTS: Final = {"refused": 0.10, "broken": 0.05, "hangs": 0.02, "closed": 0.02, "cut": 0.02}
USAGE: Final = {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72}
RESULT: Final = ("outcome", "template", "vetoes")

ENDED: Final = 0
"""The number of every run that is let end; those that are killed count from 1."""

Asked = tuple[str, bool]
"""Which call it is: the question's id, and whether it is the judge's."""


@dataclass(frozen=True)
class Reply:
    """A reply that left the server: to which run, when, and whether the client was still there."""

    run: int
    left: float
    heard: bool


@dataclass(frozen=True)
class Kill:
    """When a run was killed, and what its journal held then: the calls with replies, and the items with results."""

    time: float
    kept: frozenset[Asked] = frozenset()
    ended: frozenset[str] = frozenset()


def code(item: int) -> str:
    """Return the code word of an item."""
    return f"CW{(item * 6151 + 7) % 999983}X"


@dataclass
class Server:
    """A chat server on loopback, in a thread of this process, and what it has seen."""

    latency: float
    faults: dict[str, float]
    url: str = ""
    requests: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    came: dict[Asked, set[int]] = field(default_factory=dict)
    replied: dict[Asked, list[Reply]] = field(default_factory=dict)
    asked: threading.Event = field(default_factory=threading.Event)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def start(self) -> None:
        """Serve from now on, until the process ends."""
        ready = threading.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self.connection, "127.0.0.1", 0, backlog=1024)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            ready.set()
            await server.serve_forever()

        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        ready.wait()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after another, well or badly."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                if not await self.answer(head, body, reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection stays."""
        self.requests += 1
        self.asked.set()
        run = int(re.findall(rb"(?i)bearer run-(\d+)", head)[0])
        asked = f"q{int(re.findall(rb'#([0-9]+)', body)[-1])}", b"json_schema" in body
        self.came.setdefault(asked, set()).add(run)
        kind = self.kind()
        if kind is not None:
            self.failed[kind] = self.failed.get(kind, 0) + 1
        if kind == "hangs":
            await asyncio.sleep(60)
            return False
        await asyncio.sleep(self.latency * (0.5 + self.draw.random()))
        if kind == "closed":
            return False
        if kind in ("refused", "broken"):
            status = 429 if kind == "refused" else 500
            await self.send(writer, status, json.dumps({"error": {"message": "not now"}}))
            return True
        content = json.dumps(reply_to(body))
        if kind == "cut":
            await self.send(writer, 200, content[: len(content) // 2])
            return True
        heard = not reader.at_eof()
        await self.send(writer, 200, content)
        self.replied.setdefault(asked, []).append(Reply(run, time.monotonic(), heard))
        return True

    def kind(self) -> str | None:
        """Which fault this request meets, if any."""
        drawn = self.draw.random()
        for name, share in self.faults.items():
            if drawn < share:
                return name
            drawn -= share
        return None

    @staticmethod
    async def send(writer: asyncio.StreamWriter, status: int, content: str) -> None:
        """Send a reply."""
        data = content.encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()


def reply_to(body: bytes) -> dict[str, Any]:
    """Return the code word, as a sentence or as JSON; every fifth answer has a wrong one."""
    if b"json_schema" in body:
        said = re.findall(rb"CW\d+X", body)
        text = json.dumps({"word": said[-1].decode() if said else ""})
    else:
        item = int(re.findall(rb"#(\d+)", body)[-1])
        text = f"The code word of item #{item} is {code(item if item % 5 else item + 1)}."
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "1", "object": "chat.completion", "model": "fake", "choices": [choice], "usage": USAGE}


def write_benchmark(file: Path, count: int) -> None:
    """Write a benchmark of so many questions, each with its own template and truth."""
    with file.open("w") as out:
        out.write('{"karenina": 1, "name": "Code words"}\n')
        for item in range(count):
            word = {"description": "The code word that the response states.", "ground_truth": code(item)}
            question = f"What is the code word of item #{item}?"
            out.write(json.dumps({"id": f"q{item}", "question": question, "answer": {"word": word}}) + "\n")


def command(file: Path, server: Server, output: str, *more: str) -> list[str]:
    """Return the command that is given again and again."""
    model = f"openai:fake@{server.url}"
    run = [*_tool(), "run", str(file), "-a", model, "-j", model, "-o", output]
    return [*run, "--set", "request_timeout=2", "--quiet", *more]


def environment(run: int) -> dict[str, str]:
    """Return the arguments of a run, so that the server recognises its requests."""
    return {**os.environ, "OPENAI_API_KEY": f"run-{run}"}


def killed(given: list[str], folder: Path, server: Server, draw: random.Random, run: int) -> Kill | None:
    """Give the command and kill it at a random moment; None where it had ended."""
    server.asked.clear()
    process = subprocess.Popen(
        given, cwd=folder, env=environment(run), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if draw.random() < 0.2:
        time.sleep(2 * draw.random())
    else:
        server.asked.wait(20)
        time.sleep(1.2 * draw.random())
    ended = process.poll() is not None
    process.kill()
    at = time.monotonic()
    _, said = process.communicate()
    if ended and process.returncode != 0:
        raise SystemExit(f"the run failed ({process.returncode}): {said.decode()}")
    return None if ended else looked_into(folder / "out.journal", at)


def looked_into(journal: Path, at: float) -> Kill:
    """Return a kill at this moment, with what the journal holds."""
    if not journal.is_file() or not journal.stat().st_size:
        return Kill(at)
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone():
            return Kill(at)
        replies = database.execute("SELECT question_id, port FROM replies WHERE reusable").fetchall()
        results = database.execute("SELECT question_id FROM results WHERE NOT again").fetchall()
    return Kill(at, frozenset((id, port == "parser") for id, port in replies), frozenset(id for (id,) in results))


def finished(given: list[str], folder: Path) -> str:
    """Give the command and let it end; what it printed."""
    done = subprocess.run(given, cwd=folder, env=environment(ENDED), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the run failed ({done.returncode}): {done.stderr}")
    return done.stdout + done.stderr


def results(file: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a file by item. Ends the script if an item occurs twice."""
    found: dict[str, dict[str, Any]] = {}
    _header, *lines = file.read_text().splitlines()
    for line in lines:
        result = json.loads(line)
        id = result["metadata"]["question_id"]
        if id in found:
            raise SystemExit(f"{id} has two results")
        found[id] = {name: result[name] for name in RESULT}
    return found


def asked_twice(server: Server, kills: dict[int, Kill]) -> tuple[int, int, float]:
    """Return the number of calls repeated after a reply, the number of those that were not in flight at a kill
    between the two, and the longest time in seconds between a reply and the kill that lost it."""
    twice = wrongly = 0
    longest = 0.0
    for asked, replies in server.replied.items():
        for reply, again in pairwise(sorted(replies, key=lambda one: one.run or math.inf)):  # those let end came last
            twice += 1
            kill = kills.get(reply.run) if again.run != reply.run else None
            if kill is None:
                wrongly += reply.heard  # a client that had given up (a time-out) asks again, and rightly
            elif asked in kill.kept or used(asked, reply, kill, server):
                wrongly += 1
            else:
                longest = max(longest, kill.time - reply.left)
    return twice, wrongly, longest


def used(asked: Asked, reply: Reply, kill: Kill, server: Server) -> bool:
    """Return whether a reply was used before its run was killed: by a judge's call or a result."""
    id, of_judge = asked
    return id in kill.ended or (not of_judge and reply.run in server.came.get((id, True), ()))


def main() -> None:
    """Do it, print what was seen, and end with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.3, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draw = random.Random(chosen.seed)
    server, calm = Server(chosen.latency, dict(FAULTS)), Server(0.01, {})
    server.start()
    calm.start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_benchmark(folder / "words.jsonl", chosen.questions)
        given = command(folder / "words.jsonl", server, "out.jsonl")
        kills: dict[int, Kill] = {}
        while len(kills) < chosen.kills:
            kill = killed(given, folder, server, draw, run := len(kills) + 1)
            if kill is None:
                print(f"the run ended after {len(kills)} kills: give it more --questions")
                break
            kills[run] = kill
        for _ in range(10):  # an item whose call failed in all its tries runs again
            finished(given, folder)
            status = json.loads(finished([*_tool(), "status", "out.journal", "--json"], folder))
            if not status["again"]:
                break
        seen = server.requests
        finished(given, folder)
        replayed = folder / "replayed.jsonl"
        finished(command(folder / "words.jsonl", server, replayed.name, "--replay", "--journal", "out.journal"), folder)
        quiet = server.requests == seen
        finished(command(folder / "words.jsonl", calm, "calm.jsonl", "--no-journal"), folder)
        twice, wrongly, longest = asked_twice(server, kills)
        found, expected = results(folder / "out.jsonl"), results(folder / "calm.jsonl")
        report = {
            "kills": len(kills),
            "questions": chosen.questions,
            "results": len(found),
            "requests": server.requests,
            "faults": server.failed,
            "calls answered": len(server.replied),
            "answered twice, in flight at a kill": twice - wrongly,
            "answered twice otherwise": wrongly,
            "longest from a reply to the kill that lost it, ms": round(1000 * longest),
            "same as undisturbed": found == expected,
            "again without a call": quiet,
            "replay is the same to the byte": replayed.read_bytes() == (folder / "out.jsonl").read_bytes(),
        }
    print(json.dumps(report, indent=2))
    whole = len(found) == chosen.questions and len(server.replied) == 2 * chosen.questions
    holds = ("same as undisturbed", "again without a call", "replay is the same to the byte")
    if wrongly or not whole or not all(report[name] for name in holds):
        raise SystemExit(1)


def _tool() -> list[str]:
    return [sys.executable, "-c", "from karenina_cli import main; main()"]


if __name__ == "__main__":
    main()
