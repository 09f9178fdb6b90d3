"""How a run scales with Ray workers: items per second with 1, 2 and 4 workers, compared with a single process.

    python benchmarks/scaling.py                    both comparisons, three turns each
    python benchmarks/scaling.py --only waiting

- waiting: two calls of 500 ms for each question, 64 concurrent calls in all. A single process handles these easily, so
  this measures the cost of the workers.
- computing: immediate replies, so that only the work around the calls remains. This measures how well the work is
  distributed over the cores. The server uses one core, and there are no more workers than cores.

All numbers of workers are measured in turns. Medians are printed, with the ratio to one process without Ray (`asyncio`)
in the same turn. Ray is started before measuring, and each measurement begins with some questions that are not counted,
until all workers are ready. The journal is on, as in any run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from efficiency import benchmark
from fake_server import Running, running

from karenina import Benchmark, VerificationConfig
from karenina_core.data.result import VerificationResult

WAYS = {"asyncio": 0, "ray, 1 worker": 1, "ray, 2 workers": 2, "ray, 4 workers": 4}


def measured(server: Running, questions: Benchmark, workers: int, at_once: int, warming: int) -> float:
    """Run the questions, and return the number of items per second after the first `warming` results."""
    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": server.url}
    config = VerificationConfig(
        answering_models=[{"id": "a", **model}],
        parsing_models=[{"id": "j", **model}],
        max_concurrency=at_once,
        concurrency_start=at_once,
        executor="ray" if workers else "asyncio",
        **({"ray_workers": workers} if workers else {}),
    )
    times: list[float] = []

    def note(_result: VerificationResult) -> None:
        times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        questions.run_verification(config, journal=Path(folder) / "run.journal", on_result=note)
    return (len(times) - warming) / (times[-1] - times[warming - 1])


def compare(name: str, counted: int, turns: int, latency: float, at_once: int) -> None:
    """Measure all numbers of workers in turns and print the medians."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, workers in WAYS.items():
            warming = counted if workers else max(1, counted // 4)
            with running(latency) as server:
                rates[way].append(measured(server, benchmark(warming + counted), workers, at_once, warming))
            ratios[way].append(rates[way][-1] / rates["asyncio"][-1])
    print(f"{name}: {counted} questions, {latency * 1000:g} ms, {at_once} calls at once, {os.cpu_count()} cores")
    for way in WAYS:
        print(f"  {way:15} {statistics.median(rates[way]):7.0f} items/s  {statistics.median(ratios[way]):.2f} times")


def main() -> None:
    """Start Ray once and run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--questions", type=int, default=2000, help="the number of questions that are counted (half of it for waiting)"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=("waiting", "computing"))
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=4, object_store_memory=128 * 2**20, **options)
    try:
        if given.only != "computing":
            compare("waiting", given.questions // 2, given.turns, 0.5, 64)
        if given.only != "waiting":
            compare("computing", given.questions, given.turns, 0.0, 64)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
