"""Several works at once: what is under way comes to its end, because it may be paid for."""

from __future__ import annotations

import asyncio

import pytest

from karenina_core.errors import ItemInterrupt, RunError
from karenina_testing.virtual_time import run_in_virtual_time
from karenina_toolkit.gather_all import gather_all


class Works:
    """Works that take so many seconds and end in what they are told, and what has become of them."""

    def __init__(self) -> None:
        self.ended: list[float] = []
        self.cancelled: list[float] = []

    async def work(self, seconds: float, end: BaseException | None = None) -> float:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(seconds)
            raise
        self.ended.append(seconds)
        if end is not None:
            raise end
        return seconds


def test_results_come_in_the_order_of_the_works() -> None:
    at = Works()
    assert run_in_virtual_time(gather_all(at.work(seconds) for seconds in (3, 1, 2))) == [3, 1, 2]
    assert at.ended == [1, 2, 3]
    assert asyncio.run(gather_all([])) == []


def test_where_one_fails_the_others_come_to_their_end() -> None:
    at = Works()
    with pytest.raises(LookupError, match="first"):
        run_in_virtual_time(
            gather_all([at.work(3), at.work(2, LookupError("first")), at.work(1, LookupError("second")), at.work(4)])
        )
    assert at.ended == [1, 2, 3, 4]
    assert not at.cancelled


@pytest.mark.parametrize("other", [ItemInterrupt(), RunError("the disk is full")])
def test_what_is_no_error_of_the_stage_goes_before_its_own(other: BaseException) -> None:
    at = Works()
    with pytest.raises(type(other)):
        run_in_virtual_time(gather_all([at.work(1, LookupError("first")), at.work(2, other), at.work(3)]))
    assert at.ended == [1, 2, 3]


def test_whoever_is_cancelled_takes_all_along() -> None:
    at = Works()

    async def out_of_time() -> None:
        async with asyncio.timeout(2):
            await gather_all([at.work(1), at.work(5), at.work(6)])

    with pytest.raises(TimeoutError):
        run_in_virtual_time(out_of_time())
    assert (at.ended, at.cancelled) == ([1], [5, 6])
