"""How a run scales with Ray workers: items per second with 1, 2 and 4 workers, compared with a single process.

    python benchmarks/scaling.py                    all comparisons, three turns each
    python benchmarks/scaling.py --only computing   one of them

- computing: recorded answers, for which a stage computes for 5 ms. No server uses a core.
- small: the same for 0.5 ms, below which workers are not worthwhile.
- waiting: two calls of 500 ms for each question, 64 concurrent calls in all. A single process handles these easily, so
  this measures the cost of the workers.

All numbers of workers are measured in turns. Medians are printed, with the ratio to one process without Ray (`asyncio`)
in the same turn. Ray is started before measuring, and each measurement begins with some questions that are not counted,
until all workers are ready. The journal is on, as in any run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import own_state  # noqa: F401 - sets it
from efficiency import benchmark
from fake_server import running
from measuring import Target, machine, print_targets

from karenina import Benchmark, VerificationConfig
from karenina_core.data.result import VerificationResult

PLUGIN = '''"""A stage that computes for as many milliseconds of CPU time as the question says."""

import time

from karenina_core import ArtifactKeys, Slot, Stage, hookimpl


class Compute(Stage):
    name = "Compute"
    requires = {ArtifactKeys.RAW_LLM_RESPONSE}
    before = {Slot.PARSE_TEMPLATE}

    def execute(self, context):
        *_, milliseconds, unit = context.question.question.split()
        end = time.thread_time() + (float(milliseconds) / 1000 if unit == "ms" else 0)
        while time.thread_time() < end:
            pass


@hookimpl
def karenina_extra_stages():
    return [Compute]
'''
TEMPLATE = """
class Answer(BaseAnswer):
    found: bool = VerifiedField(
        description="Whether the word is given", ground_truth=True, verify_with=TraceContains(substring="word")
    )
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Questions to measure: how many, the milliseconds that each computes or its calls wait, and the workers.

    `least` are the targets: the ratio to one process that a number of workers must reach.
    """

    counted: int
    milliseconds: float
    computes: bool
    workers: tuple[int, ...]
    least: Mapping[int, float]


COMPARISONS = {
    "computing": Comparison(800, 5, True, (1, 2), {1: 0.8, 2: 1.3}),
    "small": Comparison(1500, 0.5, True, (1, 2), {}),
    "waiting": Comparison(240, 500, False, (1, 2, 4), {}),
}
AT_ONCE = 64
AT_ONCE_RECORDED = 16
"""Otherwise, hundreds of answers are in progress together, and end together, so that no rate could be measured."""


def write_plugin(folder: Path) -> None:
    """Install the stage that computes into a folder, from which this process and the workers import it."""
    (folder / "computing.py").write_text(PLUGIN, "utf-8")
    information = folder / "computing-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: computing\nVersion: 1.0\n", "utf-8")
    (information / "entry_points.txt").write_text("[karenina.stages]\nCompute = computing\n", "utf-8")
    sys.path.insert(0, str(folder))


def recorded(count: int, milliseconds: float) -> tuple[Benchmark, dict[str, Any]]:
    """Return questions that compute for this long, and the settings of a run with their recorded answers."""
    made = Benchmark.create("Computing")
    for item in range(count):
        made.add_question(f"Item {item} computes {milliseconds:g} ms", None, TEMPLATE, question_id=f"q{item}")
    answers = {f"q{item}": f"the word of item {item}" for item in range(count)}
    model = {"id": "a", "interface": "manual", "model_name": "recorded", "manual_traces": answers}
    return made, {"answering_models": [model], "max_concurrency": AT_ONCE_RECORDED}


def called(url: str, count: int) -> tuple[Benchmark, dict[str, Any]]:
    """Return questions for the server at `url`, and the settings of a run that calls it."""
    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": url}
    settings = {"answering_models": [{"id": "a", **model}], "parsing_models": [{"id": "j", **model}]}
    return benchmark(count), {**settings, "max_concurrency": AT_ONCE, "concurrency_start": AT_ONCE}


def measured(questions: Benchmark, settings: Mapping[str, Any], workers: int, warming: int) -> float:
    """Run the questions, and return the number of items per second after the first `warming` results."""
    config = VerificationConfig(
        **settings,
        executor="ray" if workers else "asyncio",
        **({"ray_workers": workers} if workers else {}),
    )
    times: list[float] = []

    def note(result: VerificationResult) -> None:
        times.append(time.perf_counter())
        if not result.template.verify_result:
            raise SystemExit(f"an item is not correct: {result.why()}")

    with tempfile.TemporaryDirectory() as folder:
        questions.run_verification(config, journal=Path(folder) / "run.journal", on_result=note)
    return (len(times) - warming) / (times[-1] - times[warming - 1])


def compare(name: str, comparison: Comparison, turns: int) -> list[Target]:
    """Measure all numbers of workers in turns, print the medians and return the targets."""
    rates: dict[int, list[float]] = {workers: [] for workers in (0, *comparison.workers)}
    for _ in range(turns):
        for workers, found in rates.items():
            warming = comparison.counted // (2 if workers else 4)
            count = warming + comparison.counted
            server = nullcontext() if comparison.computes else running(comparison.milliseconds / 1000)
            with server as open_server:
                if open_server is None:
                    questions, settings = recorded(count, comparison.milliseconds)
                else:
                    questions, settings = called(open_server.url, count)
                found.append(measured(questions, settings, workers, warming))
    print(f"{name}: {comparison.counted} questions, {comparison.milliseconds:g} ms; {machine()}", flush=True)
    targets = []
    for workers, found in rates.items():
        way = f"ray, {workers} worker{'s' if workers > 1 else ''}" if workers else "asyncio"
        ratio = statistics.median(rate / single for rate, single in zip(found, rates[0], strict=True))
        print(f"  {way:15} {statistics.median(found):7.0f} items/s  {ratio:.2f} times", flush=True)
        if workers in comparison.least:
            targets.append(Target(f"{name}, {way}", ratio, comparison.least[workers], " times", least=True))
    return targets


def main() -> None:
    """Start Ray once and run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=COMPARISONS)
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        write_plugin(Path(folder))
        ray.init(address="local", num_cpus=4, object_store_memory=128 * 2**20, **options)
        try:
            for name, comparison in COMPARISONS.items():
                if given.only in (None, name):
                    targets += compare(name, comparison, given.turns)
        finally:
            ray.shutdown()
    print_targets(targets)


if __name__ == "__main__":
    main()
