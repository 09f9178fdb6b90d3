"""The interface for calling models: three ports, messages, and error categories.

An adapter implements the *ports* that its library supports, and converts between the library's messages and `Message`.
Ports do not retry, cache or limit calls, because the engine does that for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import add, attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

from karenina_core.models.attachments import Attachment

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "failed", "other"]
StructuredMode = Literal["json_schema", "tool", "prompt"]
PortName = Literal["llm", "parser", "agent"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by an assistant message. `arguments` are JSON values."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A message in a conversation.

    `content` is plain text. Only assistant messages have `tool_calls`, `reasoning` (the model's thinking, which is not
    part of the answer) and `notes` (about parts of unknown types that are not in `content`). Only tool messages have
    `tool_call_id`, `tool_name` and `is_error`. Only user and tool messages have `attachments`.

    `is_constant` marks instructions and examples that are the same for all items, so that an adapter can cache the
    prompt up to the last of them. It is not part of the message's content.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    reasoning: str | None = None
    notes: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    is_constant: bool = field(default=False, compare=False)

    @classmethod
    def system(cls, content: str) -> Self:
        """Return a message that contains instructions for the model."""
        return cls("system", content)

    @classmethod
    def user(cls, content: str) -> Self:
        """Return a message from the user."""
        return cls("user", content)

    @classmethod
    def assistant(cls, content: str = "", tool_calls: Sequence[ToolCall] = (), reasoning: str | None = None) -> Self:
        """Return a message from the model, with the tool calls that it requests."""
        return cls("assistant", content, tuple(tool_calls), reasoning=reasoning)

    @classmethod
    def tool(cls, content: str, call: ToolCall, *, is_error: bool = False) -> Self:
        """Return a message with the result of a tool call."""
        return cls("tool", content, tool_call_id=call.id, tool_name=call.name, is_error=is_error)

    def to_dict(self) -> dict[str, Any]:
        """Convert the message to a JSON-compatible dict without empty fields. Attachments are described by name, media
        type, digest and size. Their contents and paths are not included.
        """
        if _optional_parts(self) == _NO_PARTS:
            return {"role": self.role, "content": self.content}
        data = {name: value for name in _STORED if (value := getattr(self, name)) not in (None, False, ())}
        if self.tool_calls:
            data["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in self.tool_calls
            ]
        if self.notes:
            data["notes"] = list(self.notes)
        if self.attachments:
            data["attachments"] = [attachment.to_dict() for attachment in self.attachments]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create a message from the output of `to_dict`. Raises `ValueError` for an unknown role or field, and
        `TypeError` for an invalid tool call or attachment.
        """
        unknown = sorted(set(data) - set(_STORED))
        if unknown:
            raise ValueError(f"unknown message field {unknown[0]!r}; the fields are {', '.join(sorted(_STORED))}")
        if data.get("role") not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"a message role must be system, user, assistant or tool, not {data.get('role')!r}")
        values = dict(data)
        values["tool_calls"] = tuple(ToolCall(**call) for call in data.get("tool_calls", ()))
        values["notes"] = tuple(data.get("notes", ()))
        values["attachments"] = tuple(Attachment(**attachment) for attachment in data.get("attachments", ()))
        return cls(**values)


_STORED = tuple(item.name for item in fields(Message) if item.compare)
_optional_parts = attrgetter(*_STORED[2:])
_NO_PARTS = _optional_parts(Message("user"))


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts that the provider reported for a number of `calls`. A missing count is 0.

    `cached_tokens` were read from the provider's cache, and `cache_write_tokens` were written to it at a different
    price. Both are part of `input_tokens`. `reasoning_tokens` are part of `output_tokens`.

    The other counts only matter for costs: `long_write_tokens` are the part of `cache_write_tokens` that the cache
    keeps for an hour, and `audio_input_tokens` and `audio_output_tokens` the sound in `input_tokens` and
    `output_tokens`. `web_searches` were made by the server. `flex_calls` and `priority_calls` had these service tiers,
    and a call that is in both counts had a tier of another name. The cost of `unpriced_calls` does not follow from the
    counts, for example because another model was asked as well. `stated_cost` is what the provider says that the calls
    cost, in billionths of a dollar, or 0 if it does not say.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cache_write_tokens: int = 0
    long_write_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    web_searches: int = 0
    flex_calls: int = 0
    priority_calls: int = 0
    unpriced_calls: int = 0
    stated_cost: int = 0

    @property
    def total_tokens(self) -> int:
        """The total number of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return other if self is NO_USAGE else Usage(*map(add, _counts(self), _counts(other)))


_names = tuple(count.name for count in fields(Usage))
_counts = attrgetter(*_names)
NO_USAGE = Usage()
REPORTED_COUNTS = (*_names[:2], "total_tokens", *_names[2:4], "cache_write_tokens", "calls")
"""The counts that a result contains, in this order."""


@dataclass(slots=True)
class CallNotes:
    """The retries and durations of a single call, or of all of a stage's calls, including failed ones.

    - `retries`: the number of retries for each `ErrorCategory`.
    - `waited`: the seconds spent waiting between retries.
    - `seconds`: the duration of all requests.
    - `answered`: the duration of the requests that were answered.
    - `cost`: the cost of the answered requests in picodollars, or None if it is not known.
    - `uncounted`: the number of model calls whose reply states no output tokens.
    - `queued`: the seconds that calls waited for the server's limit or the budget before they were sent.
    - `keys`: the calls' journal keys.
    - `open_calls`: the number of calls currently in flight.
    - `open_seconds`: the time during which at least one call was in flight. This differs from the sum of the durations,
      because calls may overlap or be answered from the journal.

    A reply from the journal has the numbers of the original call.
    """

    retries: dict[str, int] = field(default_factory=dict)
    waited: float = 0.0
    seconds: float = 0.0
    queued: float = 0.0
    keys: list[str] = field(default_factory=list)
    open_calls: int = 0
    open_seconds: float = 0.0
    answered: float = 0.0
    cost: int | None = 0
    uncounted: int = 0

    def add(self, other: CallNotes) -> None:
        """Add the retries, times, counts and keys of `other` to these notes, in place. If either cost is unknown
        (None), so is the sum.
        """
        for category, times in other.retries.items():
            self.retries[category] = self.retries.get(category, 0) + times
        self.waited += other.waited
        self.seconds += other.seconds
        self.queued += other.queued
        self.keys += other.keys
        self.answered += other.answered
        self.uncounted += other.uncounted
        self.cost = None if self.cost is None or other.cost is None else self.cost + other.cost

    def work_seconds(self, elapsed: float) -> float:
        """Return how many of the `elapsed` seconds were spent working rather than waiting for these calls."""
        return max(0.0, elapsed - self.open_seconds) + self.seconds


class SourceFolder(NamedTuple):
    """A folder of the user's whose files affect the result of a question.

    `ignores(name)` returns whether the entry with the given name has no effect on results, such as a copy left behind
    by a run. Links are only followed if their target is inside `within`, which defaults to `path`.
    """

    path: Path
    within: Path | None = None
    ignores: Callable[[str], bool] = lambda _name: False


@dataclass(slots=True)
class CallInfo:
    """The purpose of a call. Used for look-ups and bookkeeping, and never sent to a model.

    - `question_id`, `question`, `replicate` (from 1): the item's question and repetition.
    - `task`, `stage`: the `usage_key` and the name of the calling stage.
    - `order`: the item's position in the run. Among waiting calls, those of earlier items are sent first.
    - `notes`: the stage's notes, to which every call adds its own.
    - `shared`: whether the stage runs once for all judges of an answer.
    - `sample`: the number (from 0) of a call that a stage repeats on purpose to get several replies. Without it, the
      journal would return the first reply for every repetition.
    - `judge`: the id of the item's judge. It is empty if the call is made for all judges.
    - `sources`: the folders whose contents affect agents in a workspace, from the stages' `source_folders`.
    - `shows_truth`: whether the prompt contains ground truth by design (`PromptTask.shows_truth`).
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
    """A model's reply. `model` is the provider's name for the model, if reported.

    If `finish_reason` is "other" or "failed", `server_reason` is the reason given by the server. `notes` has the same
    meaning as in `Message`. `conversation` is what a recording states about its conversation beside the messages.
    """

    text: str
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    reasoning: str | None = None
    server_reason: str | None = None
    notes: tuple[str, ...] = ()
    conversation: Mapping[str, Any] | None = None


@dataclass(slots=True)
class ParserReply:
    """A judge's reply to a request for JSON: the raw `text`, and the `mode` of the request.

    Adapters return the text unchanged, even if it is invalid or does not match the schema.
    `karenina_toolkit.structured` repairs and validates it for all adapters. If the schema's only field is an enum of
    strings, `option_logprobs` may contain the log-probability of each option's first token, before the schema
    restricted the choice. `reasoning` and `server_reason` have the same meaning as in `LLMReply`.
    """

    text: str
    mode: StructuredMode
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    option_logprobs: Mapping[str, float] | None = None
    reasoning: str | None = None
    server_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply from a model that works with tools.

    `unfinished` means that the provider paused the turn and expects another request without a tool result. `wire` is
    the reply in the provider's own format, for providers that need it sent back unchanged (signed reasoning).
    `server_reason` has the same meaning as in `LLMReply`.
    """

    message: Message
    usage: Usage = Usage(calls=1)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    unfinished: bool = False
    wire: Any = None
    server_reason: str | None = None


class TurnGuard(Protocol):
    """A wrapper around an agent's requests that applies the run's journal, limits and retries."""

    async def __call__(self, ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message], /) -> Turn:
        """Make a request by calling `ask`, and return the turn. `ask` may be called several times, or not at all if the
        turn is in the journal. `trace` is the conversation so far, without the agent's initial messages.
        """


class Tool(Protocol):
    """A tool for models. Several calls may run concurrently."""

    @property
    def name(self) -> str:
        """The name used in tool calls. It consists of letters, digits, `_` and `-`."""

    @property
    def description(self) -> str:
        """A description for the model of what the tool does and when to use it."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Its type must be `object`."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Run the tool and return the result for the model. `arguments` match the schema. Optional arguments may be
        null. Raises `ToolError` for an error that the model should see, and `PortError` to end the agent's run.
        """


class WorkRecorder(Protocol):
    """A recorder of what an agent did in its workspace. With it, the run can reuse the agent's reply."""

    async def record(self) -> Mapping[str, Any] | None:
        """Return what changed in the workspace, as JSON, or None if it cannot be recorded completely."""

    async def restore(self, recorded: Mapping[str, Any]) -> None:
        """Change the workspace to what it was when `recorded` was returned. Raises `PortError` if this fails."""


class ProgramSandbox(Protocol):
    """The sandbox for programs of agents that stay open, such as MCP servers and the command line of an agent."""

    def problem_of(self, command: Sequence[str]) -> str | None:
        """Return why a command cannot be isolated, with a cure, or None. `command[0]` is an absolute path."""

    def isolate(
        self,
        command: Sequence[str],
        folder: Path | None,
        environment: Mapping[str, str],
        *,
        readable: Sequence[Path] = (),
        servers: Mapping[int, Path] | None = None,
        network: bool = False,
    ) -> AbstractAsyncContextManager[tuple[Sequence[str], Mapping[str, str]]]:
        """Return an async context manager that yields the command that runs `command` isolated in `folder` (if None, in
        an empty one), and its environment: the sandbox's own and `environment`. The command can also read `readable`.
        `servers` maps ports of the sandbox's own 127.0.0.1 to unix sockets; the command reaches nothing else unless
        `network` is true. Raises `KareninaError` if the sandbox cannot be used.
        """


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The limits on an agent's run, and its tools.

    - `max_turns`: the maximum number of assistant turns.
    - `timeout`: the maximum number of seconds, or None for no limit.
    - `workspace`: the folder in which the agent's tools work.
    - `tools`: tools in addition to the workspace's own, such as those of the MCP servers that the run has started.
      Adapters get all tools from `collect_tools`.
    - `guard`: used by ports that set `guards_calls`. They pass each request through the guard, so that only a failed
      request is retried. Other agents' runs are limited and retried as a whole.
    - `timeout_setting`: the setting that determines `timeout`, for error messages.
    - `session`: used for an agent without a workspace that runs several times for one answer. It is a path that
      identifies the tools these runs share. Like a workspace, it is entered and left (`context.leave_workspace`), but
      no such folder exists.
    - `recorder`: used by the run to store the work in the workspace with the reply, and to restore it from there.
    - `sandbox`: set by the run if the user chose a sandbox that can isolate programs that stay open. Adapters must use
      it for programs that an agent can make act on files or the network, and name them in `AdapterSpec.program`.
    """

    max_turns: int = 25
    timeout: float | None = None
    workspace: Path | None = None
    guard: TurnGuard | None = None
    tools: tuple[Tool, ...] = ()
    timeout_setting: str = "agent_timeout"
    session: Path | None = None
    recorder: WorkRecorder | None = None
    sandbox: ProgramSandbox | None = None


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The result of an agent's run, even if the turn limit was reached. `trace` starts after the initial messages.

    `recorded` is set by the run: the work in the workspace, from the `recorder` of the options.
    `conversation` has the same meaning as in `LLMReply`.
    """

    trace: tuple[Message, ...]
    usage: Usage = Usage(calls=1)
    limit_reached: bool = False
    finish_reason: FinishReason = "stop"
    model: str | None = None
    server_reason: str | None = None
    recorded: Mapping[str, Any] | None = None
    conversation: Mapping[str, Any] | None = None


class Port(Protocol):
    """Base class of all ports. A port handles many concurrent calls on one event loop until it is closed."""

    async def aclose(self) -> None:
        """Release connections and processes. This is called once, at the end of a run."""


class LLMPort(Port, Protocol):
    """A port for plain text."""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send the messages and return the reply. Raises `PortError` if the call fails."""


class ParserPort(Port, Protocol):
    """A port for JSON that matches a schema."""

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Send the messages and return the reply, which should be a JSON object that matches `schema`. Raises
        `PortError` if the call fails, but no error if the reply does not match.

        Use the best mode that the server supports: a native schema, a tool call, or the schema in the prompt.
        """


class AgentPort(Port, Protocol):
    """A port for conversations with tools."""

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the agent until it answers or reaches a limit, which sets `limit_reached`, and return the reply. Failed
        tool calls are part of its trace. Raises `PortError` if a call fails or if `options.timeout` expires.

        A turn is one assistant message. If the turn limit is reached, the trace ends with the last assistant message,
        whose tool calls are not run. If `options.timeout` expires, the error has the category `timeout`. The error's
        `partial` is the result so far.
        """


class ModelRequest(NamedTuple):
    """A request to a model. It is sent to an agent if `options` is set, asks for JSON if `schema` is set, and otherwise
    asks for text.
    """

    model: ModelConfig
    messages: Sequence[Message]
    info: CallInfo
    schema: Mapping[str, Any] | None = None
    options: AgentOptions | None = None

    @property
    def port(self) -> PortName:
        """The name of the port that handles the request."""
        if self.options is not None:
            return "agent"
        return "llm" if self.schema is None else "parser"

    def send(self, port: Any) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that sends the request to the port's `run` if it has options, to `parse` if it has a
        schema, and otherwise to `invoke`, and returns the reply. Awaiting it may raise `PortError`.
        """
        reply: Coroutine[Any, Any, Any]
        if self.options is not None:
            reply = port.run(self.messages, self.options, info=self.info)
        elif self.schema is not None:
            reply = port.parse(self.messages, self.schema, info=self.info)
        else:
            reply = port.invoke(self.messages, info=self.info)
        return reply


class ErrorCategory(StrEnum):
    """The reason why a call failed. It determines whether the call is retried.

    `empty` is a reply without content, and `incomplete` is a reply that the server did not mark as complete. `filtered`
    means that the provider's content filter refused the request. It counts as a reply with `finish_reason`
    "content_filter".
    """

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    EMPTY = "empty"
    INCOMPLETE = "incomplete"
    FILTERED = "filtered"
    PERMANENT = "permanent"


class PortError(Exception):
    """Raised if a call fails.

    - `category`: determines whether the call is retried. `permanent` errors never are.
    - `status`: the HTTP status, if there was one.
    - `retry_after`: the number of seconds that the server asked to wait, if any.
    - `partial`: the trace and usage of an agent up to the error, if there are any.
    - `usage`: the tokens of replies that were paid for but are not used.
    - `attempts`: the end of the message, set by the run. It states the number of attempts and suggests a fix.

    The message states which call failed, where, and how to fix it. It contains no secrets.
    """

    def __init__(
        self,
        message: str,
        *,
        category: ErrorCategory,
        status: int | None = None,
        retry_after: float | None = None,
        partial: AgentReply | None = None,
        usage: Usage = NO_USAGE,
    ) -> None:
        super().__init__(message)
        self.category = category
        self.status = status
        self.retry_after = retry_after
        self.partial = partial
        self.usage = usage
        self.attempts = ""

    def __str__(self) -> str:
        return f"{super().__str__()}{self.attempts}"

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later. An agent that timed out is not run again."""
        if self.partial is not None and self.category is ErrorCategory.TIMEOUT:
            return False
        return self.category not in (ErrorCategory.PERMANENT, ErrorCategory.FILTERED)


class NoRecordedReply(PortError):
    """Raised if a run that makes no calls needs a reply that was not recorded.

    The item fails even if a stage catches the exception.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)
