"""Servers on loopback for the tests of the LangChain adapter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_servers import Scripted

from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port

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
