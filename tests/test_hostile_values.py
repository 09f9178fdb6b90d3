"""A whole run with hostile values for the primitives of a field; see `benchmarks/hostile_values.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "hostile_values.py"


@pytest.mark.release
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of processes from /proc")
def test_a_run_judges_good_values_between_hostile_ones() -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "good: 60 correct\nhostile: 60 undecided\n" in done.stdout
