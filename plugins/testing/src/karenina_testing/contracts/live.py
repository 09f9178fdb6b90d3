"""Contracts for ports that call a real model, whose replies are not known in advance.

You need no `WireFormat`: set `entry_point` and `interface`, and return the model from `live`. A small model is enough.
The parser's model must be able to fill in a schema, but no answer has to be correct. Each test makes a few short calls.
Failing servers are covered by the scripted contracts.
"""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, get_args

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, ErrorCategory, Message, PortError, StructuredMode
from karenina_testing.contracts.calls import PortReply, assert_nothing_left, child_processes
from karenina_testing.contracts.wire_format import PortContract
from karenina_testing.server.scripted import WAIT
from karenina_toolkit.structured.schema_repair import find_mismatches

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentPort, AgentReply, LLMPort, LLMReply, ParserPort, ParserReply

T = TypeVar("T")

CONVERSATION: Final = (
    Message.system("Answer in one short sentence."),
    Message.user("Where is Zürich? Ωmega, 🧬 and “quotes”.\nA second line."),
    Message.assistant("It is in Switzerland."),
    Message.user("And where is Lyon?"),
)
LONG: Final = (Message.user("Tell me a very long story about a river, with all its details."),)
FORM: Final = {
    "type": "object",
    "title": "Place",
    "properties": {
        "city": {"type": "string", "description": "The city that the text names."},
        "is_certain": {"type": "boolean", "description": "Whether the text is certain."},
    },
    "required": ["city", "is_certain"],
    "additionalProperties": False,
}
FILL: Final = (
    Message.system("Fill the form with what the text says. Reply with one JSON object with the keys city, is_certain."),
    Message.user("Text: It was built in Lyon, no doubt."),
)
LOOK: Final = (Message.user("What is the code? It stands in note.txt."),)


class LiveContract(PortContract):
    """The contract that all ports share when they call a real model.

    - `few_tokens`: a token limit that cuts off a long story.
    - `many_tokens`: a token limit that leaves enough time to cancel the call.
    - `short_time`: a `request_timeout`, in seconds, that is too short for a long story.
    - `moment`: the number of seconds after which a running call is cancelled.
    """

    few_tokens: ClassVar[int] = 4
    many_tokens: ClassVar[int] = 400
    short_time: ClassVar[float] = 0.05
    moment: ClassVar[float] = 0.3

    def live(self, **fields: Any) -> ModelConfig:
        """Return the model to call. `fields` add to or replace the model's fields."""
        raise NotImplementedError(f"{type(self).__name__} must define live(), which returns the model to call")

    def secrets(self) -> Sequence[str]:
        """Return the strings that must not appear in any log or repr. The default is the API key.

        This is called while a port is open.
        """
        key = self.live().endpoint_api_key
        return [key.get_secret_value()] if key is not None else []

    def call(self, port: Any) -> Coroutine[Any, Any, PortReply]:
        """Make one short call."""
        raise NotImplementedError

    def long_call(self, port: Any) -> Coroutine[Any, Any, PortReply]:
        """Make one call that runs until it reaches the token limit."""
        raise NotImplementedError

    def using(self, use: Callable[[Any], Coroutine[Any, Any, T]], **fields: Any) -> T:
        """Return what `use` returns for a new port of the model that `live` makes of `fields`. The port is then closed
        twice, and nothing may be left behind.
        """

        async def run() -> T:
            processes, sockets = child_processes(), open_sockets()
            port = self.make(self.live(**fields))
            try:
                return await use(port)
            finally:
                await port.aclose()
                await port.aclose()
                await assert_nothing_left(processes)
                await assert_sockets_closed(sockets)

        return asyncio.run(run())

    def test_a_call_is_answered_and_its_tokens_are_counted(self) -> None:
        reply = self.using(self.call)
        assert reply.usage.calls == 1
        assert min(reply.usage.input_tokens, reply.usage.output_tokens) > 0
        assert reply.finish_reason in ("stop", "length")

    def test_the_token_limit_is_enforced_and_reported(self) -> None:
        reply = self.using(self.long_call, max_tokens=self.few_tokens)
        assert (reply.finish_reason, reply.usage.output_tokens) == ("length", self.few_tokens)

    def test_calls_side_by_side_are_both_answered(self) -> None:
        async def two(port: Any) -> list[PortReply]:
            return list(await asyncio.gather(self.call(port), self.call(port)))

        assert [reply.usage.calls for reply in self.using(two)] == [1, 1]

    def test_a_reply_that_takes_too_long_is_a_time_out(self) -> None:
        async def run(port: Any) -> PortError:
            with pytest.raises(PortError) as caught:
                await self.long_call(port)
            return caught.value

        error = self.using(run, request_timeout=self.short_time, max_tokens=self.many_tokens)
        assert error.category is ErrorCategory.TIMEOUT

    def test_a_cancelled_call_ends_and_the_port_stays_usable(self) -> None:
        async def cancel(port: Any) -> PortReply:
            await self.call(port)  # everything that the first call starts is running
            under_way = asyncio.create_task(self.long_call(port))
            await asyncio.wait([under_way], timeout=self.moment)
            assert not under_way.done(), "the call ended before it could be cancelled; increase `many_tokens`"
            under_way.cancel()
            done, _ = await asyncio.wait([under_way], timeout=WAIT)
            assert done, "the call continued after it was cancelled"
            assert under_way.cancelled(), (
                f"the call ended without being cancelled; its exception is {under_way.exception()!r}"
            )
            return await self.call(port)

        assert self.using(cancel, max_tokens=self.many_tokens).usage.calls == 1

    def test_no_secret_is_in_a_log_or_a_repr(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        secrets: list[str] = []

        async def show(port: Any) -> str:
            reply = await self.call(port)
            secrets.extend(self.secrets())
            return f"{port!r} {port} {reply!r} {self.live()!r}"

        places = {"repr": self.using(show), "log": caplog.text}
        assert [place for place, text in places.items() if any(secret in text for secret in secrets)] == []


class LiveLLMContract(LiveContract):
    """The contract for LLM ports that call a real model."""

    port_name = "llm"

    def call(self, port: LLMPort) -> Coroutine[Any, Any, LLMReply]:
        """Continue a short conversation."""
        return port.invoke(CONVERSATION)

    def long_call(self, port: LLMPort) -> Coroutine[Any, Any, LLMReply]:
        """Ask for a long story."""
        return port.invoke(LONG)

    def test_a_conversation_with_messages_both_ways_is_answered_in_words(self) -> None:
        reply: LLMReply = self.using(self.call)
        assert reply.text.strip()


class LiveParserContract(LiveContract):
    """The contract for parser ports that call a real model. The model must be able to fill in a schema."""

    port_name = "parser"

    def call(self, port: ParserPort) -> Coroutine[Any, Any, ParserReply]:
        """Request a short JSON object."""
        return port.parse(FILL, FORM)

    def long_call(self, port: ParserPort) -> Coroutine[Any, Any, ParserReply]:
        """Request a JSON object that is too long for the token limit."""
        steps = {"type": "array", "items": {"type": "string", "minLength": 150}, "minItems": 15}
        schema = {"type": "object", "title": "Story", "properties": {"steps": steps}, "required": ["steps"]}
        return port.parse([*LONG, Message.user("Write it as JSON, as a list of 15 steps under the key steps.")], schema)

    def test_the_reply_fits_the_schema(self) -> None:
        reply: ParserReply = self.using(self.call)
        assert find_mismatches(json.loads(reply.text), FORM) == []
        assert reply.mode in get_args(StructuredMode)


class LiveAgentContract(LiveContract):
    """The contract for agent ports that call a real model. The model need not use the tools."""

    @pytest.fixture(autouse=True)
    def _workspace(self, tmp_path: Path) -> None:
        """Create a workspace with a note for the agent to read."""
        self.workspace = tmp_path
        (tmp_path / "note.txt").write_text("The code is 4711.", "utf-8")

    port_name = "agent"

    def call(self, port: AgentPort) -> Coroutine[Any, Any, AgentReply]:
        """Continue a short conversation, without tools."""
        return port.run(CONVERSATION, AgentOptions(max_turns=1))

    def long_call(self, port: AgentPort) -> Coroutine[Any, Any, AgentReply]:
        """Ask for a long story, without tools."""
        return port.run(LONG, AgentOptions(max_turns=1))

    def test_without_tools_the_answer_is_a_trace_of_one_message(self) -> None:
        reply: AgentReply = self.using(self.call)
        assert [(message.role, message.tool_calls) for message in reply.trace] == [("assistant", ())]
        assert not reply.limit_reached

    @pytest.mark.parametrize("most", [1, 3])
    def test_every_call_is_answered_and_the_turn_limit_is_exact(self, most: int) -> None:
        options = AgentOptions(max_turns=most, workspace=self.workspace)
        reply: AgentReply = self.using(lambda port: port.run(LOOK, options), max_tokens=80)
        spoken = [message for message in reply.trace if message.role == "assistant"]
        assert reply.trace[-1] is spoken[-1]
        assert len(spoken) == reply.usage.calls <= most
        assert reply.limit_reached is bool(spoken[-1].tool_calls)
        asked = [(call.id, call.name) for message in spoken[:-1] for call in message.tool_calls]
        answered = [(message.tool_call_id, message.tool_name) for message in reply.trace if message.role == "tool"]
        assert answered == asked
        assert len(set(asked)) == len(asked)

    def test_an_agent_that_takes_too_long_is_a_time_out(self) -> None:
        async def run(port: AgentPort) -> PortError:
            await self.call(port)
            with pytest.raises(PortError) as caught:
                await port.run(LONG, AgentOptions(max_turns=1, timeout=self.short_time))
            return caught.value

        error = self.using(run, max_tokens=self.many_tokens)
        assert (error.category, error.retriable) == (ErrorCategory.TIMEOUT, False)
        assert error.partial is not None
        assert error.partial.trace == ()


def open_sockets() -> set[str]:
    """Return this process's open sockets. Outside Linux, the set is always empty."""
    sockets: set[str] = set()
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            target = str(entry.readlink())
        except OSError:  # it was closed
            continue
        if target.startswith("socket:"):
            sockets.add(target)
    return sockets


async def assert_sockets_closed(before: set[str]) -> None:
    """Wait up to `WAIT` seconds until only the sockets in `before` are open, or fail."""
    for _ in range(int(WAIT / 0.05)):
        if not open_sockets() - before:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the port left sockets open: {sorted(open_sockets() - before)}")
