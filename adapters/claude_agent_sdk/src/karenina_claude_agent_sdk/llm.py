"""The LLM port: text from the Claude CLI, without tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_claude_agent_sdk.cli import CLISettings
from karenina_claude_agent_sdk.cli_runs import CLIRunner, SingleReply
from karenina_claude_agent_sdk.conversion import to_wire
from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message
from karenina_toolkit.reply_checks import text_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.model import ModelConfig


class ClaudeAgentLLM:
    """The LLM port. Each call is a run of the CLI without tools, which ends with the model's first reply."""

    def __init__(self, model: ModelConfig) -> None:
        self._runner = CLIRunner(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's reply to `messages`. Raises `PortError`."""
        runner = self._runner
        system, wire = to_wire(messages)
        setting = CLISettings(runner.model_name, runner.extra, system, runner.thinking, bare=True)
        turn = await runner.run(setting, wire, SingleReply(runner, messages, {}))
        return text_reply(turn)

    async def aclose(self) -> None:
        """Close the proxy and the connections."""
        await self._runner.aclose()
