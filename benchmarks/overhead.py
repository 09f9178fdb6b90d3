"""The CPU time per question: Karenina compared with a bare loop and other frameworks, using the same server.

    python benchmarks/overhead.py --peer-python floor=.../python --peer-python pyeval=.../python
    python benchmarks/overhead.py                         without the peers: only our own bare loop

A question takes two calls (an answer, and a judge that fills in a JSON schema) of 50 ms each, with 64 concurrent calls.
In the case of Karenina, every question has its own template and ground truth, and the run is that of `karenina run`:
the file is loaded and one question asked, so that all modules are imported. Then three things are measured: preparing
the run, running it through the `openai` adapter with a journal, and writing the result file.

All programs call the same server, in turns, each in its own process. The CPU time is that of the process (user and
system), without its imports. Medians are printed, with the ratios to them. `peers.py` describes where the peers are.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_server
import peers
from measuring import TEMPLATE, Target, bare_loop, cpu_seconds, machine, print_targets, question
from peers import FLOOR, PYDANTIC_EVALS, Way

LATENCY, AT_ONCE = 0.05, 64
OWN_LOOP, KARENINA = "our own bare loop", "karenina"


# ---- what is measured, each in a process of its own


def run_karenina(file: Path, url: str, *, journal: bool) -> None:
    """Run the benchmark in `file` and print the CPU time per question as a `RESULT` line."""
    from karenina import Benchmark, VerificationConfig
    from karenina_engine.results.aggregate import Totals
    from karenina_engine.run.execution import execute_session, run_blocking
    from karenina_engine.run.prepare import open_run
    from karenina_engine.run.request import RunRequest

    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": url}
    config = VerificationConfig(
        answering_models=[{"id": "answering", **model}],
        parsing_models=[{"id": "judge", **model}],
        concurrency_start=AT_ONCE,
        concurrency_ceiling=AT_ONCE,
    )
    questions = Benchmark.load(file)

    def measured(name: str, ids: list[str] | None) -> tuple[float, float, Totals]:
        """Run the questions with these IDs (all if None).

        Returns the CPU seconds for the preparation, the CPU seconds in total, and the totals of the run.
        """
        output, kept_in = file.with_name(f"r-{name}.results.jsonl"), file.with_name(f"r-{name}.journal")
        gc.collect()
        began = cpu_seconds()
        request = RunRequest(questions, config, question_ids=ids, output=output, journal=kept_in if journal else None)
        with open_run(request) as run:
            prepared = cpu_seconds()
            totals = run_blocking(lambda: execute_session(run, output=output))
        return prepared - began, cpu_seconds() - began, totals

    measured("first", [next(iter(questions.ids))])  # imports what is imported when it is needed
    preparing, used, totals = measured("all", None)
    found = {
        "cpu_ms_per_q": 1000 * used / len(questions),
        "prepare_ms_per_q": 1000 * preparing / len(questions),
        "ok": totals.summary().outcomes.get("correct", 0),
    }
    print("RESULT " + json.dumps(found))


def run_bare(url: str, count: int) -> None:
    """Run our own bare loop and print the CPU time per question as a `RESULT` line."""
    print("RESULT " + json.dumps({"cpu_ms_per_q": 1000 * bare_loop(url, count, AT_ONCE).cpu / count, "ok": count}))


# ---- taking turns


def write_benchmark(file: Path, count: int, code: Callable[[int], str]) -> None:
    """Write a file of questions, each with its own template and ground truth."""
    from karenina import Benchmark

    made = Benchmark.create("Code words")
    for item in range(count):
        made.add_question(question(item), code(item), TEMPLATE.format(truth=code(item)), question_id=f"q{item}")
    made.save(file)


def ways(given: argparse.Namespace, url: str, file: Path) -> list[Way]:
    """Return the programs to measure. Peers that are not available are reported and omitted."""
    own = (sys.executable, __file__, "--worker")
    base = f"{url}/v1"
    found = [
        Way(KARENINA, (*own, "karenina", "--url", base, "--file", str(file)), given.questions),
        Way("karenina, no journal", (*own, "without", "--url", base, "--file", str(file)), given.questions),
    ]
    counts = dict.fromkeys(peers.PEERS, given.peer_questions) | {"floor": given.questions}
    found += peers.ways(given, counts, AT_ONCE, LATENCY)
    if not any(way.name == FLOOR for way in found) and fake_server.code(1) in file.read_text():
        count = str(given.questions)
        found.append(Way(OWN_LOOP, (*own, "bare", "--url", base, "--questions", count), given.questions))
    return found


def measure(given: argparse.Namespace) -> None:
    """Measure all programs in turns, and print the medians and targets."""
    print(f"CPU for a question: two calls, {LATENCY * 1000:g} ms, {AT_ONCE} at once; {machine()}")
    with peers.serving(given, LATENCY) as (url, code), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "questions.jsonld"
        write_benchmark(file, given.questions, code)
        seen: dict[str, list[dict[str, Any]]] = {}
        chosen = ways(given, url, file)
        for _ in range(given.turns):
            for way in chosen:
                seen.setdefault(way.name, []).append(way.figures(url))
                for left in Path(folder).glob("r*"):
                    left.unlink()
    cost = {name: statistics.median(one["cpu_ms_per_q"] for one in runs) for name, runs in seen.items()}
    floor = cost.get(FLOOR, cost.get(OWN_LOOP))
    for name, milliseconds in cost.items():
        times = [one["cpu_ms_per_q"] for one in seen[name]]
        ratio = f"{milliseconds / floor:6.2f} x the bare loop" if floor else ""
        print(f"  {name:22} {milliseconds:7.2f} ms  {ratio}  (from {min(times):.2f} to {max(times):.2f})")
    for name in (KARENINA, "karenina, no journal"):
        part = statistics.median(one["prepare_ms_per_q"] for one in seen[name])
        print(f"  {name}: of this {part:.2f} ms before the first call")
    peer = cost.get(PYDANTIC_EVALS)
    print_targets(
        [
            Target("CPU time relative to the bare loop", cost[KARENINA] / floor if floor else None, 3, " times"),
            Target("CPU time relative to pydantic-evals", cost[KARENINA] / peer if peer else None, 1 / 8, " times"),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument(
        "--peer-questions", type=int, default=300, help="the number for other frameworks, which take longer"
    )
    parser.add_argument("--turns", type=int, default=5)
    peers.add_options(parser)
    parser.add_argument("--worker", choices=("karenina", "without", "bare"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker == "bare":
        run_bare(chosen.url, chosen.questions)
    elif chosen.worker:
        run_karenina(chosen.file, chosen.url, journal=chosen.worker == "karenina")
    else:
        measure(chosen)
