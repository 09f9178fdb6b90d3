"""Conversations whose run is killed: no call is made twice, and tools begin again with the conversation."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import preloaded
import pytest
from servers import recording_server

TALKING = Path(__file__).parents[1] / "plugins/mcp/tests/talking_server.py"
BENCHMARK = """karenina: 1
name: talks
questions:
"""
QUESTION = """
  - id: q{n}
    question: "Number {n}?"
    turns: ["Are you sure?", "Really?"]
    answer:
      found: {{turn: all, verify_with: {{type: TraceContains, substring: "{found}"}}}}
"""


class Killed:
    """A model that answers one call of each process, and kills the process at the next."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.answered: list[str] = []
        self.process: preloaded.StartedCommand | subprocess.Popen[bytes] | None = None
        self.began = 0

    def __call__(self, body: dict[str, Any]) -> str:
        if len(self.answered) > self.began:
            assert self.process is not None
            wait_for_replies(self.journal, len(self.answered))
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(120)
            return "too late"
        self.answered.append(json.dumps(body["messages"]))
        return "It is 7."


def wait_for_replies(journal: Path, number: int) -> None:
    """Wait until the journal has this number of replies, for at most a minute."""
    for _ in range(600):
        with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as database:
            (stored,) = database.execute("SELECT count(*) FROM replies").fetchone()
        if stored >= number:
            return
        time.sleep(0.1)


@pytest.mark.parametrize("number", [2, pytest.param(20, marks=pytest.mark.release)])
def test_no_turn_is_paid_for_twice_however_often_a_run_is_killed(number: int, tmp_path: Path) -> None:
    questions = "".join(QUESTION.format(n=n, found="7") for n in range(number))
    (tmp_path / "talks.yaml").write_text(BENCHMARK + questions, "utf-8")
    model = Killed(tmp_path / "talks.journal")
    with recording_server(model) as server:
        command = ["run", "talks.yaml", "-a", f"openai:m@{server.url}", "--set", "max_concurrency=1"]
        for _ in range(number * 3 + 1):
            model.began = len(model.answered)
            with (tmp_path / "problems").open("wb") as errors:
                model.process = preloaded.start(command, folder=tmp_path, environment=os.environ, errors=errors)
            code = model.process.wait(120)
            if code != -signal.SIGKILL:
                break

    assert code == 0, (tmp_path / "problems").read_text("utf-8")
    assert len(model.answered) == len(set(model.answered)) == number * 3
    lines = map(json.loads, (tmp_path / "talks.results.jsonl").read_text("utf-8").splitlines())
    assert [line["outcome"] for line in lines if "outcome" in line] == ["correct"] * number


class Counting:
    """A model that calls a tool in each turn and says what it counted. It waits in the second turn, once."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.waiting, self.released = threading.Event(), threading.Event()

    def __call__(self, body: dict[str, Any]) -> Any:
        messages = body["messages"]
        self.asked.append(messages)
        if messages[-1]["role"] != "tool":
            function = {"name": "count", "arguments": '{"n": 1}'}
            return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        turn = sum(message["role"] == "user" for message in messages)
        if turn == 2 and not self.released.is_set():
            self.waiting.set()
            self.released.wait(120)
        return f"I counted {messages[-1]['content']}."


@pytest.mark.parametrize(
    ("stateless", "counted"), [(False, ["1", "2", "3"]), (True, ["1", "1", "2"])]
)  # fmt: skip
def test_tools_begin_again_with_an_interrupted_conversation(
    stateless: bool, counted: list[str], tmp_path: Path
) -> None:
    (tmp_path / "talks.yaml").write_text(BENCHMARK + QUESTION.format(n=0, found="counted"), "utf-8")
    model = Counting()
    with recording_server(model) as server:
        fields = {
            "id": "m",
            "interface": "openai",
            "model_name": "m",
            "endpoint_base_url": server.url,
            "endpoint_api_key": "none",
            "mcp_urls_dict": {"tally": shlex.join([sys.executable, str(TALKING), "count"])},
            "stateless_tools": stateless,
        }
        command = ["run", "talks.yaml", "-a", json.dumps(fields), "--full"]
        with (tmp_path / "problems").open("wb") as errors:
            process = preloaded.start(command, folder=tmp_path, environment=os.environ, errors=errors)
        assert model.waiting.wait(120)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(120)
        model.released.set()
        before = len(model.asked)
        done = preloaded.run(command, folder=tmp_path, environment=os.environ, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = [json.loads(line) for line in (tmp_path / "talks.results.jsonl").read_text("utf-8").splitlines()[1:]]
    trace = result["template"]["trace_messages"]
    assert [message["content"] for message in trace if message["role"] == "tool"] == counted
    assert len(model.asked) - before == 3 if not stateless else 4
