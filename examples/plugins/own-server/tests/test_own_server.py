"""The contract of adapters, and faults of single items, with a scripted server on loopback."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from karenina_core import Message, ModelConfig, Usage
from karenina_core.models.ports import ErrorCategory, FinishReason, PortError
from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract, Request, WireFormat
from karenina_testing.server import Fault, ScriptedServer, faults

from own_server import OwnServer


class Server(WireFormat):
    """The format of the server's requests and replies."""

    entry_point = "own_server"
    interface = "own_server.chat"
    usage = Usage(input_tokens=11, output_tokens=7, calls=1)
    finish_reasons = ("stop",)

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return the body of a reply."""
        return {"message": said.to_dict(), "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}

    def read(self, request: Request) -> Sequence[Message]:
        """Return the messages of a request."""
        return [Message.from_dict(message) for message in request.body["messages"]]


class TestAdapter(Server, AdapterContract):
    pass


class TestLLM(Server, LLMContract):
    pass


class TestParser(Server, ParserContract):
    pass


class TestAgent(Server, AgentContract):
    pass


GOOD = {"message": Message.assistant("Madrid.").to_dict(), "input_tokens": 9, "output_tokens": 2}


@pytest.mark.parametrize("fault", [faults.status(429), faults.cut_json, faults.reset, faults.empty], ids=str)
def test_an_item_is_answered_after_its_fault(fault: Fault) -> None:
    def ask(text: str) -> str:
        model = ModelConfig(id="m", interface="own-server", model_name="m", endpoint_base_url=server.url)
        return asyncio.run(OwnServer(model).invoke([Message.user(text)])).text

    with ScriptedServer({"Spain": [fault, GOOD]}) as server:
        with pytest.raises(PortError) as caught:
            ask("What is the capital of Spain?")
        assert caught.value.category is not ErrorCategory.PERMANENT
        assert ask("What is the capital of Spain?") == "Madrid."
        assert [entry.fault for entry in server.log["Spain"]] == [fault.name, None]
