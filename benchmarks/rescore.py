"""The speed of continuing a run with stored replies, and of rescoring a finished run.

    python benchmarks/rescore.py                  100,000 items; takes some minutes
    python benchmarks/rescore.py --items 10000    smaller, for a quick check

A run with models that answer immediately fills a journal. Then the following are measured, three times each, always in
a separate process:

- the same command again, with all results in the journal;
- the same command again after its results were deleted, so that only the replies are stored and every item is computed
  again;
- `rescore` with the benchmark after half of the true values were changed: in as many processes as there are cores, as
  the command does, which has the target, and in one process, for information.

None of them makes a call, which is checked. Rates are items per second of wall time, from loading the file to writing
the last result. Medians are printed, with the target. Helper processes compute the results whose replies are all in the
journal. The largest memory used by one of them is printed next to that of the run, with which it shares most of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
from pathlib import Path

from measuring import Target, print_targets
from scripted_run import measured, write_questions

RESUMED = 2000.0
RESCORED = 3000.0


def main() -> None:
    """Measure the rates, and print each with its target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file, journal, output = folder / "all.jsonl", folder / "all.journal", folder / "results.jsonl"
        write_questions(file, chosen.items)
        edited = write_questions(folder / "edited.jsonl", chosen.items, wrong=chosen.items // 2)
        made = measured("run", file, output, "--journal", journal)
        rate = made["items"] / made["seconds"]
        print(f"first run: {made['items']:,} items, {made['calls']:,} calls, {rate:,.0f} items a second")
        replies = folder / "replies.journal"
        shutil.copyfile(journal, replies)
        with sqlite3.connect(replies) as database:
            database.execute("DELETE FROM results")
        kept: list[float] = []
        worked: list[float] = []
        alone: list[float] = []
        shared: list[float] = []
        cores = os.cpu_count() or 1
        for _ in range(chosen.turns):
            kept.append(_rate("run", file, output, "--journal", journal))
            one = folder / "turn.journal"
            shutil.copyfile(replies, one)
            worked.append(_rate("run", file, output, "--journal", one))
            for rates, processes in ((alone, 1), (shared, cores)):
                rates.append(_rate("rescore", journal, edited, output, "--processes", str(processes)))
            for left in folder.glob("results*.jsonl"):
                left.unlink()
    reached = {
        "resume, all results stored": (kept, RESUMED),
        "resume, the replies alone stored": (worked, RESUMED),
        f"rescore, {cores} processes": (shared, RESCORED),
    }
    print(f"rescore, one process: {statistics.median(alone):,.0f} items/s")
    print_targets(
        Target(what, statistics.median(found), bound, " items/s", least=True)
        for what, (found, bound) in reached.items()
    )


def _rate(*arguments: str | Path) -> float:
    """Run `scripted_run.py` with these arguments, print its figures, and return the rate in items per second.

    Raises `SystemExit` if a call was made.
    """
    found = measured(*arguments)
    if found["calls"]:
        raise SystemExit(f"{found['calls']} calls were made, but none were expected")
    print(
        f"  {arguments[0]}: {found['items'] / found['seconds']:,.0f} items a second, {found['cpu']:,.1f} s of CPU "
        f"({found['helpers_cpu']:,.1f} of them in processes that help), {found['peak']:,.0f} MB "
        f"(in each of those {found['helper_peak']:,.0f})",
        flush=True,
    )
    return float(found["items"] / found["seconds"])


if __name__ == "__main__":
    main()
