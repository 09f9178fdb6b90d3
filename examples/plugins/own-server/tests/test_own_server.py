"""The contract of adapters, with a scripted server on loopback."""

from collections.abc import Sequence
from typing import Any

from karenina_core import Message, Usage
from karenina_core.models.ports import FinishReason
from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract, Request, Wire


class Server(Wire):
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
