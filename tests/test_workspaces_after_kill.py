"""`karenina resume` removes the workspace copies of its killed run."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import preloaded
import pytest
from folders import write_files
from servers import recording_server

BENCHMARK = """karenina: 1
name: Files
questions:
  - {id: one, question: "Which code?", workspace_path: task, answer: {code: {description: The code, ground_truth: QX1}}}
"""
READ = {"name": "read_file", "arguments": json.dumps({"path": "code.txt"})}


class _Judge:
    """A judge that stays silent when it has looked into its workspace, until it is `released`."""

    def __init__(self) -> None:
        self.looked, self.released = threading.Event(), threading.Event()

    def __call__(self, body: Mapping[str, Any]) -> Any:
        if "response_format" in body:
            return json.dumps({"code": "QX1"})
        if "tools" not in body:
            return "I do not know."
        if body["messages"][-1]["role"] != "tool":
            return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": READ}]}
        self.looked.set()
        self.released.wait(120)
        return "The file says QX1."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", {"task/code.txt": "QX1"})


def test_resume_removes_the_workspaces_of_a_killed_run(tmp_path: Path, root: Path) -> None:
    (tmp_path / "files.yaml").write_text(BENCHMARK)
    judge = _Judge()
    with recording_server(judge) as server:
        model = f"openai:m@{server.url}"
        options = ["-a", model, "-j", model, "--set", "agentic_parsing=true", "--set", f"workspace_root={root}"]
        with (tmp_path / "problems").open("wb") as errors:
            command = ["run", "files.yaml", *options]
            process = preloaded.start(command, folder=tmp_path, environment=os.environ, errors=errors)
        assert judge.looked.wait(120)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(120)
        left = sorted(one.name.partition("_2")[0] for one in root.iterdir())
        judge.released.set()
        command = ["resume", "files.journal", "--json"]
        done = preloaded.run(command, folder=tmp_path, environment=os.environ, timeout=120)
    assert left == ["task", "task_judge", "task_run"]
    assert json.loads(done.stdout)["results"][0]["outcome"] == "correct", done.stderr
    assert [one.name for one in root.iterdir()] == ["task"]
    assert (root / "task/code.txt").read_text() == "QX1"
