"""Servers on loopback for the tests of the `claude_tool` interface."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from repeated_contracts import THROUGH_AGENTS_TOO, leave_to_release

from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port
from karenina_testing.fixtures import scripted_server as scripted_server
from karenina_testing.server import ScriptedServer


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path_factory.mktemp("no_profiles")))


@pytest.fixture
def server(scripted_server: ScriptedServer) -> ScriptedServer:
    return scripted_server


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "note.txt").write_text("The code is 4711.\n")
    return tmp_path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what other classes show of the same wire format."""
    here = Path(__file__).parent
    leave_to_release(items, here, {"TestParser", "TestParserWithoutNativeSchemas", "TestParserByPrompt"})
    leave_to_release(items, here, {"TestAgent"}, but=THROUGH_AGENTS_TOO)
