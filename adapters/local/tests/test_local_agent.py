"""The agent port: the contract of every agent, with a server whose model writes its calls as text; and a real model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from karenina_core.models import ports
from karenina_core.models.model import ModelConfig
from karenina_local.agent import LocalAgent, TextCallConversation
from karenina_openai.agent import ChatConversation
from karenina_openai.client import Client
from karenina_testing.contracts import AgentContract, Request
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.traces.formats.openai_chat import read_message


class Elsewhere:
    """The agent of this adapter at a server that runs already."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def run(
        self, messages: Sequence[ports.Message], options: ports.AgentOptions, *, info: ports.CallInfo = ports.NO_INFO
    ) -> ports.AgentReply:
        return await run_tool_loop(
            TextCallConversation(ChatConversation(self._client, messages), self._running), options
        )

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _running(self) -> Client:
        return self._client


class TestAgentWhoseModelWritesCalls(AgentContract):
    entry_point = "karenina_openai:plugin"
    interface = "openai"
    # A call that is cancelled before its reply begins keeps its connection until its time is over.
    fields = {"request_timeout": 4.0}

    def make(self, model: ModelConfig) -> ports.AgentPort:
        return Elsewhere(model)

    def reply(self, said: ports.Message, usage: ports.Usage, finish_reason: ports.FinishReason) -> Any:
        calls = [
            json.dumps({"id": call.id, "name": call.name, "arguments": call.arguments}) for call in said.tool_calls
        ]
        written = "\n".join(["", "```json", *calls, "```"]) if calls else ""
        return {
            "model": "served",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": said.content + written},
                    "finish_reason": "stop" if calls else finish_reason,
                }
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }

    def read(self, request: Request) -> Sequence[ports.Message]:
        return [read_message(message) for message in request.body["messages"]]

    def test_a_call_of_an_unknown_tool_is_in_the_trace(self) -> None:
        """Not here: text is a call only where it names a tool that was offered, and an answer else."""
        text = '{"name": "launch_rocket", "arguments": {"to": "the moon"}}'
        with self.server(self.saying(text)) as server:
            reply = self.run(server.url)
        assert (reply.trace, reply.finish_reason) == ((ports.Message.assistant(text),), "stop")

    def test_calls_without_ids_of_their_own_get_some(self) -> None:
        same = ports.ToolCall("", "list_files", {})
        with self.server(self.saying("", same, same), self.saying("", same), self.saying("Two.")) as server:
            reply = self.run(server.url)
        ids = [call.id for message in reply.trace for call in message.tool_calls]
        assert ids == ["written_1_1", "written_1_2", "written_2_1"]
        assert [message.tool_call_id for message in reply.trace if message.role == "tool"] == ids

    def test_an_incomplete_call_is_reported_without_its_text(self) -> None:
        with self.server(self.saying('{"name": "read_file", "arguments": {"pa'), self.saying("Well.")) as server:
            reply = self.run(server.url)
            told = self.read(server.requests[-1])
        assert [(message.role, message.is_error) for message in reply.trace] == [
            ("assistant", False),
            ("tool", True),
            ("assistant", False),
        ]
        assert reply.trace[0].tool_calls[0].arguments == {"_unreadable": '{"pa'}
        assert told[2].tool_calls[0].arguments == {}
        assert "not a JSON object" in told[3].content


@pytest.mark.release  # half a minute; the contract above has calls that a model writes, test_local_live has an agent
def test_a_real_model_has_a_file_read(qwen: Path, tmp_path: Path) -> None:
    """It calls; whether it ever answers is another matter: models of this size mostly call on until the limit."""
    (tmp_path / "note.txt").write_text("The code is 4711.", "utf-8")
    config = ModelConfig(
        id="small",
        interface="local",
        model_name=str(qwen),
        temperature=0.0,
        max_tokens=40,
        extra={"slots": 1, "context": 2048},
    )

    async def run() -> ports.AgentReply:
        agent = LocalAgent(config)
        try:
            return await agent.run(
                [ports.Message.user("What is the code? It stands in note.txt.")],
                ports.AgentOptions(max_turns=2, workspace=tmp_path),
            )
        finally:
            await agent.aclose()

    reply = asyncio.run(run())
    asked, told = reply.trace[:2]
    assert [(call.name, call.arguments["path"]) for call in asked.tool_calls] == [("read_file", "note.txt")]
    assert (told.role, told.content, told.is_error) == ("tool", "The code is 4711.", False)
    assert told.tool_call_id == asked.tool_calls[0].id
    assert reply.usage.calls == 2
