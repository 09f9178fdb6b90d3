"""One conversation with tools has the same trace, metrics, limit and verdict with every agent port.

The servers are scripted and speak as each provider does; the tools are those of a real MCP server.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from adapter_formats import ClaudeTool, LangchainClaude, LangchainOpenAI, OpenAI

from karenina import Benchmark
from karenina_core import ModelConfig, Outcome, VerificationConfig, VerificationResult, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    FinishReason,
    Message,
    ToolCall,
    Usage,
)
from karenina_core.plugins import Plugins
from karenina_testing.contracts import ChatCompletions, MessagesAPI, WireFormat
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.plugin_lookup import registered_adapters

CHECKOUT = Path(__file__).parents[1]
TOOLS = CHECKOUT / "plugins" / "mcp" / "tests" / "talking_server.py"
TELETYPE = CHECKOUT / "tests" / "third_party" / "teletype"
QUESTION = "What does the river say?"
TEMPLATE = """class Answer(BaseAnswer):
    said: str = VerifiedField(description="What the river says", ground_truth="echo of 7", verify_with=ExactMatch())
"""

ECHO, FAIL = ToolCall("call_1", "echo", {"n": 7}), ToolCall("call_2", "fail", {"n": 8})
HEARD, REFUSED = Message.tool("echo of 7", ECHO), Message.tool("the river is dry", FAIL, is_error=True)
ANSWER = Message.assistant("It says echo of 7.")
AFTER_ANOTHER = [Message.assistant("I ask.", [ECHO]), HEARD, Message.assistant("", [FAIL]), REFUSED, ANSWER]
AT_ONCE = [Message.assistant("I ask twice.", [ECHO, FAIL]), HEARD, REFUSED, ANSWER]


class LangchainEndpoint(LangchainOpenAI):
    interface = "openai_endpoint"
    fields = {}


class ClaudeAgent(MessagesAPI):
    """The real CLI, which offers the tools that a run brings under names of its own."""

    entry_point = "karenina_claude_agent_sdk:plugin"
    interface = "claude_agent_sdk"

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        calls = [replace(call, name=f"mcp__karenina__{call.name}") for call in said.tool_calls]
        return super().reply(Message.assistant(said.content, calls), usage, finish_reason)


class Teletype(WireFormat):
    """The third-party adapter `teletype`."""

    entry_point = "teletype:plugin"
    interface = "teletype.line"
    usage = Usage(input_tokens=11, output_tokens=7, calls=1)

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        return {"line": said.to_dict(), "read": usage.input_tokens, "typed": usage.output_tokens}


class Local(ChatCompletions):
    """The agent for small models on this machine, which write their calls as text, at a server that runs already."""

    entry_point = ""
    interface = "local_elsewhere"

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        calls = [
            json.dumps({"id": call.id, "name": call.name, "arguments": call.arguments}) for call in said.tool_calls
        ]
        written = "\n".join(["", "```json", *calls, "```"]) if calls else ""
        return super().reply(Message.assistant(said.content + written), usage, "stop" if calls else finish_reason)


class _LocalAgent:
    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        from karenina_openai.client import Client

        self._client = Client(model)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        from karenina_local.agent import TextCallConversation
        from karenina_openai.agent import ChatConversation

        async def client() -> Any:
            return self._client

        return await run_tool_loop(TextCallConversation(ChatConversation(self._client, messages), client), options)

    async def aclose(self) -> None:
        await self._client.aclose()


class _LocalElsewhere:
    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [AdapterSpec(interface=Local.interface, description="", agent=_LocalAgent)]


PORTS: Mapping[str, Callable[[], WireFormat]] = {
    "openai": OpenAI,
    "langchain, openai": LangchainOpenAI,
    "langchain, openai_endpoint": LangchainEndpoint,
    "langchain, anthropic": LangchainClaude,
    "claude_tool": ClaudeTool,
    "claude_agent_sdk": ClaudeAgent,
    "local": Local,
    "somebody else's": Teletype,
}


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Return the installed plugins with a third-party adapter and the local agent."""
    monkeypatch.syspath_prepend(TELETYPE / "src")
    from teletype import plugin

    found = Plugins.discover()
    found.register(plugin, distribution="teletype")
    found.register(_LocalElsewhere())
    with plugin_room.use_plugins(found):
        yield


def run(wire: WireFormat, said: Sequence[Message], **fields: Any) -> tuple[VerificationResult, int]:
    """Return the result of one question to a model with the replies `said`, the last one repeated, and its requests."""
    command = shlex.join([sys.executable, str(TOOLS), ECHO.name, FAIL.name])
    benchmark = Benchmark.create("river")
    benchmark.add_question(QUESTION, answer_template=TEMPLATE, question_id="q")
    judge = OpenAI()
    turns = [wire.saying(message.content, *message.tool_calls) for message in said]
    with wire.server(*turns) as answering, judge.server(judge.filling('{"said": "echo of 7"}')) as judging:
        model = wire.model(answering.url, mcp_urls_dict={"hills": command}, **fields)
        config = VerificationConfig(answering_models=[model], parsing_models=[judge.model(judging.url)])
        (result,) = benchmark.run_verification(config)
        return result, len(answering.requests)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("trace", [AFTER_ANOTHER, AT_ONCE], ids=["one call after the other", "both calls at once"])
def test_one_conversation_has_one_trace_in_every_adapter(port: str, trace: list[Message]) -> None:
    wire = PORTS[port]()
    result, requests = run(wire, [message for message in trace if message.role == "assistant"])

    found = result.template
    assert result.metadata.error is None
    assert found.trace_messages == [message.to_dict() for message in trace]
    assert found.agent_metrics == {
        "iterations": sum(message.role == "assistant" for message in trace),
        "tool_calls": 2,
        "tools_used": ["echo", "fail"],
        "tool_call_counts": {"echo": 1, "fail": 1},
        "suspect_failed_tool_calls": 1,
        "suspect_failed_tools": ["fail"],
    }
    assert (found.recursion_limit_reached, found.answering_mcp_servers) == (False, ["hills"])
    assert result.outcome is Outcome.CORRECT
    assert requests == sum(message.role == "assistant" for message in trace)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("most", [1, 2])
def test_the_trace_is_kept_at_the_turn_limit(port: str, most: int) -> None:
    wire = PORTS[port]()
    said = [message for message in AFTER_ANOTHER if message.role == "assistant"]
    result, requests = run(wire, said, agent_max_turns=most)

    found = result.template
    assert result.metadata.error is None
    assert found.recursion_limit_reached is True
    assert found.trace_messages == [message.to_dict() for message in AFTER_ANOTHER[: 2 * most - 1]]
    assert found.agent_metrics is not None
    assert (found.agent_metrics["iterations"], found.agent_metrics["tool_calls"]) == (most, most)
    assert result.outcome is Outcome.AUTO_FAILED
    assert requests == most


def test_every_agent_port_of_this_project_is_in_the_table() -> None:
    """All adapters except recorded answers, which have no model."""
    made = {wire().interface for wire in PORTS.values()} - {Local.interface, Teletype.interface} | {"local"}
    offered = {
        one.spec.interface
        for one in registered_adapters(plugin_room.active_plugins())
        if one.distribution.startswith("karenina-") and one.spec.agent is not None and not one.spec.recorded
    }
    assert offered - made == {"openrouter"}, "openrouter is openai_endpoint with an address of its own"
