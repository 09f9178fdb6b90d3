"""The tool loop, which runs an agent turn by turn.

An adapter implements a `Conversation`, which sends requests in its provider's message format. `run_tool_loop` does the
rest: turns, tools and limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
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
"""The maximum total number of characters and values in the messages of an agent run.

No model can read more than this, and every turn sends all messages again.
"""


class Conversation(Protocol):
    """The conversation of an agent run, in the provider's format."""

    @property
    def where(self) -> str:
        """The model and its server, for use in error messages."""

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Send the conversation so far, without changing it, and return the model's reply. Raises `PortError` if the
        request fails.

        The request may be repeated. `tools` are the same for all requests of a run. `first` is true for the first
        request.
        """

    def add_turn(self, turn: Turn) -> None:
        """Add a turn to the conversation. The turn may come from the journal."""

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the results of all tool calls in the last turn."""


async def run_tool_loop(conversation: Conversation, options: AgentOptions, *, sees: Collection[str] = ()) -> AgentReply:
    """Run an agent until it answers without calling a tool, or until `options.max_turns` turns, which sets
    `limit_reached`, and return its reply. Failed tool calls become results that the model sees, and calls in the last
    turn are not run. Failed requests and an expired time limit raise `PortError`, with the trace so far.

    Each request goes through `options.guard`, so that only a failed request is retried. The time limit covers requests
    and tool calls, but not the time spent waiting for a slot (see `AgentClock`).

    Tool calls that the model wrote as text are run too. Calls in the last turn are not run, because there is no turn
    left in which to read their results. A call that was cut off is not run either. If the provider pauses a turn, the
    next turn continues it, and both become a single message in the trace. If a turn that follows tool results stays
    empty, the trace ends with an empty message.

    `sees` are the media types that the model understands. The files in results of tools that it does not understand are
    only described.

    Raises `PortError` if a request fails, the time limit expires, the trace becomes too long or the tools cannot be
    used. The error's `partial` is the trace so far.
    """
    try:
        tools = collect_tools(options)
    except ValueError as error:
        raise PortError(f"{conversation.where}: {error}", category=ErrorCategory.PERMANENT) from None
    work = _Work()
    time = AgentClock(conversation.where, options)
    return await time.limit(_run_turns(conversation, work, time.options, tools, sees), work.reply)


async def _run_turns(
    conversation: Conversation, work: _Work, options: AgentOptions, tools: Mapping[str, Tool], sees: Collection[str]
) -> AgentReply:
    """Run turns until the model answers without calling a tool or has no turns left, which sets `limit_reached`, and
    return the agent's reply. Raises `PortError` if a request fails. However, an empty turn that follows tool results
    just ends the run.
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
                results.append(await _result(call, turn, tools, sees))
                work.size.add(conversation.where, results[-1])
            conversation.add_results(results)
            work.add_results(results)
    return work.reply(limit_reached=True)


def _read_written_calls(turn: Turn, tools: Mapping[str, Tool]) -> Turn:
    """Convert tool calls that the model wrote as text to actual tool calls of the turn, and a finish reason of `stop`
    to `tool_calls`. Without any, or if the server has already parsed tool calls, the turn is returned unchanged.
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
    """Return an empty turn, which ends the run, if `error` means that the model's turn after tool results was empty.
    Otherwise, return None.

    Stages decide whether there is an answer, because it may be in the workspace.
    """
    if error.category is not ErrorCategory.EMPTY or not trace or trace[-1].role != "tool":
        return None
    return Turn(Message("assistant", notes=(str(error),)), error.usage)


async def _result(call: ToolCall, turn: Turn, tools: Mapping[str, Tool], sees: Collection[str]) -> Message:
    """Run a tool call, and return the tool message. If the turn was cut off, its last call may be incomplete. In that
    case, the message contains an error.
    """
    if turn.finish_reason == "length" and call.id == turn.message.tool_calls[-1].id:
        return Message.tool(CUT_OFF, call, is_error=True)
    return await run_tool(call, tools, sees)


class AgentClock:
    """A clock for the time limit of an agent run.

    Error messages refer to the model and its server as `where`. The guard in `options` stops the clock while a request
    waits for a slot, a retry or the journal. These waits depend on other items and must not make an agent fail.
    """

    def __init__(self, where: str, options: AgentOptions) -> None:
        guard = options.guard
        self.options = options if guard is None else replace(options, guard=self._exclude_waiting(guard))
        self._where = where
        self._clock: asyncio.Timeout | None = None
        self._left: float | None = None

    async def limit(self, run: Awaitable[AgentReply], so_far: Callable[[], AgentReply]) -> AgentReply:
        """Await `run` and return its result. Raises `PortError` with category `timeout` if the time runs out. `so_far`
        returns the reply so far, which becomes the `partial` of any `PortError`.
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
                f"{setting}, which limits the time of requests and tool calls",
                category=ErrorCategory.TIMEOUT,
                partial=done,
            ) from None
        except PortError as error:
            error.partial = so_far()
            raise
        finally:
            self._clock = None  # a request may be cancelled later

    def _exclude_waiting(self, guard: TurnGuard) -> TurnGuard:
        """Return a guard that calls `guard` with the clock stopped, except during requests to the model."""

        async def guard_without_clock(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            """Call `guard` with the clock stopped, except while `ask` runs, and return its result."""
            self._stop()
            try:
                return await guard(lambda: self._with_clock(ask), trace)
            finally:
                self._resume()

        return guard_without_clock

    async def _with_clock(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        self._resume()
        try:
            return await ask()
        finally:
            self._stop()

    def _stop(self) -> None:
        """Stop the clock. Does nothing if there is no time limit or the time has expired."""
        clock = self._clock
        if clock is not None and not clock.expired() and (end := clock.when()) is not None:
            self._left = end - asyncio.get_running_loop().time()
            clock.reschedule(None)

    def _resume(self) -> None:
        clock = self._clock
        if clock is not None and not clock.expired() and self._left is not None:
            clock.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = None


@dataclass(slots=True)
class TraceSize:
    """The total size of the messages in an agent run so far."""

    characters: int = 0

    def add(self, where: str, message: Message) -> None:
        """Add the size of a message's content, reasoning and tool calls. Raises `PortError` with category `permanent`
        if the run exceeds `MOST_OF_A_TRACE`. The error message refers to the model and its server as `where`.
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
        """Add a turn and return its tool calls. If the turn continues a paused one, the two are merged."""
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
        """Return the reply so far. `limit_reached` states whether the run ended because of the turn limit."""
        return AgentReply(
            tuple(self.trace), self.usage, limit_reached, self.finish_reason, self.model, self.server_reason
        )


def _join(before: Message, after: Message) -> Message:
    """Return one message that joins a paused turn with the one that continues it. The role and ids are those of
    `before`.
    """
    thoughts = [thought for thought in (before.reasoning, after.reasoning) if thought]
    return replace(
        before,
        content=before.content + after.content,
        tool_calls=(*before.tool_calls, *after.tool_calls),
        reasoning="\n".join(thoughts) or None,
        notes=(*before.notes, *after.notes),
    )


def _with_ids(turn: Turn, number: int) -> Turn:
    """Return a turn with an id for each call that has none, so that results can be matched to calls. The ids contain
    `number`, the number of the turn, to make them unique.
    """
    if all(call.id for call in turn.message.tool_calls):
        return turn
    calls = tuple(
        call if call.id else replace(call, id=f"call_{number}_{place}")
        for place, call in enumerate(turn.message.tool_calls, 1)
    )
    return replace(turn, message=replace(turn.message, tool_calls=calls), wire=None)
