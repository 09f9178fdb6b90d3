"""How many bytes an item takes in the result file and the journal, and the cost of writing and reading it.

    python benchmarks/results_size.py                   10,000 recorded answers; half a minute
    python benchmarks/results_size.py --items 100000    the size for which the targets of whole files are stated

A run is `karenina run FILE --recordings ANSWERS` in its own process, with its journal. A program finds the field of
each question in the answer (`TraceContains`), so that no model is called. The texts of an item are its question and its
answer. Writing and reading are measured in this process, using the run's own results: CPU time, the best of three.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import own_state  # noqa: F401 - sets it
from measuring import Target, machine, print_targets

KARENINA = "from karenina_cli import main; main()"
LINE, BEYOND_TEXTS = 900, 1100
"""The most bytes of an item's line, and of an item in each file beside its texts."""
RESULTS_MB, JOURNAL_MB = 90, 110
"""The most MB of the files of 100,000 items."""
SLOWER = 110
"""The most percent of the time for a line with every field that reading a line may take: the same, but for noise."""
ADDED = 100
"""The most microseconds that writing an item may take beside the serialization of its result."""


def write_files(folder: Path, items: int) -> tuple[Path, Path, int]:
    """Write a benchmark and recorded answers, and return their paths and the total size of the texts in bytes."""
    questions, answers, texts = folder / "words.jsonl", folder / "answers.jsonl", 0
    with questions.open("w", encoding="utf-8") as asked, answers.open("w", encoding="utf-8") as answered:
        for item in range(items):
            word = f"word-{item}"
            question, answer = f"What is the code word of item #{item}?", f"The code word is {word}, as far as I know."
            rule = {"type": "TraceContains", "substring": word}
            field = {"description": "The response names the word", "ground_truth": True, "verify_with": rule}
            asked.write(json.dumps({"id": f"q{item}", "question": question, "answer": {"word": field}}) + "\n")
            answered.write(json.dumps({"id": f"q{item}", "response": answer}) + "\n")
            texts += len(question) + len(answer)
    return questions, answers, texts


def run(questions: Path, answers: Path, *options: str) -> tuple[Path, Path]:
    """Run the benchmark, and return the paths of its result file and journal."""
    output, journal = questions.with_suffix(".results.jsonl"), questions.with_suffix(".journal")
    command = ["run", questions, "--recordings", answers, "-o", output, "--journal", journal, "--quiet", *options]
    arguments = [sys.executable, "-c", KARENINA, *map(str, command)]
    subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
    return output, journal


def cost(work: Callable[[], Iterable[Any]], items: int) -> float:
    """Return the CPU time in microseconds that `work` takes per item, the best of three measurements."""
    times = []
    for _ in range(3):
        began = time.process_time()
        for _ in work():
            pass
        times.append(time.process_time() - began)
    return 1e6 * min(times) / items


def costs(output: Path, folder: Path) -> dict[str, float]:
    """Return the microseconds that writing and reading take per item, by operation."""
    from karenina_engine.journal.compression import TextCompressor
    from karenina_engine.results.result_lines import LineWriter, dump_result
    from karenina_engine.results.result_set import VerificationResultSet, read_results

    results = VerificationResultSet.load(output)
    count, full = len(results), folder / "full.jsonl"
    results.save(full, full=True)
    texts = [dump_result(result) for result in results]
    writer, compressor = LineWriter(), TextCompressor(lambda _name, _value: None)
    return {
        "serialize with every field": cost(lambda: (result.model_dump_json() for result in results), count),
        "serialize without defaults": cost(lambda: map(dump_result, results), count),
        "make a line from that": cost(lambda: map(writer.lines, texts), count),
        "compress it for the journal": cost(lambda: map(compressor.compress, texts), count),
        "read a line": cost(lambda: read_results(output), count),
        "read a line with every field": cost(lambda: read_results(full), count),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print each figure with its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    items: int = parser.parse_args(arguments).items
    print(f"bytes of {items:,} items; {machine()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        questions, answers, texts = write_files(folder, items)
        output, journal = run(questions, answers)
        sizes = [file.stat().st_size for file in (output, journal)]
        with output.open("rb") as lines:
            line = statistics.median(len(line) for line in lines if line.startswith(b'{"row"'))
        found = costs(output, folder)
    beyond = [(size - texts) / items for size in sizes]
    print(f"  results {sizes[0] / 1e6:.1f} MB, journal {sizes[1] / 1e6:.1f} MB, texts {texts / 1e6:.1f} MB")
    for what, microseconds in found.items():
        print(f"  {what}: {microseconds:.0f} us")
    added = found["make a line from that"] + found["compress it for the journal"]
    print_targets(
        [
            Target("an item's line in the results", line, LINE, " bytes"),
            Target("results for an item, beside its texts", beyond[0], BEYOND_TEXTS, " bytes"),
            Target("journal for an item, beside its texts", beyond[1], BEYOND_TEXTS, " bytes"),
            Target("results of 100,000 items", sizes[0] / items / 10, RESULTS_MB, " MB"),
            Target("journal of 100,000 items", sizes[1] / items / 10, JOURNAL_MB, " MB"),
            Target("writing an item, beside its serialization", added, ADDED, " us"),
            Target(
                "reading a line against one with every field",
                100 * found["read a line"] / found["read a line with every field"],
                SLOWER,
                "%",
            ),
        ]
    )


if __name__ == "__main__":
    main()
