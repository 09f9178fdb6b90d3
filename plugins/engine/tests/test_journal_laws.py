"""A property test: wherever and however often a run is stopped, resuming loses nothing and repeats no call."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from journal_runs import AT_ONCE, CONFIG, ScriptedRuns, make_benchmark, summarize

from karenina_core import plugins as plugin_room
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.results.result_set import VerificationResultSet

IDS = "abcdef"
CALLS = 24


def troubled(seen: Counter[str], answered: Counter[str]) -> ScriptedRuns:
    """Return a world whose servers refuse some calls once or twice before they answer.

    `seen` and `answered` count how often each text came, and how often it brought a reply.
    """
    world = ScriptedRuns()

    def on_call(text: str) -> None:
        seen[text] += 1
        if len(text) % 3 == 0 and seen[text] <= 1 + len(text) % 2:
            raise PortError("busy", category=ErrorCategory.RATE_LIMIT)
        answered[text] += 1

    world.on_call = on_call
    return world


async def stopped_at(world: ScriptedRuns, call: int, turns: int, **more: Any) -> VerificationResultSet | None:
    """Run, and cancel `turns` turns of the event loop after the call of this number; return None then."""
    begin = asyncio.Event()
    answer = world.on_call

    def on_call(text: str) -> None:
        if len(world.calls) == call:
            begin.set()
        answer(text)

    world.on_call = on_call
    run = asyncio.create_task(make_benchmark(*IDS).arun_verification(dict(CONFIG), policy=AT_ONCE, **more))

    async def stop() -> None:
        await begin.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        run.cancel()

    stopping = asyncio.create_task(stop())
    try:
        return await run
    except asyncio.CancelledError:
        return None
    finally:
        stopping.cancel()


@settings(max_examples=settings().max_examples // 4)  # each is several runs
@given(st.lists(st.tuples(st.integers(1, CALLS + 4), st.integers(0, 30)), min_size=1, max_size=4))
def test_run_stopped_anywhere_resumes_to_the_same_results(stops: list[tuple[int, int]]) -> None:
    once: Counter[str] = Counter()
    expected = summarize(troubled(Counter(), once).run(make_benchmark(*IDS)))
    asked: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        kept = {"journal": Path(folder) / "j.journal", "output": Path(folder) / "out.jsonl"}
        for call, turns in stops:
            world = troubled(asked, answered)
            with plugin_room.use_plugins(world.plugins()):
                asyncio.run(stopped_at(world, call, turns, **kept))
        last = troubled(asked, answered)
        results = last.run(make_benchmark(*IDS), **kept)
        nobody = ScriptedRuns()
        again = nobody.run(make_benchmark(*IDS), **kept)
        written = VerificationResultSet.load(kept["output"])

    assert summarize(results) == expected
    assert again.results == results.results == written.results
    assert answered == once
    assert nobody.calls == []
