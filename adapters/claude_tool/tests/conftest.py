"""Servers on loopback for the tests of the `claude_tool` interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_servers import Scripted

from karenina_testing.contracts.scripted_server import run_server
from karenina_testing.fixtures import anyio_backend as anyio_backend
from karenina_testing.fixtures import open_port as open_port


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path_factory.mktemp("no_profiles")))


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    with run_server(scripted):
        yield scripted


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "note.txt").write_text("The code is 4711.\n")
    return tmp_path
