"""Runs with checks that are killed: what an agent left is judged, or the agent works again, and nothing runs twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import preloaded
import pytest
from servers import RecordingServer, recording_server

PAUSE = """
import os, sys, time
place = sys.argv[1]
with open(f"{place}.count", "a") as count:
    count.write(".")
if sys.argv[2] == ("answer" if os.path.exists("answer.txt") else "base") and not os.path.exists(f"{place}.released"):
    open(f"{place}.reached", "w").close()
    time.sleep(60)
print(open("answer.txt").read() if os.path.exists("answer.txt") else "nothing")
"""


class Agent:
    """A model that writes a file, runs a command, and answers."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        done = sum(message["role"] == "assistant" for message in body["messages"])
        self.asked.append(json.dumps(body["messages"]))
        steps = [("write_file", {"path": "answer.txt", "content": "42"}), ("run_command", {"command": self.command})]
        if done == len(steps):
            return "Done."
        name, arguments = steps[done]
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": f"c{done}", "type": "function", "function": function}]}


def write_task(folder: Path, when: str) -> list[str]:
    """Write a benchmark whose check pauses on the untouched folder or on that of the answer, and return the command."""
    (folder / "root/task").mkdir(parents=True)
    (folder / "pause.py").write_text(PAUSE, "utf-8")
    command = ["python", str(folder / "pause.py"), str(folder / "check"), when]
    prints = {
        "from": "checks.prints.output",
        "ground_truth": "42",
        "verify_with": {"type": "ExactMatch", "normalize": ["strip"]},
    }
    question = {
        "id": "q",
        "question": "What is the answer?",
        "workspace_path": "task",
        "checks": {"prints": {"run": command}},
        "answer": {"found": prints},
    }
    benchmark = {"karenina": 1, "name": "tasks", "workspace_root": "root", "questions": [question]}
    (folder / "tasks.yaml").write_text(json.dumps(benchmark), "utf-8")
    return command


def run_command(server: RecordingServer) -> list[str]:
    return ["run", "tasks.yaml", "-a", f"openai:m@{server.url}", "--trust-all", "--sandbox", "none"]


def start(command: list[str], folder: Path) -> preloaded.StartedCommand | subprocess.Popen[bytes]:
    with (folder / "problems").open("wb") as errors:
        return preloaded.start(command, folder=folder, environment=os.environ, errors=errors)


def finish(command: list[str], folder: Path, timeout: float = 120) -> preloaded.CompletedCommand:
    done = preloaded.run(command, folder=folder, environment=os.environ, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done


def kill_when(reached: Path, command: list[str], folder: Path) -> None:
    process = start(command, folder)
    end = time.monotonic() + 120
    while not reached.exists():
        assert time.monotonic() < end, (folder / "problems").read_text("utf-8")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(120)


def outcome(folder: Path) -> str:
    lines = map(json.loads, (folder / "tasks.results.jsonl").read_text("utf-8").splitlines())
    return next(str(line["outcome"]) for line in lines if "outcome" in line)


@pytest.mark.parametrize("point", ["base check", pytest.param("answer check", marks=pytest.mark.release)])
def test_a_killed_check_judges_the_stored_work(point: str, tmp_path: Path) -> None:
    write_task(tmp_path, point.split()[0])
    with recording_server(Agent(["true"])) as server:
        kill_when(tmp_path / "check.reached", run_command(server), tmp_path)
        (tmp_path / "check.released").touch()
        before = len(server.seen)
        finish(run_command(server), tmp_path)
        assert len(server.seen) == before  # the reply and the work come from the journal

        assert outcome(tmp_path) == "correct"
        assert [one.name for one in (tmp_path / "root").iterdir()] == ["task"]
        runs = (tmp_path / "check.count").read_text()
        replay = [*run_command(server), "--replay", "--output", "replay.results.jsonl"]
        replay += ["--journal", "tasks.journal"]
        finish(replay, tmp_path)
    assert (tmp_path / "check.count").read_text() == runs
    kept, again = (
        [line for line in (tmp_path / name).read_text("utf-8").splitlines() if '"outcome"' in line]
        for name in ("tasks.results.jsonl", "replay.results.jsonl")
    )
    assert [json.loads(line)["extensions"] for line in kept] == [json.loads(line)["extensions"] for line in again]


def test_a_killed_agent_works_again_in_a_new_folder(tmp_path: Path) -> None:
    write_task(tmp_path, "never")
    tool = ["python", str(tmp_path / "pause.py"), str(tmp_path / "tool"), "answer"]
    with recording_server(Agent(tool)) as server:
        kill_when(tmp_path / "tool.reached", run_command(server), tmp_path)
        (tmp_path / "tool.released").touch()
        finish(run_command(server), tmp_path)
        assert len(server.seen) == 3  # the turns come from the journal, the tools work again

    assert outcome(tmp_path) == "correct"
    assert (tmp_path / "tool.count").read_text() == ".."
    assert [one.name for one in (tmp_path / "root").iterdir()] == ["task"]


@pytest.mark.release
@pytest.mark.parametrize("number", [20, 200])
def test_a_run_that_is_killed_ten_times_repeats_only_what_was_lost(number: int, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    counter = tmp_path / "runs"
    program = (
        f"import os, time\nopen({str(counter)!r}, 'a').write('.')\ntime.sleep(0.2)\nprint(open('answer.txt').read())\n"
    )
    questions = []
    for at in range(number):
        folder = tmp_path / f"root/task{at}"
        folder.mkdir()
        (folder / "program.py").write_text(program + f"# {at}\n", "utf-8")
        (folder / "answer.txt").write_text("0", "utf-8")
        prints = {"from": "checks.prints.output", "ground_truth": "42\n"}
        checks = {"prints": {"run": ["python", "program.py"]}}
        questions.append(
            {"id": f"q{at}", "question": f"Number {at}?", "workspace_path": f"task{at}", "checks": checks}
            | {"answer": {"found": prints}}
        )
    benchmark = {"karenina": 1, "name": "tasks", "workspace_root": "root", "questions": questions}
    (tmp_path / "tasks.yaml").write_text(json.dumps(benchmark), "utf-8")
    kills, workers, drawn = 10, 2, random.Random(number)
    with recording_server(Agent(["true"])) as server:
        command = [*run_command(server), "--set", f"max_concurrency={workers}"]
        for _ in range(kills):
            process = start(command, tmp_path)
            with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
                process.wait(drawn.uniform(2, 6) + number / 40)
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(120)
        finish(command, tmp_path, timeout=600)
        made = len(server.seen)
        finish(command, tmp_path, timeout=600)
        assert len(server.seen) == made

    results = [json.loads(line) for line in (tmp_path / "tasks.results.jsonl").read_text("utf-8").splitlines()]
    assert [line["outcome"] for line in results if "outcome" in line] == ["correct"] * number
    assert sorted(one.name for one in (tmp_path / "root").iterdir()) == sorted(f"task{at}" for at in range(number))
    assert made <= 3 * number + kills * workers
    assert len(counter.read_text()) <= 2 * number + kills * workers
