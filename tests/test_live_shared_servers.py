"""The contract of live endpoints, for each adapter that speaks HTTP, against the shared servers.

The servers know no limit of tokens, so what holds of one is left to the contracts with a script, which see to it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from servers import SHARED_SERVERS, played_server

from karenina_core.models.model import ModelConfig
from karenina_testing.contracts import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract


@pytest.fixture(scope="module")
def openai_url() -> Iterator[str]:
    if not SHARED_SERVERS.is_dir():
        pytest.skip("the shared servers are not beside this checkout")
    command = [sys.executable, str(SHARED_SERVERS / "fake_openai.py"), "--port", "0", "--latency-ms", "400"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        where = urlsplit(url)
        for _ in range(1200):  # it prints its address a moment before it listens
            with closing(socket.socket()) as tried:
                if tried.connect_ex((where.hostname, where.port)) == 0:
                    break
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def claude_url() -> Iterator[str]:
    with played_server("live_claude_server.py", SHARED_SERVERS) as url:
        yield url


class Shared(LiveContract):
    """The common part of the adapters in this module."""

    moment = 0.05
    provider: ClassVar[str | None] = None
    test_the_token_limit_is_enforced_and_reported = None  # the servers know none

    @pytest.fixture(autouse=True)
    def _server(self, request: pytest.FixtureRequest) -> None:
        self.url: str = request.getfixturevalue(self.server)

    server: ClassVar[str] = "openai_url"

    def live(self, **fields: Any) -> ModelConfig:
        """Return the server's only model."""
        values = {"endpoint_base_url": self.url, "endpoint_api_key": "sk-live-4711", "model_provider": self.provider}
        return ModelConfig(id="live", interface=self.interface, model_name="claude-haiku-4-5", **{**values, **fields})


ADAPTERS = {
    "openai": {"entry_point": "karenina_openai:plugin"},
    "openai_endpoint": {"entry_point": "karenina_langchain:plugin"},
    "langchain": {"entry_point": "karenina_langchain:plugin", "server": "claude_url", "provider": "anthropic"},
    "claude_tool": {"entry_point": "karenina_claude_tool:plugin", "server": "claude_url"},
}
"""What tells the adapters apart, by interface."""
LEFT_TO_RELEASE = ("openai_endpoint", "langchain")
"""Adapters of a member whose own tests hold the contract; two others show it with each of the servers."""


class EachAdapter(Shared):
    """Each of `ADAPTERS` in turn."""

    @pytest.fixture(
        autouse=True,
        params=[pytest.param(name, marks=[pytest.mark.release] * (name in LEFT_TO_RELEASE)) for name in ADAPTERS],
    )
    def _server(self, request: pytest.FixtureRequest) -> None:
        vars(self).update(ADAPTERS[request.param], interface=request.param)
        self.url = request.getfixturevalue(self.server)


class TestLLM(EachAdapter, LiveLLMContract):
    pass


class TestParser(EachAdapter, LiveParserContract):
    pass


class TestAgent(EachAdapter, LiveAgentContract):
    pass


class TestClaudeCLI(Shared, LiveAgentContract):
    """The CLI takes a second or two for each run, so only the port that is its own is here."""

    entry_point = "karenina_claude_agent_sdk:plugin"
    interface = "claude_agent_sdk"
    server = "claude_url"
    moment = 0.3
