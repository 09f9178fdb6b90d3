"""Runs over servers of which 30% of the replies are bad: a small `faults.py --replies`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)  # runs of minutes on a busy machine
FAULTS = Path(__file__).parent.parent / "benchmarks" / "faults.py"


@pytest.mark.parametrize("wire", ["openai", "openai, streamed", "openai_endpoint", "claude_tool"])
def test_each_item_ends_as_the_replies_to_its_calls_say(wire: str) -> None:
    given = [sys.executable, FAULTS, "--replies", "--questions", "180", "--wire", wire]
    done = subprocess.run(given, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    seen = re.search(r"180 questions, 180 results, \d+ calls, ([\d.]+)% with bad replies", done.stdout)
    assert seen is not None
    assert float(seen[1]) > 25
    assert done.stdout.count(" 0 differences") == 4, "of the whole run, and of three with a budget"
