"""How a server of the Messages API speaks with the Claude CLI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from karenina_core.models.ports import Message, ToolCall
from karenina_testing.contracts import MessagesAPI, Request


class Claude(MessagesAPI):
    entry_point = "karenina_claude_agent_sdk:plugin"
    interface = "claude_agent_sdk"
    agent_seconds = 2.5

    def read(self, request: Request) -> Sequence[Message]:
        """Without what the CLI itself tells the model: who it is, and where it works."""
        first, *rest = super().read(request)
        own = "\n".join(line for line in first.content.split("\n") if "Claude Agent SDK" not in line)
        return [Message.system(own), *(said for said in rest if said.role != "system")]

    def reading(self, file: Path, id: str) -> ToolCall:
        return ToolCall(id, "Read", {"file_path": str(file)})
