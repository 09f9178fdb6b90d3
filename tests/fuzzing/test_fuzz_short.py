"""Half a second of fuzzing for each kind of input, on the same inputs each time; `run.py` tries others for longer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fuzzing.engine import Fuzzer, environment, fuzz
from fuzzing.kinds import NAMES, get_kind

PATIENCE = 10
"""How much longer an input may take than in a long run: other tests run beside it."""
SECONDS = 0.5
MOST = 60


@pytest.fixture(autouse=True)
def _with_nothing_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = environment(tmp_path)
    for name in set(os.environ) - set(found):
        monkeypatch.delenv(name)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.parametrize("name", NAMES)
def test_no_input_breaks_the_law(name: str, tmp_path: Path) -> None:
    kind = get_kind(name)
    with Fuzzer(kind, tmp_path, patience=PATIENCE) as laboratory:
        for one in kind.regressions:
            laboratory.try_one(one)
        report = fuzz(laboratory, seconds=SECONDS, most=MOST)

    assert report.tried > 0
    assert {found.signature: kind.shown(found.example) for found in report.findings.values()} == {}
