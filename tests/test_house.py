"""The ways of a run stay short: no change makes a call, an item or a folder longer than it is.

Each limit is today's number beside the target of the plan. A change that lowers a number lowers its limit, too; none
raises one. `python tests/support/traced_run.py` has the rules by which is counted, and prints what is behind a number.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import traced_run
from source_counts import modules_by_folder, outcome_tables

LIMITS = {
    "frames of a judge's call": (12, 13),
    "depth of an item": (14, 14),
    "hand-overs of an item": (3, 5),
    "names of the request": (5, 5),
}
MODULES = 20


@pytest.fixture(scope="module")
def traced() -> dict[str, Any]:
    """Return what the script prints, in a process of its own: plugins of pytest are on no stack there."""
    command = [sys.executable, traced_run.__file__, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("measure", LIMITS)
def test_ways_of_a_run_do_not_grow(traced: dict[str, Any], measure: str) -> None:
    limit, _target = LIMITS[measure]

    assert traced["numbers"][measure] <= limit, json.dumps(traced["trace"], indent=2)


def test_a_judges_call_begins_in_its_stage_and_ends_in_the_adapter(traced: dict[str, Any]) -> None:
    frames = traced["trace"]["call_frames"]

    assert frames[-1].endswith(".execute")
    assert frames[0].startswith("karenina_openai.")


def test_an_item_is_followed_from_the_command_to_its_stage(traced: dict[str, Any]) -> None:
    frames = traced["trace"]["item_frames"]

    assert frames[-1].startswith("karenina_cli.")
    assert frames[0].endswith(".execute")


def test_no_folder_gets_more_modules() -> None:
    assert {folder: count for folder, count in modules_by_folder().items() if count > MODULES} == {}


def test_outcomes_are_listed_in_their_own_class_alone() -> None:
    assert {place.partition(":")[0] for place in outcome_tables()} == {"karenina_core.data.outcome"}, outcome_tables()
