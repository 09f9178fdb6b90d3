"""Adapters with one flaw each, for the tests of the contract kit; they need the package `teletype`."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import subprocess
from typing import Any

from teletype.ports import Teletype

from karenina_core.models.ports import AgentReply, ErrorCategory, Message, PortError, Usage
from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract, WireFormat
from karenina_testing.contracts import calls as calls_module
from karenina_testing.server import scripted as server_module

# What never comes need not be waited for long here.
calls_module.WAIT = server_module.WAIT = 0.5

KEPT: list[Any] = []


class Typed(WireFormat):
    entry_point = "teletype:plugin"
    interface = "teletype.line"
    usage = Usage(input_tokens=11, output_tokens=7, calls=1)
    finish_reasons = ("stop",)
    flawed: type[Teletype] = Teletype

    def reply(self, said: Message, usage: Usage, finish_reason: str) -> Any:
        return {"line": said.to_dict(), "read": usage.input_tokens, "typed": usage.output_tokens}

    def read(self, request: Any) -> list[Message]:
        return [Message.from_dict(line) for line in request.body[-1]]

    def make(self, model: Any) -> Any:
        return self.flawed(model)


class TestRetries(Typed, LLMContract):
    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            try:
                return await super()._typed(messages)
            except PortError:
                return await super()._typed(messages)


class TestForgetful(Typed, LLMContract):
    class flawed(Teletype):
        async def invoke(self, messages: Any, *, info: Any) -> Any:
            return await super().invoke([said for said in messages if said.role != "system"])


class TestTalkative(Typed, LLMContract):
    class flawed(Teletype):
        async def invoke(self, messages: Any, *, info: Any) -> Any:
            return await super().invoke([*messages, Message.user(info.question_id)])


class TestCareless(Typed, LLMContract):
    """Shows its key in logs, and in the cause of an error."""

    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            logging.getLogger("teletype").debug("typing with %s", self._key)
            try:
                return await super()._typed(messages)
            except PortError as error:
                raise error from ValueError(self._key)


class TestObedient(Typed, LLMContract):
    """Follows a redirection, with its key."""

    class flawed(Teletype):
        async def _exchange(self, body: bytes) -> Any:
            status, headers, raw = await super()._exchange(body)
            if status // 100 == 3:
                self._model = self._model.model_copy(update={"endpoint_base_url": headers["location"]})
                return await super()._exchange(body)
            return status, headers, raw


class TestGreedy(Typed, LLMContract):
    """Decompresses whatever comes."""

    class flawed(Teletype):
        async def _exchange(self, body: bytes) -> Any:
            status, headers, raw = await super()._exchange(body)
            packed = headers.get("content-encoding") == "gzip"
            return status, headers, gzip.decompress(raw) if packed else raw


class TestKeyless(Typed, LLMContract):
    """Sends a header for a key that it does not have."""

    class flawed(Teletype):
        async def _exchange(self, body: bytes) -> Any:
            self._key = self._key or " "
            return await super()._exchange(body)


class TestMuddled(Typed, LLMContract):
    """Every failure is one of the connection, and no time to wait is kept."""

    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            try:
                return await super()._typed(messages)
            except PortError as error:
                raise PortError(str(error), category=ErrorCategory.CONNECTION) from None


class TestMiserly(Typed, LLMContract):
    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            said, _ = await super()._typed(messages)
            return said.__class__.assistant(said.content.strip()), Usage(calls=1)


class TestOneAtATime(Typed, LLMContract):
    class flawed(Teletype):
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self._lock = asyncio.Lock()

        async def _typed(self, messages: Any) -> Any:
            async with self._lock:
                return await super()._typed(messages)


class TestStubborn(Typed, LLMContract):
    """Takes a cancellation for a failure of the connection."""

    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            try:
                return await super()._typed(messages)
            except asyncio.CancelledError:
                raise PortError("cancelled", category=ErrorCategory.CONNECTION) from None


class TestUntidy(Typed, LLMContract):
    """Leaves a task behind, which goes on to talk to the server."""

    class flawed(Teletype):
        async def _typed(self, messages: Any) -> Any:
            task = asyncio.ensure_future(super()._typed(messages))
            KEPT.append(task)
            return await asyncio.shield(task)


class TestHoldingOn(Typed, LLMContract):
    """Leaves a connection open."""

    class flawed(Teletype):
        async def _exchange(self, body: bytes) -> Any:
            host, _, port = (self._model.endpoint_base_url or "").removeprefix("http://").partition(":")
            KEPT.append(await asyncio.open_connection(host, int(port.partition("/")[0])))
            return await super()._exchange(body)


class TestBreeding(Typed, LLMContract):
    """Leaves a process behind."""

    class flawed(Teletype):
        async def aclose(self) -> None:
            KEPT.append(subprocess.Popen(["sleep", "3"]))  # noqa: ASYNC220 - it does not wait


class TestClosedOnce(Typed, LLMContract):
    class flawed(Teletype):
        closed = False

        async def aclose(self) -> None:
            if self.closed:
                raise RuntimeError("closed already")
            self.closed = True


class TestBlind(Typed, ParserContract):
    class flawed(Teletype):
        async def parse(self, messages: Any, schema: Any, **options: Any) -> Any:
            return await super().parse(messages, {"type": "object"})


class TestJudging(Typed, ParserContract):
    """Decides itself whether a reply fits."""

    class flawed(Teletype):
        async def parse(self, messages: Any, schema: Any, **options: Any) -> Any:
            reply = await super().parse(messages, schema)
            try:
                if set(json.loads(reply.text)) != set(schema["properties"]):
                    raise ValueError("it does not fit")
            except ValueError as error:
                raise PortError(str(error), category=ErrorCategory.SERVER) from None
            return reply


class TestFragile(Typed, AgentContract):
    """A tool that fails ends the agent."""

    class flawed(Teletype):
        async def run(self, messages: Any, options: Any, **more: Any) -> Any:
            reply = await super().run(messages, options)
            for message in reply.trace:
                if message.is_error:
                    raise RuntimeError(message.content)
            return reply


class TestLosing(Typed, AgentContract):
    """Loses what was done where it does not end well."""

    class flawed(Teletype):
        async def run(self, messages: Any, options: Any, **more: Any) -> Any:
            try:
                reply = await super().run(messages, options)
            except PortError as error:
                error.partial = None
                raise
            return AgentReply(reply.trace[-1:], reply.usage) if reply.limit_reached else reply


class TestMute(Typed, AgentContract):
    """Does not tell the model what its tools said."""

    class flawed(Teletype):
        async def _typed(self, messages: Any, *tools: Any) -> Any:
            return await super()._typed([said for said in messages if said.role != "tool"], *tools)


class TestHiding(Typed, AgentContract):
    """Does not tell the model that there are tools."""

    class flawed(Teletype):
        async def _typed(self, messages: Any, *_: Any) -> Any:
            return await super()._typed(messages)


class TestHeavy(Typed, AdapterContract):
    """Loads an HTTP client with its entry point; is not installed; and takes any setting."""

    entry_point = "heavy:plugin"


class TestEager(Typed, AdapterContract):
    """Looks for its server, and shows its key, when it is made."""

    def ports(self, url: str) -> Any:
        from urllib.error import URLError
        from urllib.request import urlopen

        class Eager(Teletype):
            def __repr__(self) -> str:
                return f"Eager({self._key})"

        with contextlib.suppress(URLError):
            urlopen(url, timeout=5).close()
        return [Eager(self.model(url))]
