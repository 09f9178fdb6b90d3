"""An adapter for a server of one's own: it takes a list of messages as JSON and returns one message.

Runs call the three ports of `OwnServer` for text, for JSON and for conversations with tools. Retries, limits, costs and
the journal are Karenina's: a port makes one request for each call with `post_json`, which raises `PortError` if it
fails, follows no redirection, and limits what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karenina_core import AdapterSpec, Message, ModelConfig, Usage, hookimpl
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    LLMReply,
    ParserReply,
    Tool,
    Turn,
)
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.http.post_json import check_server, post_json
from karenina_toolkit.structured.structured_modes import append_schema


class OwnServer:
    """All ports of one model. Each call opens a connection of its own."""

    guards_calls = True  # the tool loop sends each request through `options.guard`

    def __init__(self, model: ModelConfig) -> None:
        self.model = model
        self.where = f"{model.model_name} at {model.endpoint_base_url}"

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's text."""
        turn = await self.send(messages)
        return LLMReply(turn.message.content, turn.usage)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Return JSON. The server cannot enforce a schema, so the prompt contains it."""
        turn = await self.send(append_schema(messages, schema))
        return ParserReply(turn.message.content, "prompt", turn.usage)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Return the conversation of an agent with its tools."""
        return await run_tool_loop(Conversation(self, messages), options)

    async def aclose(self) -> None:
        """Do nothing: nothing is open between calls."""

    async def send(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Turn:
        """Make one request. Raises `PortError`."""
        model = self.model
        body = {
            "model": model.model_name,
            "temperature": model.temperature,
            "max_tokens": model.max_tokens,
            "tools": [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools],
            "messages": [message.to_dict() for message in messages],
        }
        return await post_json(model, body, read_turn, key_header="Key")


def read_turn(data: Any) -> Turn:
    """Return the message in the server's JSON."""
    usage = Usage(data["input_tokens"], data["output_tokens"], calls=1)
    return Turn(Message.from_dict(data["message"]), usage)


class Conversation:
    """The messages of an agent, in the form that the tool loop needs."""

    def __init__(self, port: OwnServer, messages: Sequence[Message]) -> None:
        self.port = port
        self.where = port.where
        self.messages = list(messages)

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Return the model's next message."""
        return await self.port.send(self.messages, list(tools.values()))

    def add_turn(self, turn: Turn) -> None:
        """Add a message of the model."""
        self.messages.append(turn.message)

    def add_results(self, results: Sequence[Message]) -> None:
        """Add results of tools."""
        self.messages += results


@hookimpl
def karenina_adapters() -> list[AdapterSpec]:
    """Provide the interface `own_server.chat`."""
    return [
        AdapterSpec(
            interface="own_server.chat",
            description="Your own server.",
            llm=OwnServer,
            parser=OwnServer,
            agent=OwnServer,
            check=check_server,
            allowed_in_files=True,  # a benchmark may choose it: it starts no program
        )
    ]
