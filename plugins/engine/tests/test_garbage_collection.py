"""During a run, Python's garbage collector runs less often; afterwards its thresholds are restored."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from karenina_engine.run.execution import THRESHOLD, rare_garbage_collection


@pytest.fixture(autouse=True)
def _own_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_and_restored() -> None:
    gc.set_threshold(700, 10, 10)
    with rare_garbage_collection():
        assert gc.get_threshold() == (THRESHOLD, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_overlapping_blocks_restore_the_first_thresholds() -> None:
    gc.set_threshold(700, 10, 10)
    one, other = rare_garbage_collection(), rare_garbage_collection()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] == THRESHOLD
    other.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, THRESHOLD + 1], ids=["off", "looks less often"])
def test_the_users_own_thresholds_are_not_changed(threshold: int) -> None:
    gc.set_threshold(threshold)
    with rare_garbage_collection():
        assert gc.get_threshold()[0] == threshold
