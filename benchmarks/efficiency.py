"""How close a run comes to the time that its model calls need: ideal time / wall time, compared with a bare loop.

    python benchmarks/efficiency.py                       all comparisons, three times each
    python benchmarks/efficiency.py --questions 4000      the size stated in the target; takes some minutes

Each question is answered and judged. This takes two calls through the `openai` adapter, and each question has its own
template and ground truth. The ideal time is calls x latency / concurrent calls. The bare loop sends the same two
requests from as many workers as there are concurrent calls, with aiohttp and nothing else.

- wide: 500 ms, 256 concurrent calls. `fixed` is a run whose models set `max_concurrency = 256`; `found` is a run
  without any configuration, which starts with 32 and finds 256 on its own.
- narrow: 100 ms, and a server that immediately answers 429 to all calls beyond 20. The bare loop knows this number, but
  the run does not.
- random: 500 ms, and a server that answers 429 to a tenth of all requests, however few are in progress. The figure is
  the time of `found` compared with that of `fixed` with 256.

The runs keep a journal and write a result file, as in `karenina run`. One question is asked first, so that all modules
have been imported, as they have been for the bare loop. The ways are measured in turns on one machine. Medians are
printed, with the ratio to the bare loop of the same turn. Other frameworks (`peers.py`) also do the wide comparison,
with fewer questions.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
from fake_server import Running, code, running
from measuring import TEMPLATE, Target, bare_loop, machine, print_targets, question

from karenina import Benchmark, VerificationConfig

WIDE, AT_ONCE = 0.5, 256
NARROW, ALLOWED = 0.1, 20
EVERY = 10


def benchmark(count: int) -> Benchmark:
    """Return a benchmark with `count` questions."""
    made = Benchmark.create("Code words")
    for item in range(count):
        made.add_question(question(item), code(item), TEMPLATE.format(truth=code(item)), question_id=f"q{item}")
    return made


def with_karenina(server: Running, questions: Benchmark, **extra: Any) -> float:
    """Run the benchmark with a journal and a result file, and return the time taken in seconds.

    Raises `SystemExit` if an item is not correct.
    """
    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": server.url, "extra": extra}
    config = VerificationConfig(answering_models=[{"id": "a", **model}], parsing_models=[{"id": "j", **model}])
    with tempfile.TemporaryDirectory() as folder:
        output, journal = Path(folder) / "r.results.jsonl", Path(folder) / "r.journal"
        began = time.perf_counter()
        results = questions.run_verification(config, output=output, journal=journal)
        seconds = time.perf_counter() - began
    wrong = [one for one in results if not one.template.verify_result]
    if wrong:
        raise SystemExit(f"{len(wrong)} of {len(results)} items are not correct: {wrong[0].why()}")
    return seconds


def compare(
    name: str, count: int, turns: int, latency: float, at_once: int, allowed: int, *, fixed: bool
) -> dict[str, tuple[float, float]]:
    """Measure each way in turn and print the medians.

    Returns, for each way, the ratio of ideal time to actual time, and this ratio as a share of the bare loop's ratio.
    """
    ideal = 2 * count * latency / at_once
    asked = benchmark(count)
    ways: dict[str, Callable[[Running], float]] = {
        "bare loop": lambda server: bare_loop(server.url, count, at_once).wall,
        **({"fixed": lambda server: with_karenina(server, asked, max_concurrency=at_once)} if fixed else {}),
        "found": lambda server: with_karenina(server, asked),
    }
    with running(0.0, allowed) as server:
        with_karenina(server, benchmark(1))
    seen: dict[str, list[tuple[float, float, int]]] = {way: [] for way in ways}
    for _ in range(turns):
        floor = 0.0
        for way, measured in ways.items():
            with running(latency, allowed) as server:
                seconds = measured(server)
                floor = floor or seconds
                seen[way].append((seconds, floor / seconds, server.counts()["refused"]))
    print(f"{name}: {count} questions, {latency * 1000:g} ms, {at_once} at once; ideal {ideal:.2f} s")
    found: dict[str, tuple[float, float]] = {}
    for way, runs in seen.items():
        seconds, ratio, refused = (statistics.median(one) for one in zip(*runs, strict=True))
        efficiency = f"efficiency {ideal / seconds:.2f}, {ratio:.2f} of the bare loop's"
        print(f"  {way:10} {seconds:7.2f} s  {efficiency}; {refused:g} calls refused")
        found[way] = ideal / seconds, ratio
    return found


def at_random(count: int, turns: int) -> float:
    """Measure runs against a server that rejects a tenth of all requests, and print the medians.

    Returns the ratio of the time taken by `found` to the time taken by `fixed`.
    """
    asked = benchmark(count)
    ways: dict[str, dict[str, Any]] = {"fixed": {"max_concurrency": AT_ONCE}, "found": {}}
    seen: dict[str, list[tuple[float, float, int]]] = {way: [] for way in ways}
    for _ in range(turns):
        fixed = 0.0
        for way, extra in ways.items():
            with running(WIDE, every=EVERY) as server:
                seconds = with_karenina(server, asked, **extra)
                fixed = fixed or seconds
                seen[way].append((seconds, seconds / fixed, server.counts()["refused"]))
    print(f"random: {count} questions, {WIDE * 1000:g} ms, one of {EVERY} requests refused")
    ratio = 0.0
    for way, runs in seen.items():
        seconds, ratio, refused = (statistics.median(one) for one in zip(*runs, strict=True))
        print(f"  {way:10} {seconds:7.2f} s  {ratio:.2f} of the fixed run's; {refused:g} calls refused")
    return ratio


def others(given: argparse.Namespace) -> None:
    """Print the efficiency of other frameworks in the wide comparison."""
    counts = dict.fromkeys(peers.PEERS, given.peer_questions) | {"floor": given.questions}
    with peers.serving(given, WIDE) as (url, _):
        for way in peers.ways(given, counts, AT_ONCE, WIDE):
            reached = statistics.median(way.figures(url)["eff"] for _ in range(given.turns))
            print(f"  {way.name}: efficiency {reached:.2f}, {way.count} questions")


def main(given: argparse.Namespace) -> None:
    """Run the comparisons and print the targets."""
    print(f"ideal time / wall; {machine()}")
    targets: list[Target] = []
    if given.only in (None, "wide"):
        found = compare("wide", given.questions, given.turns, WIDE, AT_ONCE, 0, fixed=True)
        others(given)
        targets.append(Target("efficiency relative to the bare loop", found["fixed"][1], 0.9, least=True))
    if given.only in (None, "narrow"):
        found = compare("narrow", max(1, given.questions // 3), given.turns, NARROW, ALLOWED, ALLOWED, fixed=False)
        over = 100 / found["found"][0] - 100
        targets.append(Target("excess over the ideal time, where the server refuses calls", over, 15, "%"))
    if given.only in (None, "random"):
        ratio = at_random(given.questions, given.turns)
        targets.append(Target("time relative to a fixed run, where one of ten calls is refused", ratio, 2))
    print_targets(targets)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--questions", type=int, default=2000, help="for the narrow comparison, a third of this number is used"
    )
    parser.add_argument(
        "--peer-questions", type=int, default=512, help="the number for other frameworks, which take longer"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=("wide", "narrow", "random"))
    peers.add_options(parser)
    main(parser.parse_args())
