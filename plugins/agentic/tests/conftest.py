"""The fixture that several modules of tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace that an answering agent left, in a workspace root of its own."""
    folder = tmp_path / "root/task_run"
    folder.mkdir(parents=True)
    (folder / "code.txt").write_text("42")
    return folder
