"""A run that is killed, with a failing server, ends with the results of an undisturbed one: a small `faults.py`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import preloaded
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.timeout(900)  # a run of minutes on a busy machine
def test_a_repeatedly_killed_run_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(BENCHMARKS)
    faults = import_module("faults")
    monkeypatch.setattr(faults, "start", preloaded.start)
    monkeypatch.setattr(faults, "finish", preloaded.run)
    faults.main(["--kills", "5", "--questions", "60"])

    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{") :])
    assert (found["results"], found["calls answered"], found["answered twice otherwise"]) == (60, 120, 0)
    assert found["kills"] > 1
    assert sum(found["faults"].values()) > 10
