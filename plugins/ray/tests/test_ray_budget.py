"""Tests of a budget on Ray: it covers the calls of all workers, and a run goes on if it is raised."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from ray_runs import Server, benchmark, comparable, config, run, serving

from karenina_core.data.result import VerificationResult
from karenina_engine.journal.journal import Journal
from karenina_engine.run.execution import collect_results
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession

pytestmark = pytest.mark.usefixtures("ray")

PRICES = {id: {"input": 1, "output": 4} for id in ("answering", "judge-1", "judge-2")}
ANSWER, REPLY = 10 * 1 + 5 * 4, 20 * 1 + 3 * 4
"""Price of an answer and of a judge's reply, in millionths of a dollar."""
QUESTIONS = 60
WHOLE = QUESTIONS * (ANSWER + 2 * REPLY)


def price_of_calls(server: Server) -> int:
    """Return the price of all calls that the server received, in millionths of a dollar."""
    return price(text for _, text in server.received)


def price(texts: Iterable[str]) -> int:
    """Return the price of calls with these texts, in millionths of a dollar."""
    return sum(REPLY if " reads: " in text else ANSWER for text in texts)


def run_with_budget(
    server: Server, journal: Path, budget: int, executor: str = "ray", *, workers: int = 2
) -> tuple[RunSession, list[VerificationResult]]:
    """Run with a budget in millionths of a dollar; return the session and its results."""
    chosen = config(
        server, executor, prices=PRICES, budget=f"{budget / 10**6:f}", max_concurrency=8, ray_workers=workers
    )
    with Journal.open(journal) as opened:
        prepared = prepare_session(RunRequest(benchmark(QUESTIONS), chosen), journal=opened)
        return prepared, list(asyncio.run(collect_results(prepared)))


def test_exhausted_budget_stops_all_workers_and_a_larger_continues(tmp_path: Path) -> None:
    with serving() as server:
        expected = run(server, "asyncio", benchmark(QUESTIONS), prices=PRICES)
        assert price_of_calls(server) == WHOLE
    with serving() as server:
        stopped, some = run_with_budget(server, tmp_path / "journal", WHOLE // 2)
        spent = price_of_calls(server)
        assert stopped.budget is not None
        assert stopped.budget.exhausted
        assert "the run's budget of $0.002820 does not cover the next call" in str(stopped.stopped)
        assert stopped.ledger.total().cost == stopped.budget.spent == spent * 10**6
        assert WHOLE // 2 - 8 * 2 * (ANSWER + REPLY) <= spent <= WHOLE // 2
        assert 0 < len(some) < 2 * QUESTIONS

        raised, rest = run_with_budget(server, tmp_path / "journal", 2 * WHOLE, workers=1)

    assert raised.stopped is None
    assert comparable(rest) == comparable(expected)
    assert price_of_calls(server) == WHOLE
    assert set(server.calls.values()) == {1}


def test_reservations_of_a_dead_worker_are_not_spent_again(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(pid: int) -> None:
        if len(server.received) > 8:  # the first calls, of which nothing is known, are made one by one
            server.processes = 2
        if not killed and len(server.received) > 60:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with serving(latency=0.1) as server:
        server.on_call = kill
        stopped, some = run_with_budget(server, tmp_path / "journal", WHOLE * 3 // 4)
        assert stopped.budget is not None
        assert killed
        assert stopped.budget.exhausted
        assert stopped.budget.reserved == 0
        assert stopped.ledger.total().cost == stopped.budget.spent
        assert 0 < stopped.budget.lost <= stopped.budget.limit - stopped.budget.spent
        assert price_of_calls(server) <= WHOLE * 3 // 4
        server.on_call = lambda _pid: None
        _, rest = run_with_budget(server, tmp_path / "journal", 2 * WHOLE, "asyncio")

    assert 0 < len(some) < len(rest) == 2 * QUESTIONS
    again = server.calls - Counter(set(server.calls))
    unstored = price(again.elements()) * 10**6  # calls of the killed worker
    assert unstored <= stopped.budget.lost
