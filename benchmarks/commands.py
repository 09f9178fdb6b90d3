"""How much CPU time the commands that read files take for 10,000 items, and how soon `show` prints the first one.

    python benchmarks/commands.py                  10,000 items; takes some minutes
    python benchmarks/commands.py --items 1000     smaller, for a look

A benchmark of so many questions is written in YAML, and run twice with recorded answers, so no model is called. Each
command is a process of its own, with its modules compiled before. Printed are medians of the CPU time of user and
system, imports and the start of the interpreter included, and the targets. `show` is also started on a pseudo-terminal,
where the time on the wall until the first item counts: with the benchmark, whose comparison rules it then shows, and
without it, as for another person's run.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import peers
from measuring import Target, machine, print_targets
from startup import KARENINA, cpu

COMMANDS: Final = {
    "show": (["a.jsonl"], 4.0),
    "check": (["genes.yaml"], 4.0),
    "compare": (["a.jsonl", "b.jsonl"], 3.0),
    "report": (["a.jsonl", "b.jsonl", "-o", "report.html"], 9.0),
}
"""The commands, with their arguments and the CPU seconds that they may take for 10,000 items."""
FIRST_ITEM: Final = 0.5
"""The seconds within which `show` should print the first item on a terminal."""


def write_runs(folder: Path, items: int) -> None:
    """Write a benchmark of so many questions, and run it with two recordings; every 4th or 5th answer is wrong."""
    lines = ["karenina: 1", "name: Genes", "questions:"]
    for number in range(items):
        check = f"{{type: TraceContains, substring: G{number}}}"
        field = f"{{description: The gene, ground_truth: true, verify_with: {check}}}"
        lines += [f"  - id: q{number}", f"    question: Which gene is number {number} of the list?"]
        lines += [f"    answer: {{found: {field}}}"]
    (folder / "genes.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    for name, wrong in (("a", 4), ("b", 5)):
        answers = (f"I think that it is {f'G{number}' if number % wrong else 'another'}." for number in range(items))
        rows = [json.dumps({"id": f"q{number}", "answer": answer}) for number, answer in enumerate(answers)]
        (folder / f"{name}.answers.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
        words = ["run", "genes.yaml", "--recordings", f"{name}.answers.jsonl", "-o", f"{name}.jsonl", "--quiet"]
        subprocess.run(
            [sys.executable, *KARENINA, *words], capture_output=True, check=True, cwd=folder, env=peers.ENVIRONMENT
        )


def first_output(words: list[str], folder: Path) -> float:
    """Return the seconds on the wall until a command prints something on a terminal, and stop it."""
    ours, theirs = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *KARENINA, *words],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**peers.ENVIRONMENT, "TERM": "xterm"},
    )
    os.close(theirs)
    try:
        os.read(ours, 1)
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def main() -> None:
    """Measure, and print each figure with its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    items: int = given.items
    print(f"commands that read {items:,} items; medians of {given.turns} turns; {machine()}")
    targets = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_runs(folder, items)
        for name, (words, most) in COMMANDS.items():
            command = [sys.executable, *KARENINA, name, *words]
            taken = statistics.median(cpu(command, folder) for _ in range(given.turns))
            targets.append(Target(f"karenina {name}, CPU", taken, most, " s"))
        alone = folder / "alone"
        alone.mkdir()
        shutil.copyfile(folder / "a.jsonl", alone / "a.jsonl")
        for where, what in ((alone, "first item on a terminal"), (folder, "the same, with the benchmark's rules")):
            first = statistics.median(first_output(["show", "a.jsonl"], where) for _ in range(given.turns))
            targets.append(Target(f"karenina show, {what}", first, FIRST_ITEM, " s"))
    print_targets(targets)


if __name__ == "__main__":
    main()
