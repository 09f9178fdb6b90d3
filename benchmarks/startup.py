"""How long `karenina --help` and `import karenina_core` take, and how much CPU time short commands take.

The short commands are `check` on three questions, `plan`, and `show` on a run of three questions.

    python benchmarks/startup.py                   medians of 21 turns, and the ratios
    python benchmarks/startup.py --imports         what takes the time of `karenina --help`, module by module
    python benchmarks/startup.py --imports check   the same for a short command

Each runs in its own process, started in turns, with its modules already compiled. Medians of the wall time are printed,
with those of an empty interpreter, of `import pydantic`, and of importing other frameworks if there is an interpreter
that has them (`peers.py`). For the short commands, CPU time (user and system) is used instead.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import peers
from measuring import Target, machine, print_targets

PYDANTIC, CORE, HELP = "import pydantic", "import karenina_core", "karenina --help"
KARENINA = ["-c", "from karenina_cli import main; main()"]
COMMANDS = {
    "empty interpreter": ["-c", "pass"],
    PYDANTIC: ["-c", PYDANTIC],
    CORE: ["-c", CORE],
    HELP: [*KARENINA, "--help"],
}
SHORT = {"check": ["genes.yaml"], "plan": [], "show": ["genes.jsonl"]}
"""The short commands, with their arguments."""
GENES = {"BCL2": "does venetoclax target", "TP53": "is mutated most often", "BTK": "does ibrutinib target"}
MOST = 0.5
"""The maximum CPU seconds of a short command."""


def seconds(command: list[str]) -> float:
    """Run a command and return its wall time in seconds."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=peers.ENVIRONMENT)
    return time.perf_counter() - began


def write_run(folder: Path) -> None:
    """Write a benchmark with three questions and run it with recorded answers."""
    lines = ["karenina: 1", "name: Genes", "questions:"]
    for gene, what in GENES.items():
        check = f"{{type: TraceContains, substring: {gene}}}"
        field = f"{{description: The gene, ground_truth: true, verify_with: {check}}}"
        lines += [f"  - id: {gene}", f"    question: Which gene {what}?", f"    answer: {{found: {field}}}"]
    answers = "".join(json.dumps({"id": gene, "answer": f"I think that it is {gene}."}) + "\n" for gene in GENES)
    (folder / "genes.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "answers.jsonl").write_text(answers, "utf-8")
    words = ["run", "genes.yaml", "--recordings", "answers.jsonl", "-o", "genes.jsonl", "--quiet"]
    subprocess.run(
        [sys.executable, *KARENINA, *words], capture_output=True, check=True, cwd=folder, env=peers.ENVIRONMENT
    )


def cpu(command: list[str], folder: Path) -> float:
    """Run a command in `folder` and return its CPU time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=folder, env=peers.ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure_short(turns: int) -> list[Target]:
    """Run the short commands in turns, print the medians of their CPU seconds, and return the targets."""
    print("  of short commands, the CPU seconds:")
    taken: dict[str, list[float]] = {name: [] for name in SHORT}
    with TemporaryDirectory() as folder:
        write_run(Path(folder))
        for turn in range(turns + 1):
            for name, words in SHORT.items():
                spent = cpu([sys.executable, *KARENINA, name, *words], Path(folder))
                taken[name] += [spent] if turn else []  # the first turn compiles modules
    for name, spent in taken.items():
        print(f"  karenina {name:13} {statistics.median(spent):7.3f} s  (least {min(spent):.3f})")
    return [Target(f"karenina {name}, CPU", statistics.median(spent), MOST, " s") for name, spent in taken.items()]


def measure(given: argparse.Namespace) -> None:
    """Measure everything in turns, and print the medians and targets."""
    turns: int = given.turns
    print(f"startup: medians of {turns} turns; {machine()}")
    commands = {name: [sys.executable, *arguments] for name, arguments in COMMANDS.items()}
    for name, python in peers.interpreters(given).items():
        module = peers.PEERS[name].module
        commands[f"import {module}"] = [python, "-c", f"import {module}"]
    for command in commands.values():
        seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(turns):
        for name, command in commands.items():
            taken[name].append(seconds(command))
    middle = {name: statistics.median(times) for name, times in taken.items()}
    for name, median in middle.items():
        ratio = f"{median / middle[PYDANTIC]:5.2f} x {PYDANTIC}"
        print(f"  {name:22} {median * 1000:7.0f} ms  {ratio}  (least {min(taken[name]) * 1000:.0f})")
    print_targets(
        [
            Target(f"{HELP} to {PYDANTIC}", middle[HELP] / middle[PYDANTIC], 3, " times"),
            Target(f"{CORE} to {PYDANTIC}", middle[CORE] / middle[PYDANTIC], 2, " times"),
            *measure_short(turns),
        ]
    )


def print_imports(command: str, most: int) -> None:
    """Print the `most` modules with the longest import times of their own when a command starts."""
    arguments = [sys.executable, "-X", "importtime", *KARENINA, command, *SHORT.get(command, [])]
    with TemporaryDirectory() as folder:
        write_run(Path(folder))
        done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=folder, env=peers.ENVIRONMENT)
    lines = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if "|" in line]
    modules = [(int(own), int(whole), name.strip()) for own, whole, name in lines if own.strip().isdigit()]
    print(
        f"{len(modules)} modules, {sum(own for own, _, _ in modules) / 1000:.0f} ms; own and whole ms of the longest:"
    )
    for own, whole, name in sorted(modules, reverse=True)[:most]:
        print(f"  {own / 1000:6.1f} {whole / 1000:7.1f}  {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--imports", nargs="?", const="--help", choices=["--help", *SHORT])
    peers.add_options(parser)
    given = parser.parse_args()
    if given.imports:
        print_imports(given.imports, 40)
    else:
        measure(given)
