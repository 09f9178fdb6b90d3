"""The `manual` interface and the contract of all adapters, without the part about calls, which it does not make."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, CallInfo, LLMReply, Message, ToolCall, Usage
from karenina_testing.contracts import AdapterContract
from karenina_testing.contracts.calls import assert_nothing_left, child_processes
from karenina_testing.contracts.live import assert_sockets_closed, open_sockets

pytestmark = pytest.mark.alone

LOOKED_UP = ToolCall("call_1", "lookup", {"gene": "BRCA1"})
TRACE = (
    Message.assistant("I look.", [LOOKED_UP]),
    Message.tool("no such gene", LOOKED_UP, is_error=True),
    Message.assistant("On 17q21, Zürich 🧬.", reasoning="I know it."),
)


class TestAdapter(AdapterContract):
    entry_point = "karenina_manual:plugin"
    interface = "manual"

    def model(self, url: str, **fields: Any) -> ModelConfig:
        traces = {"q1": "On 17q21.", "q2": [message.to_dict() for message in TRACE]}
        return ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces=traces, **fields)

    def test_concurrent_calls_return_recordings(self) -> None:
        """The part of the port contracts that applies to a port without a server."""
        assert self.spec.llm is not None
        assert self.spec.agent is not None

        async def run() -> None:
            before, sockets = child_processes(), open_sockets()
            llm, agent = self.spec.llm(self.model("")), self.spec.agent(self.model(""))  # type: ignore[misc]  # see above
            texts = await asyncio.gather(*(llm.invoke([], info=CallInfo(id)) for id in ("q1", "q2", "q1")))
            assert [reply.text for reply in texts] == ["On 17q21.", TRACE[-1].content, "On 17q21."]
            assert texts[0] == LLMReply("On 17q21.", Usage(calls=0))
            replies = await asyncio.gather(*(agent.run([], AgentOptions(), info=CallInfo("q2")) for _ in range(2)))
            assert [(reply.trace, reply.usage, reply.limit_reached) for reply in replies] == [
                (TRACE, Usage(), False)
            ] * 2
            for port in (llm, agent, llm, agent):
                await port.aclose()
            await assert_nothing_left(before)
            await assert_sockets_closed(sockets)

        asyncio.run(run())
