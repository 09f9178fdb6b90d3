"""Agents that are asked about a note in their workspace, for the tests of adapters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.ports import AgentOptions, AgentPort, ErrorCategory, Message, PortError, ToolCall

ASK = [Message.user("What does the note say?")]
_READ = ToolCall("call_0", "read_file", {"path": "note.txt"})
NOTE_READ = (
    Message.assistant("", [_READ]),
    Message.tool("The code is 4711.\n", _READ),
    Message.assistant("It is 4711."),
)
"""The trace of an agent that reads the note and answers."""
FAILING_TOOLS: list[tuple[str, dict[str, Any] | str, str]] = [
    ("read_file", {"path": "absent.txt"}, "there is no 'absent.txt'"),
    ("read_file", {"path": "../secret"}, "refused"),
    ("read_file", {}, "path"),
    ("read_file", "{not json", "not a JSON object"),
    ("delete_file", {"path": "note.txt"}, "there is no tool 'delete_file'"),
]
"""The name and arguments of calls that fail, and what the agent is told."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The folder with the note."""
    (tmp_path / "note.txt").write_text("The code is 4711.\n")
    return tmp_path


def tool_calls(*wanted: tuple[str, dict[str, Any] | str]) -> list[dict[str, Any]]:
    """Return calls of tools as OpenAI's API writes them: names with their arguments."""
    return [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(wanted)
    ]


async def again(ask: Callable[[], Any], _trace: Sequence[Message]) -> Any:
    """Guard a request of an agent: if it fails, it is made once more."""
    try:
        return await ask()
    except PortError:
        return await ask()


async def time_out_after_a_turn(port: AgentPort, workspace: Path) -> PortError:
    """Return the error of a port whose server answers only the first request; a busy machine needs longer for it."""
    for seconds in (1, 10, 100):
        with pytest.raises(PortError, match=f"did not finish within {seconds} s") as caught:
            await port.run(ASK, AgentOptions(timeout=seconds, workspace=workspace))
        error = caught.value
        assert (error.category, error.retriable) == (ErrorCategory.TIMEOUT, False)
        assert error.partial is not None
        if error.partial.trace:
            break
    return error
