"""Fixtures for the tests of all members: a separate state folder, so that no test writes to the user's."""

from __future__ import annotations

import os
import tempfile

import pytest

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the state folder, also for the commands that tests start."""
    folder = config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="karenina-tests-state-")
    os.environ["XDG_STATE_HOME"] = folder.name
    os.environ.pop("KARENINA_STATE_HOME", None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the state folder."""
    config.stash[_FOLDER].cleanup()
