"""The tool loop: what happens between a model's turns, for all adapters in the `tool_loop` tier.

An adapter implements a `Conversation`, which makes one request and knows its provider's message format; `run_tool_loop`
does the rest: turns, tools, limits, and the partial trace if it stops early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from karenina_core.models.ports import AgentReply, ErrorCategory, Message, PortError, Turn, Usage
from karenina_toolkit.agents.tools import collect_tools, measure_size, run_tool
from karenina_toolkit.agents.written_calls import MARKS, parse_tool_calls

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentOptions, FinishReason, Tool, ToolCall, TurnGuard
CUT_OFF = (
    "this call was not carried out: the reply reached the limit of tokens while it was being written, so its "
    "arguments may be incomplete; call it again, in a shorter reply"
)
_TAGS: Final = ("<tool_calls>", "<function_call>", *MARKS)
MOST_OF_A_TRACE: Final = 20_000_000
"""Maximum characters and values in all messages of one agent run.

This is more than any model can read, and each turn sends all messages again.
"""


class Conversation(Protocol):
    """One agent run in the provider's format. Each object serves a single run."""

    @property
    def where(self) -> str:
        """The model and its server, as named in error messages."""

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Send the conversation so far and return the model's reply. Raises `PortError` if the request fails.

        A request must not change the conversation, because it may be repeated after a failure. The `tools` are the same
        for all requests of a run; `first` is true for the first request.
        """

    def add_turn(self, turn: Turn) -> None:
        """Add the model's turn to the conversation. The turn may also come from the journal."""

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the results of all tool calls made in the last turn to the conversation."""


async def run_tool_loop(conversation: Conversation, options: AgentOptions) -> AgentReply:
    """Run the model until it answers without a tool call or has had `options.max_turns` turns, which sets
    `limit_reached`.

    Each request goes through `options.guard`, so that only the failed request is retried. The time limit counts
    requests and tool calls, but not the waiting between them (`AgentClock`).

    Tool calls that the model wrote as text are carried out too. Those made in the last turn are not, because no turn is
    left to read their results; neither is a call that was cut off at the token limit. A turn that the provider paused
    continues in the next one: both count as turns but form one message in the trace. If the turn after tool results is
    still empty after retries, the trace ends with an empty message.

    Raises `PortError`, whose `partial` is the trace so far, for a failed request, an expired time limit, an overlong
    trace or unusable tools.
    """
    try:
        tools = collect_tools(options)
    except ValueError as error:
        raise PortError(f"{conversation.where}: {error}", category=ErrorCategory.PERMANENT) from None
    work = _Work()
    time = AgentClock(conversation.where, options)
    return await time.limit(_run_turns(conversation, work, time.options, tools), work.reply)


async def _run_turns(
    conversation: Conversation, work: _Work, options: AgentOptions, tools: Mapping[str, Tool]
) -> AgentReply:
    """Run turns until the model answers without a tool call or its last allowed turn is over.

    Raises `PortError` if a request fails, unless it is an empty turn after tool results, which ends the run.
    """
    for number in range(1, options.max_turns + 1):

        async def ask(first: bool = number == 1) -> Turn:
            return _read_written_calls(await conversation.request_turn(tools, first=first), tools)

        try:
            turn = await (options.guard(ask, work.trace) if options.guard is not None else ask())
        except PortError as error:
            ending = empty_ending(error, work.trace)
            if ending is None:
                raise
            work.add(ending)
            return work.reply()
        turn = _with_ids(turn, number)
        conversation.add_turn(turn)
        calls = work.add(turn)
        work.size.add(conversation.where, turn.message)
        if turn.unfinished and not calls:
            continue
        if not calls:
            return work.reply()
        if number < options.max_turns:
            results = []
            for call in calls:
                results.append(await _result(call, turn, tools))
                work.size.add(conversation.where, results[-1])
            conversation.add_results(results)
            work.add_results(results)
    return work.reply(limit_reached=True)


def _read_written_calls(turn: Turn, tools: Mapping[str, Tool]) -> Turn:
    """Return `turn` with any tool calls written in the model's text that the server did not parse.

    They are removed from the text, and the finish reason `stop` becomes `tool_calls`. A turn with calls that the server
    parsed is returned unchanged.
    """
    message = turn.message
    if message.tool_calls or not any(tag in message.content for tag in _TAGS):
        return turn
    parsed = parse_tool_calls(message.content, tools)
    if not parsed.calls:
        return turn
    reason: FinishReason = "tool_calls" if turn.finish_reason == "stop" else turn.finish_reason
    return replace(
        turn, message=replace(message, content=parsed.text, tool_calls=parsed.calls), finish_reason=reason, wire=None
    )


def empty_ending(error: PortError, trace: Sequence[Message]) -> Turn | None:
    """Return the empty turn that ends an agent's run if the turn right after tool results stayed empty, otherwise None.

    The stages decide whether the run has an answer, which may be in the workspace.
    """
    if error.category is not ErrorCategory.EMPTY or not trace or trace[-1].role != "tool":
        return None
    return Turn(Message("assistant", notes=(str(error),)), error.usage)


async def _result(call: ToolCall, turn: Turn, tools: Mapping[str, Tool]) -> Message:
    """Return the tool message that answers `call`.

    The last call of a turn that was cut off is not run, because its arguments may be incomplete; the message is an
    error instead.
    """
    if turn.finish_reason == "length" and call.id == turn.message.tool_calls[-1].id:
        return Message.tool(CUT_OFF, call, is_error=True)
    return await run_tool(call, tools)


class AgentClock:
    """The clock of one agent run. `where` names the model and its server in error messages.

    `options` are the options of the run, with a guard that stops the clock while a request waits: for a free slot, for
    the end of a backoff, or for the journal. The length of these waits depends on the other items in the run and must
    not make an agent fail.
    """

    def __init__(self, where: str, options: AgentOptions) -> None:
        guard = options.guard
        self.options = options if guard is None else replace(options, guard=self._exclude_waiting(guard))
        self._where = where
        self._clock: asyncio.Timeout | None = None
        self._left: float | None = None

    async def limit(self, run: Awaitable[AgentReply], so_far: Callable[[], AgentReply]) -> AgentReply:
        """Return the result of `run`. Raises `PortError` of category `timeout` if the time runs out first.

        The `partial` of any `PortError` from `run` is set to the result of `so_far`, the reply so far.
        """
        seconds, setting = self.options.timeout, self.options.timeout_setting
        clock = self._clock = asyncio.timeout(seconds)
        try:
            async with clock:
                return await run
        except TimeoutError:
            if not clock.expired():
                raise
            done = so_far()
            raise PortError(
                f"{self._where}: the agent did not finish within {seconds:g} s ({done.usage.calls} turns); raise "
                f"{setting}, which counts only requests and tool calls",
                category=ErrorCategory.TIMEOUT,
                partial=done,
            ) from None
        except PortError as error:
            error.partial = so_far()
            raise
        finally:
            self._clock = None  # a request may be cancelled later

    def _exclude_waiting(self, guard: TurnGuard) -> TurnGuard:
        """Wrap `guard` so that the clock runs only while the model is being asked, not while the guard waits."""

        async def guard_without_clock(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            """Call `guard` with the clock stopped; the clock runs only while `ask` is awaited."""
            self._stop()
            try:
                return await guard(lambda: self._with_clock(ask), trace)
            finally:
                self._resume()

        return guard_without_clock

    async def _with_clock(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        """Await `ask` with the clock running and stop the clock afterwards."""
        self._resume()
        try:
            return await ask()
        finally:
            self._stop()

    def _stop(self) -> None:
        """Stop the clock, keeping the time left. Do nothing if there is no time limit or the time has run out."""
        clock = self._clock
        if clock is not None and not clock.expired() and (end := clock.when()) is not None:
            self._left = end - asyncio.get_running_loop().time()
            clock.reschedule(None)

    def _resume(self) -> None:
        """Resume a stopped clock with the time that was left. Do nothing if the clock is not stopped."""
        clock = self._clock
        if clock is not None and not clock.expired() and self._left is not None:
            clock.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = None


@dataclass(slots=True)
class TraceSize:
    """The total size of the messages in one agent run so far."""

    characters: int = 0

    def add(self, where: str, message: Message) -> None:
        """Count a message's content, reasoning and tool calls. `where` names the model and its server in the error
        message.

        Raises `PortError` of category `permanent` if the run exceeds `MOST_OF_A_TRACE`.
        """
        calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
        self.characters += measure_size([message.content, message.reasoning, calls])
        if self.characters > MOST_OF_A_TRACE:
            raise PortError(
                f"{where}: the agent's conversation exceeded {MOST_OF_A_TRACE} characters and was stopped",
                category=ErrorCategory.PERMANENT,
            )


@dataclass(slots=True)
class _Work:
    """The agent's trace and usage so far."""

    trace: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "other"
    model: str | None = None
    server_reason: str | None = None
    paused: bool = False
    size: TraceSize = field(default_factory=TraceSize)

    def add(self, turn: Turn) -> tuple[ToolCall, ...]:
        """Add a turn and return its tool calls. A turn that continues a paused one is merged with it."""
        if self.paused:
            self.trace[-1] = _join(self.trace[-1], turn.message)
        else:
            self.trace.append(turn.message)
        self.paused = turn.unfinished and not turn.message.tool_calls
        self.usage += turn.usage
        self.finish_reason = turn.finish_reason
        self.server_reason = turn.server_reason
        self.model = turn.model or self.model
        return turn.message.tool_calls

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the results of tool calls."""
        self.trace += results

    def reply(self, *, limit_reached: bool = False) -> AgentReply:
        """Return the reply made up of all turns so far. `limit_reached` says whether the turn limit ended the run."""
        return AgentReply(
            tuple(self.trace), self.usage, limit_reached, self.finish_reason, self.model, self.server_reason
        )


def _join(before: Message, after: Message) -> Message:
    """Join a paused turn and the turn that continues it into one message, with the role and ids of `before`."""
    thoughts = [thought for thought in (before.reasoning, after.reasoning) if thought]
    return replace(
        before,
        content=before.content + after.content,
        tool_calls=(*before.tool_calls, *after.tool_calls),
        reasoning="\n".join(thoughts) or None,
        notes=(*before.notes, *after.notes),
    )


def _with_ids(turn: Turn, number: int) -> Turn:
    """Return the turn with an id for each call that has none, because results are matched to calls by id.

    The new ids contain `number`, the turn's number in the run, which makes them unique.
    """
    if all(call.id for call in turn.message.tool_calls):
        return turn
    calls = tuple(
        call if call.id else replace(call, id=f"call_{number}_{place}")
        for place, call in enumerate(turn.message.tool_calls, 1)
    )
    return replace(turn, message=replace(turn.message, tool_calls=calls), wire=None)
