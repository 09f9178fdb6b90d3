"""An offline adapter whose models reply with what your functions return. Requests are recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from karenina_core.hooks import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import NO_INFO, AgentReply, CallInfo, LLMReply, Message, ParserReply, Usage

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentOptions

INTERFACE: Final = "scripted"

Say = Callable[[Sequence[Message], CallInfo], str | LLMReply]
Fill = Callable[[Sequence[Message], Mapping[str, Any], CallInfo], Mapping[str, Any] | str | ParserReply]
Act = Callable[[Sequence[Message], CallInfo], Sequence[Message] | AgentReply]

USAGE: Final = Usage(input_tokens=10, output_tokens=5, calls=1)


@dataclass(frozen=True, slots=True)
class Request:
    """A model call: port, messages, schema, item and, for an agent, `options`."""

    port: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None
    info: CallInfo
    options: AgentOptions | None = None

    @property
    def text(self) -> str:
        """Everything that the model could see: the messages, and the schema as JSON."""
        seen = [message.content for message in self.messages]
        if self.schema is not None:
            seen.append(json.dumps(self.schema, ensure_ascii=False))
        return "\n".join(seen)


@dataclass(eq=False)
class ScriptedModels:
    """A plugin with models for the interface `scripted`.

    Register it with `plugins.register(ScriptedModels(...))`. `say` replies for the LLM port and `fill` for the parser
    port. `act` replies for the agent port and returns the messages of the trace. The functions may raise `PortError`,
    or return a reply object to set the usage or finish reason. By default, a call uses 10 input and 5 output tokens.
    With `wants_tools`, the tools of a model's MCP servers are started and passed to the agent port in the request's
    options. `requests` contains every call, in order.
    """

    say: Say = lambda _messages, _info: "an answer"
    fill: Fill = lambda _messages, schema, _info: dict.fromkeys(schema.get("properties", {}))
    act: Act = lambda _messages, _info: [Message.assistant("an answer")]
    interface: str = INTERFACE
    concurrency: int = 64
    wants_tools: bool = False
    requests: list[Request] = field(default_factory=list)

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        """Return an adapter for the scripted interface."""
        return [
            AdapterSpec(
                interface=self.interface,
                description="Replies as scripted by the test.",
                llm=lambda _model: _Port(self),
                parser=lambda _model: _Port(self),
                agent=lambda _model: _Port(self),
                starts_tools=not self.wants_tools,
                concurrency=lambda _model: self.concurrency,
                by_item=True,
                allowed_in_files=True,
            )
        ]

    def model(self, id: str = "scripted", **fields: Any) -> ModelConfig:
        """Return a model with the scripted interface. `fields` are additional fields; `model_name` defaults to `id`."""
        return ModelConfig(id=id, interface=self.interface, model_name=fields.pop("model_name", id), **fields)


class _Port:
    """A port of any kind that records requests and replies with the return values of the functions."""

    def __init__(self, models: ScriptedModels) -> None:
        self._models = models

    async def aclose(self) -> None:
        """Do nothing; there is nothing to close."""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Record the request, and return the reply from `say`."""
        self._models.requests.append(Request("llm", tuple(messages), None, info))
        reply = self._models.say(messages, info)
        return reply if isinstance(reply, LLMReply) else LLMReply(reply, USAGE)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Record the request, and return the reply from `fill`, as JSON unless it is a string or `ParserReply`."""
        self._models.requests.append(Request("parser", tuple(messages), schema, info))
        filled = self._models.fill(messages, schema, info)
        if isinstance(filled, ParserReply):
            return filled
        return ParserReply(filled if isinstance(filled, str) else json.dumps(filled), "json_schema", USAGE)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Record the request, and return the trace from `act`."""
        self._models.requests.append(Request("agent", tuple(messages), None, info, options))
        done = self._models.act(messages, info)
        return done if isinstance(done, AgentReply) else AgentReply(tuple(done), USAGE)
