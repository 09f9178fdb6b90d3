"""Servers on loopback for the tests of the LangChain adapter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_servers import Scripted
from repeated_contracts import THROUGH_AGENTS_TOO, leave_to_release

from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port

REPEATED = {
    *("TestOpenAILLM", "TestOpenAIParserByTool", "TestOpenAIAgent"),
    *("TestEndpointParser", "TestClaudeParser", "TestClaudeParserByTool", "TestClaudeParserByPrompt"),
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
    "SSL_CERT_FILE",
)


@pytest.fixture(scope="session")
def no_authorities(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("no_authorities"))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, no_authorities: str) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", no_authorities)  # each new client would read all authorities of the system


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as scripted:
        yield scripted


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what other classes show of the same wire format."""
    here = Path(__file__).parent
    leave_to_release(items, here, REPEATED)
    leave_to_release(items, here, {"TestEndpointAgent", "TestClaudeAgent"}, but=THROUGH_AGENTS_TOO)
