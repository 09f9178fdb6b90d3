"""What Karenina asks of a model: three ports, one message model and one taxonomy of errors.

A *port* is one way of talking to a model. An adapter implements the ports that its library can serve and converts
at its edge: inside Karenina there is only the `Message` of this module. Ports do not retry, do not cache and do not
limit themselves; the run engine does that, in one place, for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:
    from karenina_core.models.source_folder import SourceFolder

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]
StructuredMode = Literal["json_schema", "tool", "prompt"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool that an assistant message asks for; `arguments` are what the model wrote, as JSON values."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in Karenina's own terms.

    `content` is plain text. Only assistant messages have `tool_calls` and `reasoning` (what the model thought aloud
    outside its answer); only tool messages have `tool_call_id`, `tool_name` and `is_error`.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    reasoning: str | None = None

    @classmethod
    def system(cls, content: str) -> Self:
        """Instructions to the model."""
        return cls("system", content)

    @classmethod
    def user(cls, content: str) -> Self:
        """What the user says."""
        return cls("user", content)

    @classmethod
    def assistant(cls, content: str = "", tool_calls: Sequence[ToolCall] = (), reasoning: str | None = None) -> Self:
        """What the model says, with the tools that it wants called."""
        return cls("assistant", content, tuple(tool_calls), reasoning=reasoning)

    @classmethod
    def tool(cls, content: str, call: ToolCall, *, is_error: bool = False) -> Self:
        """What the tool answered to `call`."""
        return cls("tool", content, tool_call_id=call.id, tool_name=call.name, is_error=is_error)

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON values, without the fields that are empty."""
        found: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            found["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            found["tool_call_id"] = self.tool_call_id
        if self.tool_name is not None:
            found["tool_name"] = self.tool_name
        if self.is_error:
            found["is_error"] = True
        if self.reasoning is not None:
            found["reasoning"] = self.reasoning
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises `ValueError` for an unknown role or a field that is not ours."""
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(f"a message has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
        if data.get("role") not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"a message's role is system, user, assistant or tool, not {data.get('role')!r}")
        values = dict(data)
        values["tool_calls"] = tuple(ToolCall(**call) for call in data.get("tool_calls", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them (0 where it did not say), and the number of calls that they are the sum of.

    `cached_tokens`, which the provider read from its cache, and `cache_write_tokens`, which it put there for a price of
    their own, are part of `input_tokens`; `reasoning_tokens` are part of `output_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if self is NO_USAGE:
            return other
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            self.cache_write_tokens + other.cache_write_tokens,
        )


NO_USAGE = Usage()


@dataclass(slots=True)
class CallNotes:
    """What it took to get replies, failed calls included; of one call, or of all calls of a stage.

    `retries` are failed requests that were made again, by `ErrorCategory`; `waited` the seconds between them. `seconds`
    are those of the requests that brought the replies.
    """

    retries: dict[str, int] = field(default_factory=dict)
    waited: float = 0.0
    seconds: float = 0.0

    def add(self, other: CallNotes) -> None:
        """Count what `other` counted, too."""
        for category, times in other.retries.items():
            self.retries[category] = self.retries.get(category, 0) + times
        self.waited += other.waited
        self.seconds += other.seconds


@dataclass(slots=True)
class CallInfo:
    """For which item a call is made. It is for look-ups and bookkeeping, and is never sent to a model.

    `task` is the `usage_key` of the stage that calls, `stage` its name; `replicate` counts from 1. `order` is the
    place of the item in its run: of calls that wait, those of earlier items go first. `notes` are the stage's: every
    call adds its own. `shared` says that the stage works for all judges of an answer. A stage that makes the same call
    several times on purpose, to have several replies, numbers them with `sample`, from 0: else the journal would answer
    all of them with the first. `judge` is the id of the judge whose item it is; empty where it is for all judges.
    `sources` are the folders whose files decide what an agent finds in a workspace, as the item's stages name them.
    `shows_truth` says that the prompt is one of those that hold ground truth by design (`PromptTask.shows_truth`).
    """

    question_id: str = ""
    question: str = ""
    replicate: int = 1
    task: str = ""
    order: int = field(default=0, compare=False)
    notes: CallNotes | None = field(default=None, compare=False, repr=False)
    stage: str = ""
    shared: bool = False
    sample: int = 0
    judge: str = ""
    sources: tuple[SourceFolder, ...] = field(default=(), compare=False)
    shows_truth: bool = field(default=False, compare=False)


NO_INFO = CallInfo()


@dataclass(slots=True)
class LLMReply:
    """What a model said. `model` is the name that the provider reports, where it reports one."""

    text: str
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    reasoning: str | None = None


@dataclass(slots=True)
class ParserReply:
    """What a judge said when it was asked for JSON: the raw `text`, and `mode`, how the adapter asked for it.

    The text is handed on as it came, also where it is not JSON or does not fit the schema: the core validates it,
    repairs it and asks again, the same for every adapter.
    """

    text: str
    mode: StructuredMode
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of a model that works with tools.

    `unfinished` says that the provider paused it and wants to be asked again without a result. `wire` is the reply as
    the provider wants it sent back, as JSON values, where the message alone is not enough (thoughts that it signed).
    """

    message: Message
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    unfinished: bool = False
    wire: Any = None


class TurnGuard(Protocol):
    """What each request of an agent goes through: the journal, the limits and the retries of the run."""

    async def __call__(self, ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message], /) -> Turn:
        """The turn that `ask` brings, which may be made several times, or not at all where it was made before.

        `trace` is what was said since the messages that the agent was given.
        """


class Tool(Protocol):
    """One tool. It may serve several calls at once.

    `schema` is the JSON Schema of the arguments, an object.
    """

    @property
    def name(self) -> str:
        """The name under which models call it: letters, digits, `_` and `-`."""

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """The result for the model. `arguments` fit the schema, and null stands where it may.

        Raises `ToolError`, which the model reads, or `PortError`, which ends the agent's run.
        """


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Bounds of one agent run: assistant turns, seconds, the folder in which its tools work, and further tools.

    `tools` are those beside the workspace's own (of MCP servers, say); the run has started what stands behind them.
    Adapters take all tools from `tools_for`. `guard` is given to ports that set `guards_calls`: they pass each of
    their requests through it, so that a failed one is repeated alone. The runs of all other agents are limited and
    repeated as a whole. `timeout_setting` is the setting that `timeout` comes from: errors name it.
    """

    max_turns: int = 25
    timeout: float | None = None
    workspace: Path | None = None
    guard: TurnGuard | None = None
    tools: tuple[Tool, ...] = ()
    timeout_setting: str = "agent_timeout"


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an agent did: the whole `trace` after the messages it was given, also where it stopped at its limit."""

    trace: tuple[Message, ...]
    usage: Usage = Usage(calls=1)
    limit_reached: bool = False
    finish_reason: FinishReason = "stop"
    model: str | None = None


class Port(Protocol):
    """What all ports share. A port serves many calls at once, on one event loop, until it is closed."""

    async def aclose(self) -> None:
        """Give back connections and processes. Called once, at the end of a run, also after errors."""


class LLMPort(Port, Protocol):
    """Plain text out."""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """The model's reply to `messages`. Raises `PortError`."""


class ParserPort(Port, Protocol):
    """JSON out, to fit a schema."""

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """The model's reply to `messages`, asked to be a JSON object that fits the JSON Schema `schema`.

        The adapter picks the best way that its server has (native schema, tool call, or the schema in the prompt).
        Raises `PortError`; a reply that does not fit is no error here.
        """


class AgentPort(Port, Protocol):
    """A conversation with tools."""

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the agent until it answers or meets a bound. A tool that fails is an entry of the trace.

        A turn is one message of the assistant. The turn limit is no error: the reply has `limit_reached` and the trace
        up to there, which ends on the assistant's last message (what it wanted called then is not called any more).
        Raises `PortError`: of category `timeout` after `options.timeout` seconds; what the agent had done is its
        `partial`.
        """


class ErrorCategory(StrEnum):
    """Why a call failed, as far as the caller's next step depends on it."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    PERMANENT = "permanent"


class PortError(Exception):
    """A call that brought no reply.

    `category` decides about a retry (`permanent` is never retried); `status` is the HTTP status, where there was
    one; `retry_after` are the seconds that the server asked for, as data. `partial` is what an agent had done until
    then, where it had done something: an exception carries no reply, and what was said and spent must not be lost. The
    message says what was called, where, and what to do, and holds no secret.
    """

    def __init__(
        self,
        message: str,
        *,
        category: ErrorCategory,
        status: int | None = None,
        retry_after: float | None = None,
        partial: AgentReply | None = None,
    ) -> None:
        super().__init__(message)
        self.category = category
        self.status = status
        self.retry_after = retry_after
        self.partial = partial

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later. An agent that ran out of its time is not given it twice."""
        if self.partial is not None and self.category is ErrorCategory.TIMEOUT:
            return False
        return self.category is not ErrorCategory.PERMANENT


class NoRecordedReply(PortError):
    """A call that a run that asks nobody has no reply to. Its item ends in an error, whatever the stage does."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


def category_of_status(status: int) -> ErrorCategory:
    """The category of an HTTP status of 400 or more.

    408 and 504 are time-outs, 429 is a rate limit, 529 ("overloaded") and the other 5xx are the server's, and the
    rest of 4xx is permanent, save 409 and 425, which say "try again".
    """
    if status in (408, 504):
        return ErrorCategory.TIMEOUT
    if status == 429:
        return ErrorCategory.RATE_LIMIT
    if status >= 500 or status in (409, 425):
        return ErrorCategory.SERVER
    return ErrorCategory.PERMANENT
