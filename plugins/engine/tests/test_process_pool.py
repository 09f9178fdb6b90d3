"""Forked processes log as this process does."""

from __future__ import annotations

import logging

import pytest

from karenina_engine.run.process_pool import ProcessPool, Work, can_fork

logger = logging.getLogger("karenina")


@pytest.mark.forks
@pytest.mark.skipif(not can_fork(), reason="processes cannot be forked here")
def test_records_of_processes_begin_with_their_item(caplog: pytest.LogCaptureFixture) -> None:
    """Commands leave out messages about single items, which they recognize by the unformatted message."""

    def fail(job: int) -> int:
        logger.error("[%s] %s failed at 100%%", f"q{job}", "ParseTemplate")
        return job

    work: Work[int, int] = lambda _state: fail  # noqa: E731 - a def cannot bind the type arguments
    with caplog.at_level(logging.ERROR, "karenina"), ProcessPool(work, 2) as pool:
        assert [result for _, result in pool.results(iter(range(3)))] == [0, 1, 2]
    assert [str(record.msg)[:4] for record in caplog.records] == ["[q0]", "[q1]", "[q2]"]
    assert caplog.messages[0] == "[q0] ParseTemplate failed at 100%"
