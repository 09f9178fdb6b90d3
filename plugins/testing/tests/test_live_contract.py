"""The contract for real endpoints, with a pretended model: a right port passes, and each flaw is noticed."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    FinishReason,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    Tool,
    ToolCall,
    Turn,
    Usage,
)
from karenina_testing.contracts import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract
from karenina_testing.contracts import calls as calls_module
from karenina_testing.contracts import live as live_module
from karenina_toolkit.agents.tool_loop import run_tool_loop

KEY = "sk-live-4711"
LONG = "story"
READ = ToolCall("call_1", "read_file", {"path": "note.txt"})


class Pretended:
    """A model that writes one token in each millisecond: a short answer, or a story for up to a minute."""

    def __init__(self, model: ModelConfig) -> None:
        self.most = model.max_tokens or 20
        self.seconds = model.request_timeout or 10.0

    async def said(self, messages: Sequence[Message], answer: str) -> Turn:
        wanted = 60_000 if LONG in " ".join(message.content for message in messages) else 3
        written = min(wanted, self.most)
        try:
            async with asyncio.timeout(self.seconds):
                await asyncio.sleep(written / 1000)
        except TimeoutError:
            raise PortError("too long", category=ErrorCategory.TIMEOUT) from None
        reason: FinishReason = "length" if written < wanted else "stop"
        return Turn(Message.assistant(answer), Usage(10, written, calls=1), reason)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        turn = await self.said(messages, "In France.")
        return LLMReply(turn.message.content, turn.usage, turn.finish_reason)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        turn = await self.said(messages, '{"city": "Lyon", "is_certain": true}')
        return ParserReply(turn.message.content, "json_schema", turn.usage, turn.finish_reason)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        return await run_tool_loop(_Talk(self, messages), options)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""


class _Talk:
    """A conversation that reads the note in its first turn, if it can, and answers in the second."""

    where = "pretended"

    def __init__(self, model: Pretended, messages: Sequence[Message]) -> None:
        self.model = model
        self.messages = list(messages)

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        turn = await self.model.said(self.messages, "4711" if not first or not tools else "")
        if turn.message.content:
            return turn
        return Turn(Message.assistant("", [READ]), turn.usage, "tool_calls")

    def add_turn(self, turn: Turn) -> None:
        self.messages.append(turn.message)

    def add_results(self, results: Sequence[Message]) -> None:
        self.messages += results


class Live(LiveContract):
    entry_point = "nobody:plugin"
    interface = "pretended"
    many_tokens = 50_000
    moment = 0.1
    port: ClassVar[type[Pretended]] = Pretended

    def live(self, **fields: Any) -> ModelConfig:
        return ModelConfig(id="live", interface="pretended", model_name="p", **{"endpoint_api_key": KEY, **fields})

    def make(self, model: ModelConfig) -> Any:
        return self.port(model)


class TestLLM(Live, LiveLLMContract):
    pass


class TestParser(Live, LiveParserContract):
    pass


class TestAgent(Live, LiveAgentContract):
    pass


class Uncounted(Pretended):
    async def said(self, messages: Sequence[Message], answer: str) -> Turn:
        return Turn((await super().said(messages, answer)).message)


class Boundless(Pretended):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__(model)
        self.most = 20


class Patient(Pretended):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__(model)
        self.seconds = 10.0


class Stubborn(Pretended):
    async def said(self, messages: Sequence[Message], answer: str) -> Turn:
        try:
            return await super().said(messages, answer)
        except asyncio.CancelledError:
            return Turn(Message.assistant(answer))


class Untidy(Pretended):
    async def said(self, messages: Sequence[Message], answer: str) -> Turn:
        return await asyncio.shield(asyncio.create_task(super().said(messages, answer)))


class Breeding(Pretended):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__(model)
        KEPT.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))


class Connected(Pretended):
    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        KEPT.append(socket.socket())
        return await super().invoke(messages)


class Talkative(Pretended):
    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        logging.getLogger("pretended").debug("asked with %s", KEY)
        return await super().invoke(messages)


class Silent(Pretended):
    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        return replace(await super().invoke(messages), text=" ")


class Loose(Pretended):
    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        return replace(await super().parse(messages, schema), text='{"city": "Lyon"}')


class Generous(Pretended):
    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        return await super().run(messages, replace(options, max_turns=options.max_turns + 1))


class Forgetful(Pretended):
    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        reply = await super().run(messages, options)
        return replace(reply, trace=tuple(message for message in reply.trace if message.role != "tool"))


class Unhurried(Pretended):
    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        return await super().run(messages, replace(options, timeout=None))


KEPT: list[Any] = []
COUNTED = "test_a_call_is_answered_and_its_tokens_are_counted"
CANCELLED = "test_a_cancelled_call_ends_and_the_port_stays_usable"
LATE = "test_a_reply_that_takes_too_long_is_a_time_out"
TURNS = "test_every_call_is_answered_and_the_turn_limit_is_exact"


@pytest.mark.parametrize(
    ("flawed", "contract", "test", "given"),
    [
        (Uncounted, TestLLM, COUNTED, {}),
        (Uncounted, TestParser, COUNTED, {}),
        (Boundless, TestLLM, "test_the_token_limit_is_enforced_and_reported", {}),
        (Patient, TestParser, LATE, {}),
        (Stubborn, TestLLM, CANCELLED, {}),
        (Stubborn, TestAgent, CANCELLED, {}),
        (Untidy, TestLLM, CANCELLED, {}),
        (Breeding, TestLLM, COUNTED, {}),
        (Connected, TestLLM, COUNTED, {}),
        (Talkative, TestLLM, "test_no_secret_is_in_a_log_or_a_repr", {"caplog": None}),
        (Silent, TestLLM, "test_a_conversation_with_messages_both_ways_is_answered_in_words", {}),
        (Loose, TestParser, "test_the_reply_fits_the_schema", {}),
        (Generous, TestAgent, TURNS, {"most": 1}),
        (Forgetful, TestAgent, TURNS, {"most": 3}),
        (Unhurried, TestAgent, "test_an_agent_that_takes_too_long_is_a_time_out", {}),
    ],
)
def test_a_flaw_is_noticed(
    flawed: type[Pretended],
    contract: type[Live],
    test: str,
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    for module in (calls_module, live_module):
        monkeypatch.setattr(module, "WAIT", 0.2)
    tried: Any = type("Tried", (contract,), {"port": flawed, "many_tokens": 600, "workspace": tmp_path})()
    (tmp_path / "note.txt").write_text("The code is 4711.", "utf-8")
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            getattr(tried, test)(**{**given, **({"caplog": caplog} if "caplog" in given else {})})
    finally:
        while KEPT:
            kept = KEPT.pop()
            if isinstance(kept, subprocess.Popen):
                kept.kill()
                kept.wait()
            else:
                kept.close()
