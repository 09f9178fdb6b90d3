"""JSON from the Claude CLI, to fit a schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from karenina_claude_agent_sdk.cli import CLISettings
from karenina_claude_agent_sdk.cli_runs import CLIRunner, SingleReply
from karenina_claude_agent_sdk.conversion import to_wire
from karenina_core.models.ports import NO_INFO, CallInfo, Message, ParserReply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig

_TOOL: Final = "StructuredOutput"
_STAND_IN: Final = '{"type": "object"}'
"""What the CLI is told of the schema: it refuses some that the API takes, and long ones."""


class ClaudeAgentParser:
    """The parser port: the CLI's structured output, which is a tool that the model has to call.

    The CLI would ask again by itself, several times, where the JSON does not fit; it is not given the reply, so that
    the core does so, the same for all adapters. Without thoughts, because a model that thinks cannot be made to call.
    """

    def __init__(self, model: ModelConfig) -> None:
        self._runner = CLIRunner(model)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """The model's JSON for `messages`. Raises `PortError`."""
        runner = self._runner
        system, wire = to_wire(messages)
        setting = CLISettings(runner.model_name, runner.extra, system, thinking="disabled", bare=True, schema=_STAND_IN)
        tool = {"name": _TOOL, "description": "Gives the answer.", "input_schema": dict(schema)}
        forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        turn = await runner.run(setting, wire, SingleReply(runner, messages, forced))
        filled = [call.arguments for call in turn.message.tool_calls if call.name == _TOOL]
        text = json.dumps(filled[0], ensure_ascii=False) if filled else turn.message.content
        return ParserReply(text, "tool", turn.usage, "stop" if filled else turn.finish_reason, turn.model)

    async def aclose(self) -> None:
        """Close what is open."""
        await self._runner.aclose()
