"""The LLM and parser ports, which run the Claude CLI without tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from karenina_claude_agent_sdk.cli import CLISettings
from karenina_claude_agent_sdk.cli_runs import CLIRunner, SingleReply
from karenina_claude_agent_sdk.conversion import WireMessage, to_wire, without_attachments
from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message, ParserReply
from karenina_toolkit.attachments.wire import has_attachments
from karenina_toolkit.structured.reply_checks import text_reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig


class ClaudeAgentLLM:
    """The LLM port. Each call runs the CLI without tools until the first reply."""

    def __init__(self, model: ModelConfig) -> None:
        self._runner = CLIRunner(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send messages and return the reply. Raises `PortError` if the CLI or its request fails."""
        runner = self._runner
        system, wire, fields = _split(messages)
        setting = CLISettings(runner.model_name, runner.extra, system, runner.thinking, bare=True)
        turn = await runner.run(setting, wire, SingleReply(runner, messages, fields))
        return text_reply(turn)

    async def aclose(self) -> None:
        """Close the proxy and the connections."""
        await self._runner.aclose()


def _split(messages: Sequence[Message]) -> tuple[str, list[WireMessage], WireMessage]:
    """Return the system prompt, the conversation for the CLI, and fields that put attachments into the CLI's request.

    Without attachments, there are no such fields. With them, the CLI only gets descriptions.
    """
    system, wire = to_wire(messages)
    if not has_attachments(messages):
        return system, wire, {}
    return system, to_wire(without_attachments(messages))[1], {"messages": wire}


_TOOL: Final = "StructuredOutput"
_STAND_IN: Final = '{"type": "object"}'
"""A placeholder schema for the CLI, which rejects some schemas that the API accepts."""


class ClaudeAgentParser:
    """The parser port. It uses the CLI's structured output, a tool that the model is forced to call.

    The reply is not passed on to the CLI, which would retry on its own if the JSON did not fit. Retries should be the
    same for all adapters. Thinking is off, because a thinking model cannot be forced to call a tool.
    """

    def __init__(self, model: ModelConfig) -> None:
        self._runner = CLIRunner(model)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request a JSON object that fits `schema`, and return the reply, which is not validated. If the model calls no
        tool, the text of its reply is used. Raises `PortError` if the CLI or its request fails.
        """
        runner = self._runner
        system, wire, fields = _split(messages)
        setting = CLISettings(runner.model_name, runner.extra, system, thinking="disabled", bare=True, schema=_STAND_IN)
        tool = {"name": _TOOL, "description": "Gives the answer.", "input_schema": dict(schema)}
        forced = {**fields, "tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        turn = await runner.run(setting, wire, SingleReply(runner, messages, forced))
        filled = [call.arguments for call in turn.message.tool_calls if call.name == _TOOL]
        text = json.dumps(filled[0], ensure_ascii=False) if filled else turn.message.content
        reason = "stop" if filled and turn.finish_reason == "tool_calls" else turn.finish_reason
        reply = ParserReply(text, "tool", turn.usage, reason, turn.model)
        reply.reasoning, reply.server_reason = turn.message.reasoning, turn.server_reason
        return reply

    async def aclose(self) -> None:
        """Close the proxy and the connections."""
        await self._runner.aclose()
