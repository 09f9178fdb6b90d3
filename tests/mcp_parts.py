"""Shared parts of runs with MCP servers: a model that calls given tools, and a record of every server process."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import ends, is_running

from karenina import Benchmark

Body = dict[str, Any]


def call(tool: str, **arguments: Any) -> Body:
    """Return a message that calls one tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"c_{tool}", "type": "function", "function": function}]}


@dataclass(frozen=True)
class ToolCaller:
    """A model that makes these calls, one a turn, and then says what the last one brought, as `pattern` finds it.

    As a judge it fills the one field of the template from such an answer: a right verdict rests on what a tool said.
    """

    steps: Sequence[Body]
    pattern: str

    def __call__(self, body: Body) -> str | Body:
        said = body["messages"]
        text = said[-1]["content"]
        if "response_format" in body:
            answer = re.search(r"My tools say: (.+?)\.", text)
            (name,) = body["response_format"]["json_schema"]["schema"]["properties"]
            return json.dumps({name: answer[1] if answer else None})
        done = sum(message["role"] == "tool" for message in said)
        if "tools" in body and done < len(self.steps):
            return self.steps[done]
        found = re.search(self.pattern, text)
        return f"My tools say: {found[1]}." if found else "I do not know."


def benchmark(truth: str, *ids: str, **fields: Any) -> Benchmark:
    """Questions with the answer `truth`."""
    made = Benchmark.create("tools")
    source = (
        'class Answer(BaseAnswer):\n    found: str = VerifiedField(description="What the tools say", '
        f"ground_truth={truth!r}, verify_with=ExactMatch())\n"
    )
    for id in ids or ("q",):
        made.add_question(f"What do your tools say to {id}?", answer_template=source, question_id=id, **fields)
    return made


def configuration(url: str, interface: str = "openai", **answering: Any) -> Body:
    """Return an answering model with these fields and a judge, both behind `url`."""
    place = {"model_name": "caller", "endpoint_base_url": url, "endpoint_api_key": "none"}
    return {
        "answering_models": [{"id": "a", "interface": interface, **place, **answering}],
        "parsing_models": [{"id": "j", "interface": "openai", **place}],
    }


class ServerProcesses:
    """Notes the id of each process that a command line starts."""

    def __init__(self, folder: Path) -> None:
        self._notes = folder / "started.txt"

    def noting(self, command: str) -> str:
        """Return the same command line, with a note of its process."""
        return shlex.join(["sh", "-c", f"echo $$ >> {shlex.quote(str(self._notes))}; exec {command}"])

    @property
    def processes(self) -> list[int]:
        """Those that were started."""
        return [int(line) for line in self._notes.read_text().split()] if self._notes.exists() else []

    @property
    def left(self) -> list[int]:
        """Those that are still there."""
        return [process for process in self.processes if is_running(process)]

    @property
    def unending(self) -> list[int]:
        """Those that do not end within a minute."""
        return [process for process in self.processes if not ends(process)]

    def wait(self, seconds: float = 120) -> None:
        """Until one was started."""
        end = time.monotonic() + seconds
        while not self.processes and time.monotonic() < end:
            time.sleep(0.02)
