"""Checks that neither the memory used by a run nor the cost per item grows with the size of the run.

    python benchmarks/memory.py                  100,000 items three ways; takes some minutes
    python benchmarks/memory.py --items 10000    smaller, for a quick check

Every run is `karenina run` in its own process, with a journal, and with models that answer immediately, so that the
figures are the program's own. The benchmark measures the peak memory of the process (ru_maxrss, including imports), and
the CPU seconds per item from loading the file to the last result. For other frameworks (`peers.py`), it measures the
memory used by each additional question, which is the difference between runs of 600 and 200 questions answered by a
server.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import peers
from measuring import Target, machine, print_targets
from scripted_run import measured, write_questions

LATENCY, AT_ONCE = 0.05, 64
FEW, MANY = 200, 600


def main(given: argparse.Namespace) -> None:
    """Measure, and print each figure with its target."""
    items: int = given.items
    print(f"memory, and the cost of an item; {machine()}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        few, many = (write_questions(folder / f"{n}.jsonl", n) for n in (1000, items))

        def run(file: Path, name: str, replicates: int = 1) -> dict[str, Any]:
            """Run the benchmark in `file` and return the report of the process. Its output files are deleted."""
            output, journal = folder / f"{name}.results.jsonl", folder / f"{name}.journal"
            found = measured("run", file, output, "--journal", journal, "--replicates", str(replicates))
            for left in folder.glob(f"{name}.*"):
                left.unlink()
            return found

        small = [run(few, f"few-{turn}") for turn in range(5)]
        streamed = run(many, "streamed")
        small += [run(few, f"few-{turn}") for turn in range(5, 10)]
        repeated = run(few, "repeated", items // 1000)
    base = statistics.median(one["peak"] for one in small)
    cost = statistics.median(one["cpu"] / one["items"] for one in small)
    print(f"  1,000 questions: {base:,.1f} MB, {1e6 * cost:,.0f} us of CPU for an item (median of {len(small)})")
    times = f"1,000 questions x {items // 1000} replicates"
    for name, one in (("streamed", streamed), (times, repeated)):
        kept = 1024 * (one["peak"] - base) / (one["items"] - 1000)
        print(
            f"  {name}: {one['items']:,} items, {one['peak']:,.1f} MB ({kept:.2f} KiB for each further item), "
            f"{1e6 * one['cpu'] / one['items']:,.0f} us an item"
        )
    with peers.serving(given, LATENCY) as (url, _):
        for way in peers.ways(given, dict.fromkeys(peers.PEERS, MANY), AT_ONCE, LATENCY):
            more = [way.figures(url)["rss1_mb"] - way.asking(FEW).figures(url)["rss1_mb"] for _ in range(3)]
            print(f"  {way.name}: {1024 * statistics.median(more) / (MANY - FEW):.2f} KiB for each further question")
    ratio = 100 * streamed["cpu"] / streamed["items"] / cost
    print_targets(
        [
            Target(f"{times}, more than x 1", repeated["peak"] - base, 40, " MB"),
            Target(f"{items:,} questions streamed from JSON lines, in all", streamed["peak"], 200, " MB"),
            Target(f"cost of an item at {items:,} against at 1,000", ratio, 110, "%"),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    peers.add_options(parser)
    main(parser.parse_args())
