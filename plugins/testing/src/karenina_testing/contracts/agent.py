"""The contract for every agent port."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from karenina_core.models.ports import AgentOptions, ErrorCategory, Message, PortError, ToolCall
from karenina_testing.contracts.calls import CallContract
from karenina_testing.server import Reply, Request, faults

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentPort, AgentReply, Turn

ASK: Final = (Message.system("Look before you speak."), Message.user("What does the note say?"))
NOTE: Final = "The code is 4711."


class _Gone:
    """A tool whose server is no longer available."""

    name = "remote"
    description = "Asks a server."
    schema: Final = {"type": "object", "properties": {}}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Raise `PortError`, as if the connection to the server were lost."""
        raise PortError("the server is gone", category=ErrorCategory.CONNECTION)


class AgentContract(CallContract):
    """The contract for agent ports, with conversations that use the workspace tools. Mix in a `WireFormat`."""

    @pytest.fixture(autouse=True)
    def _workspace(self, tmp_path: Path) -> None:
        """Create a workspace with a note for the agent to read."""
        self.workspace = tmp_path
        (tmp_path / "note.txt").write_text(NOTE, "utf-8")

    port_name = "agent"

    def call(self, port: AgentPort) -> Coroutine[Any, Any, AgentReply]:
        """Ask a question that requires no tool."""
        return self._run(port)

    def good(self) -> Callable[[Request], Reply]:
        """Return a reply without a tool call."""
        return lambda _: self.saying("It is 4711.")

    async def _run(self, port: AgentPort, **options: Any) -> AgentReply:
        """Ask the agent a question in the workspace. `options` are fields of `AgentOptions`."""
        return await port.run(ASK, AgentOptions(workspace=self.workspace, **options))

    def run(self, url: str, **options: Any) -> AgentReply:
        """Run a new agent with the server at `url`."""
        return self.using(lambda port: self._run(port, **options), url)

    def reads(self, name: str, id: str) -> ToolCall:
        """Return a tool call that reads a file in the workspace."""
        return self.reading(self.workspace / name, id)

    def test_an_answer_without_tools_is_a_trace_of_one_message(self) -> None:
        with self.server(self.good()) as server:
            reply = self.run(server.url)
        assert reply.trace == (Message.assistant("It is 4711."),)
        assert (reply.limit_reached, reply.finish_reason) == (False, "stop")

    def test_the_tools_are_offered_to_the_model(self) -> None:
        with self.server(self.good()) as server:
            self.run(server.url)
            assert f'"{self.reads("note.txt", "call_1").name}"' in server.requests[0].text

    def test_the_result_of_a_tool_goes_back_to_the_model(self) -> None:
        call = self.reads("note.txt", "call_1")
        with self.server(self.saying("I look.", call), self.saying("It is 4711.")) as server:
            reply = self.run(server.url)
            sent = self.read(server.requests[-1])
        asked, result, answer = reply.trace
        assert (asked, answer) == (Message.assistant("I look.", [call]), Message.assistant("It is 4711."))
        assert (result.role, result.tool_call_id, result.tool_name, result.is_error) == (
            "tool",
            call.id,
            call.name,
            False,
        )
        assert NOTE in result.content
        assert [message.role for message in sent] == ["system", "user", "assistant", "tool"]
        assert sent[2].tool_calls == (call,)
        assert (sent[3].tool_call_id, NOTE in sent[3].content) == (call.id, True)

    def test_usage_is_the_sum_of_all_turns(self) -> None:
        with self.server(self.saying("", self.reads("note.txt", "call_1")), self.saying("It is 4711.")) as server:
            assert self.run(server.url).usage == self.usage + self.usage

    def test_a_tool_failure_is_in_the_trace_and_ends_nothing(self) -> None:
        calls = self.reads("absent.txt", "call_1"), self.reads("note.txt", "call_2")
        with self.server(self.saying("", *calls), self.saying("It is 4711.")) as server:
            reply = self.run(server.url)
        assert [message.role for message in reply.trace] == ["assistant", "tool", "tool", "assistant"]
        results = {message.tool_call_id: message for message in reply.trace[1:3]}
        assert {id: message.is_error for id, message in results.items()} == {"call_1": True, "call_2": False}
        assert results["call_1"].content
        assert reply.trace[-1].content == "It is 4711."

    def test_a_call_of_an_unknown_tool_is_in_the_trace(self) -> None:
        unknown = ToolCall("call_1", "launch_rocket", {"to": "the moon"})
        with self.server(self.saying("", unknown), self.saying("There is none.")) as server:
            reply = self.run(server.url)
        assert [(message.role, message.is_error) for message in reply.trace] == [
            ("assistant", False),
            ("tool", True),
            ("assistant", False),
        ]

    def test_a_lost_tool_ends_the_run_and_keeps_the_trace(self) -> None:
        def calling(request: Request) -> Reply:
            offered = re.search(r'"(\w*remote)"', request.text)
            assert offered is not None, "the tool was not offered to the model"
            return self.saying("I ask.", ToolCall("call_1", offered[1], {}))

        with self.server(calling, self.saying("It is gone.")) as server:
            error = self.stopped(server.url, tools=(_Gone(),))
            assert len(server.requests) == 1
        assert (str(error), error.category) == ("the server is gone", ErrorCategory.CONNECTION)
        assert error.partial is not None
        assert [message.role for message in error.partial.trace] == ["assistant"]

    @pytest.mark.parametrize("most", [1, 2, 4])
    def test_the_turn_limit_is_exact_and_keeps_the_trace(self, most: int) -> None:
        with self.server(*(self.saying("", self.reads("note.txt", f"call_{turn}")) for turn in range(6))) as server:
            reply = self.run(server.url, max_turns=most)
            assert len(server.requests) == most
        assert reply.limit_reached
        assert [message.role for message in reply.trace] == ["assistant", "tool"] * (most - 1) + ["assistant"]
        assert reply.trace[-1].tool_calls == (self.reads("note.txt", f"call_{most - 1}"),)

    def test_an_answer_in_the_last_turn_is_within_the_limit(self) -> None:
        with self.server(self.saying("", self.reads("note.txt", "call_1")), self.saying("It is 4711.")) as server:
            reply = self.run(server.url, max_turns=2)
        assert (reply.limit_reached, reply.trace[-1].content) == (False, "It is 4711.")

    def stopped(self, url: str, **options: Any) -> PortError:
        """Run an agent that must fail, and return its error."""
        with pytest.raises(PortError) as caught:
            self.run(url, **options)
        return caught.value

    def _stopped_in_the_second_turn(self, call: ToolCall) -> PortError:
        """Return the agent's error when the server answers with `call` in the first turn and hangs in the second. If
        the time limit is reached in the first turn, as on a busy machine, the run is repeated with a longer limit.
        """
        seconds = self.agent_seconds
        while True:
            with self.server(self.saying("", call), faults.hang) as server:
                error = self.stopped(server.url, timeout=seconds)
                assert server.all_closed()
            if len(server.requests) > 1 or seconds > 10 * self.agent_seconds:
                return error
            seconds *= 4

    def test_a_time_out_keeps_the_trace_and_leaves_nothing_behind(self) -> None:
        call = self.reads("note.txt", "call_1")
        error = self._stopped_in_the_second_turn(call)
        assert (error.category, error.retriable) == (ErrorCategory.TIMEOUT, False)
        assert error.partial is not None
        assert [message.role for message in error.partial.trace] == ["assistant", "tool"]
        assert error.partial.trace[0].tool_calls == (call,)

    @pytest.mark.parametrize(("status", "category"), [(401, ErrorCategory.PERMANENT), (500, ErrorCategory.SERVER)])
    def test_a_failure_keeps_the_trace_and_the_usage(self, status: int, category: ErrorCategory) -> None:
        with self.server(self.saying("", self.reads("note.txt", "call_1")), self.failing(status)) as server:
            error = self.stopped(server.url)
        assert (error.category, error.status) == (category, status)
        assert error.partial is not None
        assert [message.role for message in error.partial.trace] == ["assistant", "tool"]
        assert error.partial.usage == self.usage

    def test_waiting_for_a_guarded_request_is_not_counted(self) -> None:
        """The time that a request waits in its guard is not counted. Skipped for ports without `guards_calls`."""
        seconds = 4 * self.agent_seconds

        async def queued(ask: Callable[[], Awaitable[Turn]], _: Sequence[Message]) -> Turn:
            await asyncio.sleep(seconds + 0.5)
            return await ask()

        with self.server(self.good()) as server:
            if not getattr(self.make(self.model(server.url)), "guards_calls", False):
                pytest.skip("the port does not guard its requests itself (guards_calls is not set)")
            assert self.run(server.url, guard=queued, timeout=seconds).trace[-1].content == "It is 4711."

    def test_a_guarded_request_is_repeated_alone(self) -> None:
        """A guard that repeats a failed request repeats only this one. Skipped for ports without `guards_calls`."""

        async def stubborn(ask: Callable[[], Awaitable[Turn]], _: Sequence[Message]) -> Turn:
            for _try in range(3):
                try:
                    return await ask()
                except PortError:
                    await asyncio.sleep(0)
            return await ask()

        call = self.reads("note.txt", "call_1")
        script = self.saying("", call), self.failing(500), self.failing(500), self.saying("It is 4711.")
        with self.server(*script) as server:
            if not getattr(self.make(self.model(server.url)), "guards_calls", False):
                pytest.skip("the port does not guard its requests itself (guards_calls is not set)")
            reply = self.run(server.url, guard=stubborn)
            assert len(server.requests) == 4
        assert [message.role for message in reply.trace] == ["assistant", "tool", "assistant"]
        assert reply.usage == self.usage + self.usage
