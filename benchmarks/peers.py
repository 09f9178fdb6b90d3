"""Other frameworks to compare with: which of them are available, the server they all call, and their figures.

The peers are the scripts `bench_NAME.py` in a folder (`--peers`). Each is run by the interpreter set with
`--peer-python NAME=PATH` or the variable `PEER_NAME`; peers without an interpreter are reported and omitted. Each
prints a line `RESULT {...}` with the CPU milliseconds per question (`cpu_ms_per_q`), the ratio of ideal time to wall
time (`eff`), and the memory before and after (`rss0_mb`, `rss1_mb`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_server

FLOOR = "bare aiohttp loop"
PYDANTIC_EVALS = "pydantic-evals"


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework or the bare loop: its label, the arguments for its script, and the module that its users import."""

    label: str
    options: tuple[str, ...] = ()
    module: str = ""


PEERS = {
    "floor": Peer(FLOOR, module="aiohttp"),
    "pyeval": Peer(PYDANTIC_EVALS, ("--judge", "structured"), "pydantic_evals"),
    "inspect": Peer("Inspect AI", ("--scorer", "structured"), "inspect_ai"),
    "deepeval": Peer("DeepEval", module="deepeval"),
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of measured processes: Python writes its compiled files, as it does for users."""


@dataclass(frozen=True, slots=True)
class Way:
    """A program that answers and judges the questions, as a command that prints its figures."""

    name: str
    command: tuple[str, ...]
    count: int

    def figures(self, url: str) -> dict[str, Any]:
        """Run the command with the server at `url` (without `/v1`), and return its figures.

        Raises `SystemExit` if the command fails or not all questions are correct.
        """
        environment = {**ENVIRONMENT, "FAKE_BASE": url}
        done = subprocess.run(self.command, capture_output=True, text=True, env=environment, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or not lines:
            raise SystemExit(f"{self.name} failed:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
        if found["ok"] != self.count:
            raise SystemExit(f"{self.name}: only {found['ok']} of {self.count} questions are correct")
        return found

    def asking(self, count: int) -> Way:
        """Return a copy for a different number of questions. In the command, the number follows `-n`."""
        at = self.command.index("-n") + 1
        return Way(self.name, (*self.command[:at], str(count), *self.command[at + 1 :]), count)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that locate the peers."""
    parser.add_argument("--peers", type=Path, default=Path(__file__).parents[2] / "shared" / "peers")
    parser.add_argument("--peer-python", action="append", default=[], metavar="NAME=PATH")


def interpreters(given: argparse.Namespace) -> dict[str, str]:
    """Return the interpreters of the available peers by name. The other peers are reported, with the reason.

    Raises `SystemExit` if a peer is unknown.
    """
    found = {name: os.environ.get(f"PEER_{name.upper()}", "") for name in PEERS}
    for text in given.peer_python:
        name, _, path = text.partition("=")
        if name not in PEERS:
            raise SystemExit(f"--peer-python {text}: there is no such peer; known peers are {', '.join(PEERS)}")
        found[name] = path
    here: dict[str, str] = {}
    for name, python in found.items():
        script = given.peers / f"bench_{name}.py"
        if script.is_file() and python and Path(python).exists():
            here[name] = python
        else:
            why = f"there is no {script}" if not script.is_file() else f"give --peer-python {name}=PATH"
            print(f"  {PEERS[name].label}: left out, {why}")
    return here


def ways(given: argparse.Namespace, counts: Mapping[str, int], at_once: int, latency: float) -> list[Way]:
    """Return the programs of the available peers. `counts` maps their names to numbers of questions.

    `at_once` is the number of concurrent calls, and `latency` is the latency of the server in seconds.
    """
    sizes = ("-c", str(at_once), "-l", f"{latency * 1000:g}")
    return [
        Way(
            PEERS[name].label,
            (python, str(given.peers / f"bench_{name}.py"), "-n", str(counts[name]), *sizes, *PEERS[name].options),
            counts[name],
        )
        for name, python in interpreters(given).items()
        if name in counts
    ]


@contextmanager
def serving(given: argparse.Namespace, latency: float) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Run a server, and yield its URL (without `/v1`) and a function that returns an item's code word.

    The peers' own server is used if it exists, because their scripts know only its words. Each reply is sent `latency`
    seconds after its request.
    """
    script = given.peers.parent / "servers" / "fake_openai.py"
    if not script.is_file():
        with fake_server.running(latency) as server:
            yield server.url.removesuffix("/v1"), fake_server.code
        return
    spec = importlib.util.spec_from_file_location("peers_server", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options = ["--port", "0", "--latency-ms", f"{latency * 1000:g}"]
    process = subprocess.Popen([sys.executable, script, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].removesuffix("/v1"), module.code
    finally:
        process.terminate()
        process.wait()
