"""`gather_all`: coroutines that run at once all end, even if one fails, because their calls may cost money."""

from __future__ import annotations

import asyncio

import pytest

from karenina_core.errors import ItemInterrupt, RunError
from karenina_testing.virtual_time import run_in_virtual_time
from karenina_toolkit.stage_support import gather_all


class Jobs:
    """Coroutines of given durations and endings, with a record of those that ended or were cancelled."""

    def __init__(self) -> None:
        self.ended: list[float] = []
        self.cancelled: list[float] = []

    async def run(self, seconds: float, end: BaseException | None = None) -> float:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(seconds)
            raise
        self.ended.append(seconds)
        if end is not None:
            raise end
        return seconds


def test_results_are_in_the_order_of_the_coroutines() -> None:
    jobs = Jobs()
    assert run_in_virtual_time(gather_all(jobs.run(seconds) for seconds in (3, 1, 2))) == [3, 1, 2]
    assert jobs.ended == [1, 2, 3]
    assert asyncio.run(gather_all([])) == []


def test_the_others_end_if_one_fails() -> None:
    jobs = Jobs()
    with pytest.raises(LookupError, match="first"):
        run_in_virtual_time(
            gather_all(
                [jobs.run(3), jobs.run(2, LookupError("first")), jobs.run(1, LookupError("second")), jobs.run(4)]
            )
        )
    assert jobs.ended == [1, 2, 3, 4]
    assert not jobs.cancelled


@pytest.mark.parametrize("other", [ItemInterrupt(), RunError("the disk is full")])
def test_interrupts_take_precedence_over_errors_of_stages(other: BaseException) -> None:
    jobs = Jobs()
    with pytest.raises(type(other)):
        run_in_virtual_time(gather_all([jobs.run(1, LookupError("first")), jobs.run(2, other), jobs.run(3)]))
    assert jobs.ended == [1, 2, 3]


def test_cancellation_cancels_all() -> None:
    jobs = Jobs()

    async def out_of_time() -> None:
        async with asyncio.timeout(2):
            await gather_all([jobs.run(1), jobs.run(5), jobs.run(6)])

    with pytest.raises(TimeoutError):
        run_in_virtual_time(out_of_time())
    assert (jobs.ended, jobs.cancelled) == ([1], [5, 6])
