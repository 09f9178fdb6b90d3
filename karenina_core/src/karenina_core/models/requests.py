"""A request to a model, as it travels from a stage to the port of an adapter: for text, for JSON, or to an agent."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from karenina_core.models.ports import AgentReply, LLMReply, ParserReply

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentOptions, AgentPort, CallInfo, LLMPort, Message, ParserPort

R = TypeVar("R", bound=LLMReply | ParserReply | AgentReply)

RequestKind = Literal["llm", "parser", "agent"]


@dataclass(frozen=True, slots=True)
class ModelRequest(Generic[R]):
    """The base of requests: the model, the messages, and the item for which it is made. `kind` names the port."""

    kind: ClassVar[RequestKind]
    model: ModelConfig
    messages: Sequence[Message]
    info: CallInfo

    def send(self, port: Any) -> Coroutine[Any, Any, R]:
        """Return the reply of the adapter's port to the request. Awaiting it raises `PortError`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TextRequest(ModelRequest[LLMReply]):
    """A request for plain text."""

    kind = "llm"

    def send(self, port: LLMPort) -> Coroutine[Any, Any, LLMReply]:
        """Return the model's text."""
        return port.invoke(self.messages, info=self.info)


@dataclass(frozen=True, slots=True)
class FormRequest(ModelRequest[ParserReply]):
    """A request for JSON that matches a schema."""

    kind = "parser"
    schema: Mapping[str, Any]

    def send(self, port: ParserPort) -> Coroutine[Any, Any, ParserReply]:
        """Return the model's JSON."""
        return port.parse(self.messages, self.schema, info=self.info)


@dataclass(frozen=True, slots=True)
class AgentRequest(ModelRequest[AgentReply]):
    """A request to an agent, which works with tools."""

    kind = "agent"
    options: AgentOptions

    def send(self, port: AgentPort) -> Coroutine[Any, Any, AgentReply]:
        """Return the conversation of the agent."""
        return port.run(self.messages, self.options, info=self.info)
