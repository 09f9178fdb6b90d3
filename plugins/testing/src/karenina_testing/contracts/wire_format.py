"""A provider's format for requests and replies, defined once for all contracts.

`ChatCompletions` and `MessagesAPI` are for servers with OpenAI's and Anthropic's interfaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import FinishReason, Message, ToolCall, Usage
from karenina_testing.contracts.odd_replies import CHAT_FORMS, CHAT_REPLIES, MESSAGES_FORMS, MESSAGES_REPLIES, OddReply
from karenina_testing.server import Reply, Request, Say, ScriptedServer, Side
from karenina_testing.server.formats import completion_error, completion_of, message_error, message_of
from karenina_testing.server.script import One
from karenina_toolkit.traces.formats import anthropic
from karenina_toolkit.traces.formats.openai_chat import read_message

if TYPE_CHECKING:
    from collections.abc import Callable


KEY: Final = "sk-contract-4711-never-to-be-shown"
"""The API key of every model in the contracts. It must never be shown."""


class WireFormat:
    """An adapter and the wire format of its servers.

    Set `entry_point` and `interface`, and define `reply` and `read`. The other defaults suit a provider that uses an
    API key and reports usage, and ports that make one POST request per call.

    - `base_path`: the path after the server's host and port in `endpoint_base_url`.
    - `fields`: additional fields for every model.
    - `usage`: the usage that the scripted server reports for each call; set any counts missing from the format to
      0.
    - `finish_reasons`: the finish reasons that the format can express, in addition to `tool_calls`.
    - `sends_key`: whether `endpoint_api_key` is sent at all.
    - `sends_model_name`: whether a request names its model; False for a server that has only one model.
    - `agent_seconds`: the time limit for an agent whose server hangs; increased if the agent's first turn takes
      longer.
    - `parameters`: sampling parameters that must reach the server; `{}` if it has none.
    - `odd_replies`, `odd_forms`: unusual replies to the LLM port and the parser port, each with its expected
      outcome.

    Override `error(status, message)`, which returns the JSON body of an error, if the server's errors differ from
    `{"error": {"message": ...}}`, and `filled(request, text)` if the JSON of a parser is not the text of the reply.
    """

    entry_point: ClassVar[str]
    interface: ClassVar[str]
    base_path: ClassVar[str] = "/v1"
    fields: ClassVar[Mapping[str, Any]] = {}
    usage: ClassVar[Usage] = Usage(input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2, calls=1)
    finish_reasons: ClassVar[Sequence[FinishReason]] = ("stop", "length", "content_filter")
    sends_key: ClassVar[bool] = True
    sends_model_name: ClassVar[bool] = True
    agent_seconds: ClassVar[float] = 0.5
    parameters: ClassVar[Mapping[str, float]] = {"temperature": 0.125, "max_tokens": 777}

    odd_replies: ClassVar[Mapping[str, OddReply]] = {}
    odd_forms: ClassVar[Mapping[str, OddReply]] = {}

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return the JSON body of a successful reply with the text and tool calls of `said`."""
        raise NotImplementedError(f"{type(self).__name__} must define reply(), which returns the body of a reply")

    def read(self, request: Request) -> Sequence[Message]:
        """Return the messages in `request`. Their `is_error`, `tool_name` and `reasoning` may be omitted."""
        raise NotImplementedError(f"{type(self).__name__} must define read(), which returns the messages in a request")

    def filled(self, request: Request, text: str) -> Any:
        """Return the body of a reply with the JSON `text`, in the structured mode that the request uses.

        By default, the JSON is the text of the reply.
        """
        return self.reply(Message.assistant(text), self.usage, "stop")

    def error(self, status: int, message: str) -> Any:
        """Return the body of an error with the given status, which is at least 400."""
        return {"type": "error", "error": {"type": "scripted_error", "message": message}}

    def is_call(self, request: Request) -> bool:
        """Return whether `request` calls the model, unlike a health check, for example."""
        return request.method == "POST"

    def reading(self, file: Path, id: str) -> ToolCall:
        """Return the tool call with which an agent reads `file` in its workspace. The file need not exist."""
        return ToolCall(id, "read_file", {"path": file.name})

    def model(self, url: str, **fields: Any) -> ModelConfig:
        """Return a model that uses the server at `url`. `fields` add to or replace the model's fields."""
        values = {"endpoint_base_url": url + self.base_path, "endpoint_api_key": KEY, **self.fields, **fields}
        return ModelConfig(id="contract", interface=self.interface, model_name="contract-model", **values)

    @property
    def spec(self) -> AdapterSpec:
        """The adapter's declaration for `interface`."""
        plugin = EntryPoint("contract", self.entry_point, "karenina.adapters").load()
        offered: list[AdapterSpec] = list(plugin.karenina_adapters())
        return next(spec for spec in offered if spec.interface == self.interface)

    @contextmanager
    def server(self, *answers: One) -> Iterator[ScriptedServer]:
        """Run a server in the block that sends the given answers in order, repeating the last one."""
        with ScriptedServer(Side(answers), is_call=self.is_call, item_of=lambda _: "") as running:
            yield running

    def failing(self, status: int, message: str = "the server is scripted to fail", **headers: str) -> Reply:
        """Return an error reply with the given status. `_` in header names is replaced by `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Reply(self.error(status, message), status, named)

    def saying(self, text: str = "", *calls: ToolCall, finish_reason: FinishReason | None = None) -> Reply:
        """Return a successful reply with `text` and tool calls.

        The default `finish_reason` is `tool_calls` if there are tool calls, otherwise `stop`.
        """
        reason: FinishReason = finish_reason or ("tool_calls" if calls else "stop")
        return Reply(self.reply(Message.assistant(text, calls), self.usage, reason))

    def filling(self, text: str) -> Callable[[Request], Reply]:
        """Return a function that replies to a parser's request with the JSON `text`."""
        return lambda request: Reply(self.filled(request, text))


class PortContract(WireFormat):
    """The base class for port contracts. `port_name` is the port's name in `AdapterSpec`."""

    port_name: ClassVar[Literal["llm", "parser", "agent"]]

    def make(self, model: ModelConfig) -> Any:
        """Create a port for `model`. Fails if the adapter has no port of this kind."""
        factory = getattr(self.spec, self.port_name)
        assert factory is not None, f"the {self.interface!r} interface has no {self.port_name} port"
        return factory(model)


class ChatCompletions(WireFormat):
    """The format of servers for chat completions. Set `entry_point` and `interface`, and override what differs.

    If a parser forces the use of a tool, the reply is a call of that tool.
    """

    odd_replies: ClassVar[Mapping[str, OddReply]] = CHAT_REPLIES
    odd_forms: ClassVar[Mapping[str, OddReply]] = CHAT_FORMS

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return a chat completion with one choice."""
        return completion_of(Say(said.content, said.tool_calls, finish=finish_reason, usage=usage))

    def read(self, request: Request) -> Sequence[Message]:
        """Return the messages in `request`."""
        return [read_message(message) for message in request.body["messages"]]

    def filled(self, request: Request, text: str) -> Any:
        """Return a reply with the JSON `text` as the arguments of the tool that `request` forces, or else as text."""
        choice = request.body.get("tool_choice")
        if not isinstance(choice, dict):
            return super().filled(request, text)
        call = ToolCall("call_1", choice["function"]["name"], {})
        body = completion_of(Say("", (call,), usage=self.usage))
        body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = text
        return body

    def error(self, status: int, message: str) -> Any:
        """Return an error in the API's format, regardless of the status."""
        return completion_error(message)


class MessagesAPI(WireFormat):
    """The format of servers for the Messages API. Set `entry_point` and `interface`, and override what differs.

    Part of the input is written to the cache and part is read from it. Both count as input. If a parser forces the use
    of a tool, the reply is a call of that tool.
    """

    base_path: ClassVar[str] = ""
    usage: ClassVar[Usage] = Usage(
        input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2, calls=1, cache_write_tokens=4
    )

    odd_replies: ClassVar[Mapping[str, OddReply]] = MESSAGES_REPLIES
    odd_forms: ClassVar[Mapping[str, OddReply]] = MESSAGES_FORMS

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return an assistant message."""
        return message_of(Say(said.content, said.tool_calls, finish=finish_reason, usage=usage))

    def read(self, request: Request) -> Sequence[Message]:
        """Return the system prompt and messages in `request`."""
        system = request.body.get("system") or ""
        text = system if isinstance(system, str) else "\n".join(block["text"] for block in system)
        return [*([Message.system(text)] if text else ()), *anthropic.read(request.body["messages"])]

    def filled(self, request: Request, text: str) -> Any:
        """Return the JSON as the input of the tool that `request` forces, or else as text."""
        choice = request.body.get("tool_choice") or {}
        if choice.get("type") != "tool":
            return super().filled(request, text)
        call = ToolCall("toolu_1", choice["name"], json.loads(text))
        return message_of(Say("", (call,), usage=self.usage))

    def error(self, status: int, message: str) -> Any:
        """Return an error in the API's format, with the error type for `status`."""
        return message_error(status, message)
