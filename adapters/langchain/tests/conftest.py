"""Servers on loopback for the tests of the LangChain adapter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_servers import Scripted
from repeated_contracts import leave_to_release

from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port

REPEATED = {
    *("TestOpenAILLM", "TestOpenAIParserByTool", "TestOpenAIAgent"),
    *("TestClaudeParserByTool", "TestClaudeParserByPrompt"),
}
VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_CUSTOM_HEADERS",
    "OPENROUTER_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_AUTH_TOKEN",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING_V2",
)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as scripted:
        yield scripted


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what other classes show of the same wire format."""
    leave_to_release(items, Path(__file__).parent, REPEATED)
