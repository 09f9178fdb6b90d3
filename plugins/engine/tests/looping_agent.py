"""An agent port on the tool loop, for tests that script the turns of its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message
from karenina_toolkit.agents.tool_loop import Conversation, run_tool_loop


class LoopingAgent:
    """A port that begins a conversation for each run."""

    guards_calls = True

    def __init__(self, begin: Callable[[], Conversation]) -> None:
        self._begin = begin

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        del messages, info
        return await run_tool_loop(self._begin(), options)
