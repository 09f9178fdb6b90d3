"""Tests of the limiter with simulated servers that refuse some calls: for their number, their rate, or at random."""

from __future__ import annotations

import pytest
from simulated_servers import OverloadedServer, QuotaServer, RefusingServer, Server, TokenBucketServer, simulate

SEEDS = range(3)


@pytest.mark.parametrize("latency", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_constant_share_of_refusals_does_not_reduce_concurrency(latency: float, seed: int) -> None:
    fixed = simulate(RefusingServer(latency, lambda _: 0.1, seed=seed), 1000, fixed=256)
    found = simulate(RefusingServer(latency, lambda _: 0.1, seed=seed), 1000)

    assert found.seconds <= 2 * fixed.seconds + 4 * latency  # the search begins with 32 places
    assert found.most_seconds <= 2 * fixed.most_seconds + 4 * latency
    assert found.failed == 0


@pytest.mark.parametrize("share", [0.02, 0.2, 0.3])
def test_other_shares_of_refusals_keep_calls_under_way(share: float) -> None:
    found = simulate(RefusingServer(0.5, lambda _: share), 2000)

    at_once = 0.5 * found.replies / found.seconds
    assert at_once > 16
    assert found.places >= 128


@pytest.mark.parametrize("allowed", [1, 5, 20, 50])
@pytest.mark.parametrize("seed", SEEDS)
def test_server_with_a_limit_is_used_in_full(allowed: int, seed: int) -> None:
    found = simulate(RefusingServer(0.1, allowed=lambda _: allowed, seed=seed), 20 * allowed + 100)

    ideal = 0.1 * found.replies / allowed
    assert found.seconds <= 1.15 * ideal + 1
    assert found.refusals <= 50 + 0.05 * found.replies
    assert found.failed == 0


def test_a_limit_and_a_constant_share_are_both_found() -> None:
    fixed = simulate(RefusingServer(0.1, lambda _: 0.1, lambda _: 20), 1000, fixed=20)
    found = simulate(RefusingServer(0.1, lambda _: 0.1, lambda _: 20), 1000)

    assert found.most_seconds <= 1.5 * fixed.most_seconds
    assert found.places <= 40


def test_a_limit_that_falls_during_the_run_is_followed() -> None:
    found = simulate(RefusingServer(0.1, allowed=lambda now: 20 if now < 3 else 6), 600)

    ideal = 3 + 0.1 * (found.replies - 600) / 6
    assert found.seconds <= 1.15 * ideal
    assert found.places <= 9


def test_a_limit_that_rises_during_the_run_is_followed() -> None:
    found = simulate(RefusingServer(0.1, allowed=lambda now: 20 if now < 3 else 100), 2000)

    assert found.seconds <= 0.8 * 0.1 * found.replies / 20
    assert found.places > 30


def test_refusals_that_begin_or_end_during_the_run_are_followed() -> None:
    begin = simulate(RefusingServer(0.5, lambda now: 0.1 if now > 5 else 0), 2000)
    end = simulate(RefusingServer(0.5, lambda now: 0.3 if now < 10 else 0), 2000)

    assert 0.5 * begin.replies / begin.seconds > 64
    assert 0.5 * end.replies / end.seconds > 64


def test_calls_per_second_are_kept_to() -> None:
    found = simulate(TokenBucketServer(0.5, rate=100, burst=10), 1000)

    assert found.seconds <= 1.5 * found.replies / 100
    assert found.refusals < 0.2 * found.replies
    assert found.failed == 0


def test_a_quota_that_is_spent_costs_time_but_no_item() -> None:
    found = simulate(QuotaServer(0.5, calls=500, period=60), 500)

    assert found.seconds <= 60 + 20
    assert found.failed == 0


def test_outages_cost_their_own_time_and_no_item() -> None:
    calm = simulate(Server(0.5), 2000)
    found = simulate(OverloadedServer(0.5, lambda now: 1.0 if 3 < now < 8 else 0.0), 2000)

    assert found.seconds <= calm.seconds + 3 * 5
    assert found.failed == 0


def test_a_server_that_only_refuses_gets_few_requests() -> None:
    found = simulate(RefusingServer(0.5, lambda _: 1.0), 2000)

    assert found.failed == 2000
    assert found.refusals <= 2000 + 200


def test_server_that_only_refuses_ends_the_run_after_patience() -> None:
    found = simulate(RefusingServer(0.5, lambda _: 1.0), 2000)

    assert found.seconds <= 300 + 2000 * 0.2


def test_a_server_that_recovers_within_the_patience_costs_no_item() -> None:
    found = simulate(RefusingServer(0.5, lambda now: 1.0 if 5 < now < 65 else 0.0), 2000)

    assert found.failed == 0
    assert found.seconds <= 60 + 60
