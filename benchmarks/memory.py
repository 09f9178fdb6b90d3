"""Memory that does not grow with a run, and a cost per item that does not either.

    python benchmarks/memory.py                  100,000 items three ways; takes some minutes
    python benchmarks/memory.py --items 10000    smaller, for a look

Every run is `karenina run` in a process of its own, with a journal, over models that answer at once, so that the
figures are the program's own. Measured are the process's greatest memory (ru_maxrss, imports and all), and CPU seconds
for an item from the loading of the file to the last result.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from scripted_run import line, measured, write_questions

MOST_MORE = 40.0
MOST_IN_ALL = 200.0
MOST_DEARER = 110.0


def main() -> None:
    """Measure, and print each figure with its target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=100_000)
    items = parser.parse_args().items
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        few, many = (write_questions(folder / f"{n}.jsonl", n) for n in (1000, items))

        def run(file: Path, name: str, replicates: int = 1) -> dict[str, Any]:
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
    print(f"1,000 questions: {base:,.1f} MB, {1e6 * cost:,.0f} us of CPU for an item (median of {len(small)})")
    for name, one in (("streamed", streamed), (f"x {items // 1000} replicates", repeated)):
        print(
            f"{name}: {one['items']:,} items, {one['peak']:,.1f} MB, {1e6 * one['cpu'] / one['items']:,.0f} us an item"
        )
    line(
        f"1,000 questions x {items // 1000} replicates, more than x 1",
        repeated["peak"] - base,
        "MB",
        MOST_MORE,
        at_least=False,
    )
    line(
        f"{streamed['items']:,} questions streamed from JSONL, in all",
        streamed["peak"],
        "MB",
        MOST_IN_ALL,
        at_least=False,
    )
    ratio = 100 * streamed["cpu"] / streamed["items"] / cost
    line(f"cost of an item at {streamed['items']:,} against at 1,000", ratio, "%", MOST_DEARER, at_least=False)


if __name__ == "__main__":
    main()
