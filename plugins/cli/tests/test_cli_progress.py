"""The progress of a run: a bar on a terminal, or lines elsewhere."""

from __future__ import annotations

import io

import pytest
from command_runs import make_result
from rich.console import Console

from karenina_cli.output.summary_output import spent_text
from karenina_cli.running.run_execution import ProgressOutput
from karenina_core import ModelConfig
from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import CallInfo, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.progress.run_progress import RunProgress

MODEL = ModelConfig(id="m", interface="scripted", model_name="gpt")


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def busy() -> ConcurrencyLimits:
    """Return the limits of a server with 3 of 8 calls in flight, and 2 that wait for a retry."""
    limits = ConcurrencyLimits(lambda _model: Bounds(8, 8))
    server = limits.limiter(MODEL)
    for _ in range(3):
        server.acquire()
    server.retrying = 2
    return limits


def shown(*outcomes: Outcome, terminal: bool, total: int = 10, seconds: float = 2.0) -> str:
    """Return the printed output while items finish with these outcomes, `seconds` apart."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, record=True, color_system=None)
    clock = Clock()
    progress = RunProgress(total, limits=busy(), cost=lambda: "$0.12", clock=clock)
    with ProgressOutput(console, progress) as output:
        for number, outcome in enumerate(outcomes):
            clock.now += seconds
            output.finished(make_result(f"q{number}", outcome))
        if output._bar is not None:
            output._bar.refresh()
        return console.export_text()


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_counts_rate_time_left_cost_and_calls(terminal: bool) -> None:
    text = shown(Outcome.CORRECT, Outcome.WRONG, Outcome.MODEL_ERROR, Outcome.CORRECT, terminal=terminal)

    assert "4/10" in text
    assert "2 correct, 1 not correct, 1 not judged (1 model_error)" in text
    assert "30.0 items/min" in text
    assert "12 s left" in text
    assert "$0.12" in text
    assert "scripted:gpt 3 open calls (limit 8), 2 waiting for a retry" in text


def test_progress_in_a_file_has_few_lines() -> None:
    quick = shown(*[Outcome.CORRECT] * 1000, terminal=False, total=1000, seconds=0.01)
    slow = shown(*[Outcome.CORRECT] * 10, terminal=False, total=1000, seconds=31)

    assert len(quick.splitlines()) == 20
    assert len(slow.splitlines()) == 10
    assert "1000/1000" in quick


@pytest.mark.parametrize(("seconds", "words"), [(0.5, "45 s left"), (30.0, "45 min left"), (300.0, "7 h 30 min left")])
def test_the_time_left_is_told_in_fitting_units(seconds: float, words: str) -> None:
    assert words in shown(*[Outcome.CORRECT] * 10, terminal=False, total=100, seconds=seconds)


def test_stored_items_do_not_count_for_the_time_left() -> None:
    clock = Clock()
    progress = RunProgress(20, clock=clock)
    for _ in range(8):
        progress.add(Outcome.CORRECT, "2020-01-01T00:00:00.000000+00:00")
    clock.now += 1
    assert progress.speed() == []

    for _ in range(2):
        clock.now += 5
        progress.add(Outcome.CORRECT)
    assert progress.done == 10
    assert progress.speed() == ["10.9 items/min", "55 s left"]


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ([], None),
        ([300_000_000, None], "at least $0.000300 spent"),
        ([300_000_000], "$0.000300 spent"),
        ([None], "cost unknown"),
    ],
)
def test_an_unknown_cost_is_printed_as_unknown(costs: list[int | None], words: str | None) -> None:
    ledger = Ledger(PriceTable(Plugins()))
    for cost in costs:
        ledger.line(Call(Endpoint("llm", MODEL, "a", {}), (), CallInfo())).spent.add(Usage(calls=1), cost)
    assert spent_text(ledger) == words
