"""How long `karenina demo` takes, and how many prompt tokens its judge evaluates for an item.

    python benchmarks/demo.py              the first run, a run with saved prompts, and the recorded run
    python benchmarks/demo.py --only warm  one of them: first, warm or recorded (warm needs an earlier run)

The models must be installed (`karenina model pull`). "First" starts with an empty folder of saved prompts. Wall times
depend on what else the machine does, and so does the CPU time, if less; the speeds of the models show how much. The
numbers of tokens, which come from llama.cpp's own timings, do not.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import peers
from measuring import Target, machine, print_targets

COMMAND = [sys.executable, "-c", "from karenina_cli import main; main()", "-v", "demo"]
RUNS = {"first": (60, 25), "warm": (40, 10), "recorded": (3, 3)}
"""The maximum seconds of the whole run, and until the first judged answer."""
MOST_TOKENS = 350
MODELS_CALLS = re.compile(
    r"model '([^']+)' .*?:\s+(\S+)\s+tokens/s\s+read,\s+(\S+)\s+tokens/s\s+written\s+"
    r"\((\d+)\s+calls?,\s+(\d+)\s+and\s+(\d+)\s+tokens\)",
    re.DOTALL,
)
RESULT = re.compile(r"^\S+ (?:correct|wrong|partial)\s+(\d+)/\d+")
WITHOUT_JUDGE = 2  # items of the demo


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the demo: seconds until the first output, the first result and the end, CPU seconds, and its output."""

    begins: float
    first: float
    whole: float
    cpu: float
    items: int
    output: str


def run(folder: Path, *options: str) -> Run:
    """Run the demo in `folder` and return its times. Exits with an error if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *options, "--output", str(folder / "demo.results.jsonl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**peers.ENVIRONMENT, "COLUMNS": "400"},
    )
    lines, begins, results = [], 0.0, []
    for line in process.stdout or ():
        lines.append(line)
        begins = begins or time.perf_counter() - began
        if RESULT.match(line):
            results.append(time.perf_counter() - began)
    if process.wait() or not results:
        raise SystemExit("".join(lines)[-2000:])
    after, whole = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(begins, results[0], whole, cpu, len(results), "".join(lines))


def measure(name: str, folder: Path) -> list[Target]:
    """Run the demo once, print its figures, and return the targets."""
    done = run(folder, *(["--recorded"] if name == "recorded" else []))
    most, most_first = RUNS[name]
    print(f"  {name}: {done.whole:.1f} s, {done.cpu:.1f} s of CPU; first line after {done.begins:.2f} s")
    targets = [
        Target(f"{name}, whole run", done.whole, most, " s"),
        Target(f"{name}, first judged answer", done.first, most_first, " s"),
        Target(f"{name}, first line", done.begins, 1, " s"),
    ]
    models = MODELS_CALLS.findall(done.output)
    for model, read_speed, written_speed, calls, read, written in models:
        print(
            f"    {model}: {calls} calls, {read} prompt tokens evaluated ({read_speed}/s), {written} written "
            f"({written_speed}/s)"
        )
    if name != "recorded" and models:
        judged = done.items - WITHOUT_JUDGE
        per_item = int(models[-1][4]) / judged
        targets.append(Target(f"{name}, prompt tokens evaluated per judged item", per_item, MOST_TOKENS))
    return targets


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(RUNS))
    only = parser.parse_args().only
    print(f"demo; {machine()}")
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in RUNS:
            if only in (None, name):
                targets += measure(name, Path(folder))
    print_targets(targets)


if __name__ == "__main__":
    main()
