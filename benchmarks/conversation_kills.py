"""Kill a run of conversations repeatedly, and check that no turn is paid for twice and that nothing else changes.

    python benchmarks/conversation_kills.py            20 conversations, 20 kills; takes two minutes

Ten questions, five with `turns` and five with a simulated user, are asked to two models: one that answers, and one that
calls a tool in each turn, whose MCP server counts its calls and is not stateless. The command `karenina run` is killed
with SIGKILL at random moments, both while it starts and while it makes calls, and repeated; the last time, it may
finish. Then an undisturbed run does the same work. The following must be true, otherwise the script exits with 1:

- The calls are those of the undisturbed run, one for each turn of a model, user or judge: no other request was made.
- No request was repeated whose reply was in the journal when its run was killed. Each reply has an input token count
  of its own, by which it is recognized there. A reply that was on its way at a kill is lost, and its request repeated.
- The results equal those of the undisturbed run to the byte, except for times: also what the tools counted.
- Running the same command once more makes no call, and a replay without the server writes an identical file.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import own_state  # noqa: F401 - sets it
from killing import environment, kill_at_random

from karenina_core.models.ports import ToolCall, Usage
from karenina_testing.server import Request, Say, ScriptedServer

TOOLS: Final = Path(__file__).parents[1] / "plugins/mcp/tests/talking_server.py"
SCRIPT: Final = """
  - id: s{n}
    question: "What is number {n}?"
    turns: ["Are you sure?", {{when: {{said: {{type: TraceContains, substring: "It is"}}}}, say: "Really?"}}]
    answer: &answer
      first: {{turn: 1, description: The number, ground_truth: 7}}
      last: {{description: The number, ground_truth: 7}}
"""
USER: Final = """
  - id: u{n}
    question: "Hello, I need number {n}."
    user: {{brief: A person who asks for number {n}., goal: The number is confirmed., max_turns: 6}}
    answer: *answer
"""
MOST_REPLIES: Final = 14
"""The most replies after which a run is killed, so that 20 kills do not need more than the run has calls."""
TURNS: Final = 3
"""The number of answers in each conversation."""
TIMES: Final = ("timestamp", "execution_time", "seconds", "waited", "result_id")
"""The fields that differ between runs: times, and the id of a result, which is made from its time."""


class Server(ScriptedServer):
    """A chat server that plays the models, the users and the judge. It answers after roughly `latency` seconds."""

    def __init__(self, latency: float) -> None:
        super().__init__(self.reply, path="/v1")
        self.latency = latency
        self.left = 0
        self.enough = threading.Event()
        self.draw = random.Random(7)

    async def reply(self, request: Request) -> Say:
        """Return the reply, which depends only on the request. After `left` replies, `enough` is set."""
        await asyncio.sleep(self.latency * (0.5 + self.draw.random()))
        self.left -= 1
        if self.left <= 0:
            self.enough.set()
        return answer(request)


def mark_of(request: Request) -> int:
    """Return a number that identifies a request, and that its reply states as its number of input tokens."""
    return int(hashlib.sha256(request.data).hexdigest()[:8], 16)


def answer(request: Request) -> Say:
    """Return the reply of the model, user or judge to which a request is made."""
    messages = request.body["messages"]
    usage = Usage(mark_of(request), 10)
    match request.body["model"]:
        case "judge":
            properties = request.body["response_format"]["json_schema"]["schema"]["properties"]
            return Say(json.dumps(dict.fromkeys(properties, 7)), usage=usage)
        case "user":
            over = sum(message["role"] == "user" for message in messages) == TURNS
            said = {"say": None if over else "And then?", "done": over, "reached": over}
            return Say(json.dumps(said), usage=usage)
        case "tools" if messages[-1]["role"] != "tool":
            return Say(None, [ToolCall(f"c{len(messages)}", "count", {"n": 1})], usage=usage)
        case "tools":
            return Say(f"It is 7, and I counted {messages[-1]['content']}.", usage=usage)
    return Say(f"It is 7, after {len(messages)} messages.", usage=usage)


def write_benchmark(file: Path) -> None:
    """Write the ten questions."""
    questions = [SCRIPT.format(n=n) for n in range(5)] + [USER.format(n=n) for n in range(5, 10)]
    questions[1:5] = [text.replace("&answer", "") for text in questions[1:5]]
    file.write_text(f"karenina: 1\nname: talks\nquestions:{''.join(questions)}", "utf-8")


def command(server: Server, output: str, *more: str) -> list[str]:
    """Return the `karenina run` command that is repeated."""
    with_tools = {
        "id": "tools",
        "interface": "openai",
        "model_name": "tools",
        "endpoint_base_url": f"{server.url}/v1",
        "mcp_urls_dict": {"tally": shlex.join([sys.executable, str(TOOLS), "count"])},
    }
    models = ["-a", f"openai:plain@{server.url}/v1", "-a", json.dumps(with_tools)]
    others = ["-j", f"openai:judge@{server.url}/v1", "--user", f"openai:user@{server.url}/v1"]
    tool = [sys.executable, "-c", "from karenina_cli import main; main()"]
    settings = ["--set", "max_concurrency=4", "--quiet", "--full"]
    return [*tool, "run", "talks.yaml", *models, *others, "-o", output, *settings, *more]


def kill(given: list[str], folder: Path, server: Server, draw: random.Random, run: int) -> float | None:
    """Start the command and kill it at a random moment. Returns the time, or None if the command had already ended."""
    server.left = draw.randint(1, MOST_REPLIES)
    server.enough.clear()
    problems = folder / "problems"
    with problems.open("wb") as errors:
        process = subprocess.Popen(given, cwd=folder, env=environment(run), stdout=subprocess.DEVNULL, stderr=errors)
    return kill_at_random(process, problems, draw, server.enough, longest=120, pause=0.2)


def stored(journal: Path) -> frozenset[int]:
    """Return the marks of the replies in a journal."""
    if not journal.is_file() or not journal.stat().st_size:
        return frozenset()
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
            return frozenset()
        found = database.execute("SELECT input_tokens FROM replies WHERE reusable").fetchall()
    return frozenset(mark for (mark,) in found)


def finish(given: list[str], folder: Path) -> None:
    """Run the command to its end. Raises `SystemExit` if it fails."""
    done = subprocess.run(given, cwd=folder, env=environment(0), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the run failed ({done.returncode}): {done.stderr}")


def without_times(file: Path) -> list[str]:
    """Return the lines of a result file without the header and without times."""
    return [json.dumps(_without_times(json.loads(line))) for line in file.read_text("utf-8").splitlines()[1:]]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(part) for key, part in value.items() if key not in TIMES}
    return [*map(_without_times, value)] if isinstance(value, list) else value


def came(server: Server) -> dict[int, list[tuple[int, float]]]:
    """Return the runs that made each request, each with the time when the reply was sent."""
    found: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for entry in server.log:
        run = int(entry.request.headers["authorization"].rpartition("run-")[2])
        found[mark_of(entry.request)].append((run, entry.sent_at or float("inf")))
    return found


def check_repeats(
    asked: Mapping[int, list[tuple[int, float]]], kills: Mapping[int, tuple[float, frozenset[int]]]
) -> Counter[str]:
    """Count the requests that were made again after a kill, by whether the journal had the reply."""
    counts: Counter[str] = Counter()
    for mark, runs in asked.items():
        for run, sent in runs[:-1]:
            at, kept = kills.get(run, (0.0, frozenset()))
            counts["stored" if mark in kept else "sent before the kill" if sent < at else "not sent before it"] += 1
    return counts


def main() -> None:
    """Kill and repeat the run, print the findings as JSON, and exit with 1 if a condition is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--latency", type=float, default=0.1, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draw = random.Random(chosen.seed)
    with Server(chosen.latency) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_benchmark(folder / "talks.yaml")
        given = command(server, "out.jsonl")
        kills: dict[int, tuple[float, frozenset[int]]] = {}
        for run in range(1, chosen.kills + 1):
            at = kill(given, folder, server, draw, run)
            if at is None:
                break
            kills[run] = at, stored(folder / "out.journal")
        finish(given, folder)
        seen = len(server.log)
        finish(given, folder)
        finish(command(server, "replayed.jsonl", "--replay", "--journal", "out.journal"), folder)
        quiet = len(server.log) == seen
        asked, repeats = came(server), check_repeats(came(server), kills)
        server.latency = 0.01
        finish(command(server, "calm.jsonl"), folder)
        undisturbed = list(server.log)[seen:]
        models = Counter(entry.request.body["model"] for entry in undisturbed)
        report: dict[str, Any] = {
            "kills": len(kills),
            "calls stored at each kill": [len(kept) for _, kept in kills.values()],
            "conversations": len(without_times(folder / "out.jsonl")),
            "calls of the undisturbed run": dict(models),
            "different requests": len(asked),
            "requests": seen,
            "repeated although stored": repeats["stored"],
            "repeated, reply on its way at the kill": repeats["sent before the kill"],
            "repeated, no reply before the kill": repeats["not sent before it"],
            "requests are those of the undisturbed run": asked.keys()
            == {mark_of(entry.request) for entry in undisturbed},
            "same as undisturbed to the byte": without_times(folder / "out.jsonl")
            == without_times(folder / "calm.jsonl"),
            "again without a call": quiet,
            "replay is the same to the byte": (folder / "replayed.jsonl").read_bytes()
            == (folder / "out.jsonl").read_bytes(),
        }
    print(json.dumps(report, indent=2))
    holds = all(value for value in report.values() if isinstance(value, bool))
    stuck = kills and not report["calls stored at each kill"][-1]
    if stuck or repeats["stored"] or len(kills) < chosen.kills or report["conversations"] != 20 or not holds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
