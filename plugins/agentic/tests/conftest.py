"""The fixture that several modules of tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import write_files


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace that an answering agent left, in a workspace root of its own."""
    return write_files(tmp_path / "root/task_run", {"code.txt": "42"})
