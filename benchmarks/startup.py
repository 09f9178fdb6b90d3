"""How long one waits for `karenina --help` and for `import karenina_core`, beside `import pydantic`.

    python benchmarks/startup.py               medians of 21 turns, and the ratios
    python benchmarks/startup.py --imports     what takes the time of `karenina --help`, module by module

Each is a process of its own, started in turns, with its modules compiled before. Printed are medians of the time on the
wall, and beside them what an empty interpreter takes, and what importing other frameworks takes where an interpreter
that has them is given (`peers.py`).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import peers
from measuring import Target, machine, print_targets

PYDANTIC, CORE, HELP = "import pydantic", "import karenina_core", "karenina --help"
COMMANDS = {
    "empty interpreter": ["-c", "pass"],
    PYDANTIC: ["-c", PYDANTIC],
    CORE: ["-c", CORE],
    HELP: ["-c", "import sys; sys.argv = ['karenina', '--help']; from karenina_cli import main; main()"],
}


def seconds(command: list[str]) -> float:
    """Return the time on the wall of one process."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=peers.ENVIRONMENT)
    return time.perf_counter() - began


def measure(given: argparse.Namespace) -> None:
    """Take turns, and print medians and targets."""
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
        ]
    )


def print_imports(most: int) -> None:
    """Print the modules with the longest own time while `karenina --help` starts."""
    arguments = [sys.executable, "-X", "importtime", *COMMANDS[HELP]]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=peers.ENVIRONMENT)
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
    parser.add_argument("--imports", action="store_true")
    peers.add_options(parser)
    given = parser.parse_args()
    if given.imports:
        print_imports(40)
    else:
        measure(given)
