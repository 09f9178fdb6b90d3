"""The CPU time, memory and bytes used by items for which no model is called.

    python benchmarks/items.py                          100,000 recorded answers; takes minutes
    python benchmarks/items.py --items 2000 20000       other sizes; the targets are those of each size
    python benchmarks/items.py --items 1000000          a million; takes a quarter of an hour
    python benchmarks/items.py --format csv             questions in a table with line breaks
    python benchmarks/items.py --profile run.prof       also the profile of the first size (main thread)

A run is `karenina run FILE --recordings ANSWERS` in its own process, as started by users, with its journal. Each
question has one field, which a program finds in the answer (`TraceContains`), so that no model is called. The CPU time
is that of the process and of the processes it starts, including imports.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import own_state  # noqa: F401 - sets it
from measuring import Target, machine, print_targets

KARENINA = "from karenina_cli import main; main()"
PROFILED = """
import cProfile
from karenina_cli import main
profile = cProfile.Profile()
try:
    profile.runcall(main)
finally:
    profile.dump_stats({path!r})
"""
PER_ITEM = 42 / 100_000
"""CPU seconds that an item may take."""
LEAST_CPU = 1.0
"""CPU seconds that a run may take beside its items."""
RESULT_BYTES, JOURNAL_BYTES = 900, 1100
FORMATS = ("jsonl", "csv")
TEMPLATE = """from karenina.templates import BaseAnswer, TraceContains, VerifiedField


class Answer(BaseAnswer):
    found: bool = VerifiedField(
        description="Whether the word is given", ground_truth=True, verify_with=TraceContains(substring="{word}")
    )
"""
WORDS = "as far as I can tell from the notes of the laboratory, the code word that was asked for reads"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a run used: CPU seconds, the peak memory in MB, and the size of its files in bytes."""

    cpu: float
    peak: float
    results: int
    journal: int


def most_memory(items: int) -> float:
    """Return the maximum memory in MB that a run of this many items may use."""
    return 200 if items <= 100_000 else 200 + 800 * (items - 100_000) / 900_000


def word(item: int) -> str:
    """Return the code word of an item."""
    return f"word-{item:07}"


def asked(item: int) -> str:
    """Return the question for an item."""
    return f"What is the code word of item #{item}?"


def write_inputs(folder: Path, items: int, suffix: str) -> tuple[Path, Path]:
    """Write this many questions and their recorded answers, and return both paths. Every hundredth answer is wrong."""
    questions, answers = folder / f"questions.{suffix}", folder / "answers.jsonl"
    with answers.open("w", encoding="utf-8") as out:
        for item in range(items):
            said = f"Thank you for the question; {WORDS} {word(item + (item % 100 == 99))}."
            out.write(json.dumps({"id": f"q{item}", "response": said}) + "\n")
    with questions.open("w", encoding="utf-8", newline="") as out:
        if suffix == "csv":
            rows = csv.writer(out)
            rows.writerow(["id", "question", "answer_template"])
            rows.writerows([f"q{item}", asked(item), TEMPLATE.format(word=word(item))] for item in range(items))
            return questions, answers
        for item in range(items):
            check = {"type": "TraceContains", "substring": word(item)}
            field = {"description": "Whether the word is given", "ground_truth": True, "verify_with": check}
            out.write(json.dumps({"id": f"q{item}", "question": asked(item), "answer": {"found": field}}) + "\n")
    return questions, answers


def run(folder: Path, items: int, suffix: str, options: Sequence[str], profile: Path | None) -> Taken:
    """Run this many items, check that each has the right outcome for its answer, and return what the run used."""
    questions, answers = write_inputs(folder, items, suffix)
    output = folder / "out.results.jsonl"
    program = KARENINA if profile is None else PROFILED.format(path=str(profile.absolute()))
    words = ["run", str(questions), "--recordings", str(answers), "-o", str(output), "--quiet", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["KARENINA_MAX_FILE_BYTES"] = str(max(questions.stat().st_size, answers.stat().st_size, 100_000_000) + 1)
    process = subprocess.Popen([sys.executable, "-c", program, *words], cwd=folder, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the run ended with {process.returncode}")
    right = wrong = 0
    with output.open("rb") as lines:
        for line in lines:
            right += b'"outcome":"correct"' in line
            wrong += b'"outcome":"wrong"' in line
    if (right, wrong) != (items - items // 100, items // 100):
        raise SystemExit(f"{right} right and {wrong} wrong of {items} results")
    journal = folder / "out.journal"
    return Taken(
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
        output.stat().st_size,
        sum(file.stat().st_size for file in folder.glob(f"{journal.name}*") if file.is_file()),
    )


def main(given: argparse.Namespace) -> None:
    """Measure each size in turn, and print the figures and targets."""
    print(f"recorded items, no model called, questions in {given.format}; {machine()}")
    targets: list[Target] = []
    first = None
    for place, items in enumerate(given.items):
        with tempfile.TemporaryDirectory() as folder:
            taken = run(Path(folder), items, given.format, given.options, given.profile if not place else None)
        each = 1e6 * taken.cpu / items
        print(
            f"  {items:9,} items: {taken.cpu:7.1f} s CPU ({each:,.0f} us an item), {taken.peak:7,.0f} MB, "
            f"results {taken.results / 1e6:,.1f} MB ({taken.results / items:,.0f} bytes an item), "
            f"journal {taken.journal / 1e6:,.1f} MB ({taken.journal / items:,.0f} bytes an item)",
            flush=True,
        )
        named = f"{items:,} items"
        targets += [
            Target(
                f"{named}, CPU", taken.cpu, LEAST_CPU + PER_ITEM * items if items < 100_000 else PER_ITEM * items, " s"
            ),
            Target(f"{named}, memory", taken.peak, most_memory(items), " MB"),
            Target(f"{named}, bytes of a result", taken.results / items, RESULT_BYTES),
            Target(f"{named}, bytes of the journal for an item", taken.journal / items, JOURNAL_BYTES),
        ]
        if first is not None:
            least = first[1].cpu / first[0]
            targets.append(
                Target(f"an item of {items:,} to one of {first[0]:,}, CPU", taken.cpu / items / least, 1.1, " times")
            )
        first = first or (items, taken)
    print_targets(targets)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    parser.add_argument("--format", choices=FORMATS, default="jsonl")
    parser.add_argument("--profile", type=Path, help="write a profile of the first run to this file")
    parser.add_argument("options", nargs="*", help="further options of `karenina run`, after --")
    main(parser.parse_args())
