"""A run that is killed, with a failing server, ends with the results of an undisturbed one: a small `faults.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parent.parent / "benchmarks" / "faults.py"


@pytest.mark.timeout(900)  # a run of minutes on a busy machine
def test_a_repeatedly_killed_run_loses_and_repeats_nothing() -> None:
    done = subprocess.run(
        [sys.executable, FAULTS, "--kills", "5", "--questions", "60"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert (found["results"], found["calls answered"], found["answered twice otherwise"]) == (60, 120, 0)
    assert found["kills"] > 1
    assert sum(found["faults"].values()) > 10
